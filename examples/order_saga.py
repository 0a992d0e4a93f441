"""An order saga: reserve, charge, ship; and if one of them fails for good, undo the completed steps.

You learn: `@step(compensate=...)` names the function that undoes a step. When the workflow fails, the compensations of
the completed steps run by themselves, the last one first, each with its step's own input and result. They survive a
crash as steps do.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, Fatal, Retry, RunFailed, step, workflow


@dataclass(frozen=True)
class Order:
    number: str
    item: str
    price: int
    address: str


async def release(order: Order, reservation: str) -> None:
    print(f"{order.number}: released {reservation}")


@step(compensate=release)
async def reserve(order: Order) -> str:
    print(f"{order.number}: reserved {order.item}")
    return f"reservation-{order.number}"


async def refund(order: Order, payment: str) -> None:
    print(f"{order.number}: refunded {payment}")


@step(retry=Retry(max_attempts=5), timeout="30s", compensate=refund)
async def charge(order: Order) -> str:
    print(f"{order.number}: charged {order.price} EUR")
    return f"payment-{order.number}"


@step
async def ship(order: Order) -> str:
    if order.address == "the moon":
        raise Fatal(f"no carrier delivers to {order.address}")  # Fatal: trying again would not help
    print(f"{order.number}: shipped to {order.address}")
    return f"parcel-{order.number}"


@workflow
async def fulfil(ctx: Context, order: Order) -> str:
    await ctx.step(reserve, order)
    await ctx.step(charge, order)
    return await ctx.step(ship, order)


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/shop.db", workflows=[fulfil]) as engine:
            good = Order("order-1", "a lamp", 40, "Lamp Street 1")
            run = await engine.start(fulfil, good, key=good.number)
            print(f"{good.number}: done, {await run.result()}")

            bad = Order("order-2", "a rocket", 900, "the moon")
            run = await engine.start(fulfil, bad, key=bad.number)
            try:
                await run.result()
            except RunFailed as error:
                print(f"{bad.number}: {error.status}")


if __name__ == "__main__":
    asyncio.run(main())
