"""A subscription, as in Temporal's entity workflows: one run for each customer, for as long as they stay.

It waits for the next payment and for signals at the same time. After a year it continues as new, so its history stays
short; signals that it has not read move along.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta

from stepwell import Context, Engine, Signal, StepContext, workflow

change_price = Signal[int]("change price")


@dataclass(frozen=True)
class Subscription:
    customer: str
    price: int
    period: timedelta = timedelta(days=30)
    paid: int = 0


async def welcome(customer: str) -> None:
    print(f"{customer}: welcome")


async def charge(ctx: StepContext, customer: str, price: int) -> None:
    print(f"{customer}: {price} EUR, with the key {ctx.idempotency_key.partition(':')[2]}")


async def say_goodbye(customer: str) -> None:
    print(f"{customer}: goodbye")


@workflow
async def subscription(ctx: Context, now: Subscription) -> str:
    if now.paid == 0:
        await ctx.step(welcome, now.customer)
    for _ in range(12):
        due = ctx.now() + now.period
        while message := await ctx.receive(change_price, "cancel", until=due, default=None, name="change"):
            if message.name == "cancel":
                await ctx.step(say_goodbye, now.customer)
                return f"{now.customer} paid {now.paid} times"
            now = replace(now, price=message.payload)
        await ctx.step(charge, now.customer, now.price)
        now = replace(now, paid=now.paid + 1)
        ctx.state["paid"] = now.paid
    ctx.continue_as_new(now)


async def main() -> None:
    async with Engine("memory://", workflows=[subscription]) as engine:
        run = await engine.start(subscription, Subscription("ann", 9, timedelta(milliseconds=100)), key="ann")
        print("paid:", await engine.state("ann", "paid", wait="10s"))
        await engine.signal("ann", change_price, 12)
        await asyncio.sleep(0.2)
        await engine.signal("ann", "cancel")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
