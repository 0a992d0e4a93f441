"""Onboarding: a welcome mail, and a reminder after two days for customers who have not become active.

You learn: a wait of days is one line of ordinary code. The signal "active" may arrive at any time, also before
the workflow waits for it; the two days count from the first visit, also while no worker runs.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, WaitTimeout, workflow


@dataclass(frozen=True)
class Customer:
    name: str
    patience: str = "2d"


async def send_mail(name: str, subject: str) -> None:
    print(f"mail to {name}: {subject}")


@workflow
async def onboard(ctx: Context, customer: Customer) -> str:
    await ctx.step("welcome", send_mail, customer.name, "Welcome!")
    try:
        await ctx.receive("active", timeout=customer.patience)
    except WaitTimeout:
        await ctx.step("remind", send_mail, customer.name, "Did you know what you can do with it?")
        return "reminded"
    return "active"


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/customers.db", workflows=[onboard]) as engine:
            ann = await engine.start(onboard, Customer("Ann", patience="1s"), key="ann")
            bob = await engine.start(onboard, Customer("Bob", patience="1s"), key="bob")
            await engine.signal("ann", "active")
            print(f"Ann is {await ann.result()}, Bob is {await bob.result()}")


if __name__ == "__main__":
    asyncio.run(main())
