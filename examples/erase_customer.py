"""A customer asks to be forgotten: the runs of one person are erased, and nobody else's.

You learn: an attribute that says to whom a run belongs, an erasure that is counted first, what keeps a run from being
erased, and what the audit knows afterwards: that it happened, and nothing of the values.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stepwell import Context, Engine, workflow


@dataclass(frozen=True)
class Order:
    customer: int
    address: str


async def label(address: str) -> str:
    return f"to {address}"


@workflow
async def ship(ctx: Context, order: Order) -> str:
    return await ctx.step(label, order.address)


@workflow
async def sell(ctx: Context, order: Order) -> str:
    ctx.set_attributes(customer=order.customer)
    return await ctx.child(ship, order)


@workflow
async def subscription(ctx: Context, order: Order) -> str:
    await ctx.receive("cancel")
    return "ended"


async def main() -> None:
    async with Engine("memory://", workflows=[sell, ship, subscription]) as engine:
        for customer, address in ((42, "Ann, Lamp Street 1"), (7, "Bob, Moon Road 2"), (42, "Ann, Lamp Street 1")):
            await (await engine.start(sell, Order(customer, address))).result()
        order, whose = Order(42, "Ann, Lamp Street 1"), {"customer": 42}
        running = await engine.start(subscription, order, key="subscription-42", attributes=whose)

        plan = await engine.retention.erase("attr.customer:42", dry_run=True)
        print(f"{plan.matched} runs match; {plan.runs} would be erased with their children, {len(plan.left)} is active")
        await engine.signal("subscription-42", "cancel")
        await running.result()  # a run that is active stays, and so does its tree
        done = await engine.retention.erase("attr.customer:42", by="dpo", reason="ticket 815")
        print(f"erased {done.runs} runs, {len(done.left)} left")
        print(f"other customers have {len(await engine.runs.list('workflow:sell'))} order")
        acts = await engine.holds.list_acts()
        print(f"the audit has {len(acts)} lines, such as: {acts[0].verb} by {acts[0].by}, {acts[0].reason[-10:]}")


if __name__ == "__main__":
    asyncio.run(main())
