"""Events: many workflows wait for one message, and another message starts workflows.

You learn: an `Event` class names a topic and its fields. `ctx.topic` waits for an event, `where` selects it, and
`ctx.wait_any` waits for the first of an event, a signal, a timer or a child. A topic keeps an event with `retain`, so
`since="start"` finds it also if it arrived before the wait. `engine.on` starts a workflow with each event of a topic,
whichever process publishes it.
"""

from __future__ import annotations

import asyncio
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, Event, timer, topic, workflow


class Paid(Event):
    order: str
    amount: int


class Shipped(Event):
    order: str
    parcels: int = 1


async def send(order: str, text: str) -> None:
    print(f"{order}: {text}")


@workflow
async def ship(ctx: Context, paid: Paid) -> str:
    """Started by a payment; waits until its own order is shipped."""
    await ctx.step("thank", send, paid.order, f"thank you for {paid.amount} EUR")
    own = {"order": paid.order}
    first = await ctx.wait_any(shipped=topic(Shipped, where=own, since="start"), late=timer("2d"))
    if first.label == "late":
        await ctx.step("excuse", send, paid.order, "we are late")
        shipped = await ctx.topic(Shipped, where=own, since="start")
    else:
        shipped = first.value
    return f"{shipped.parcels} parcels"


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/shop.db", workflows=[ship]) as engine:
            await engine.on(Paid, start=ship, key="order")
            for order in ("order-1", "order-2"):
                await engine.publish(Paid(order, amount=20))
            run = await engine.runs.handle(ship, "order-2")
            await engine.publish(Shipped("order-2", parcels=3), retain="7d")
            print(f"order-2: {await run.result()}")


if __name__ == "__main__":
    asyncio.run(main())
