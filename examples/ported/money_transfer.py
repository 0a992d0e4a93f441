"""Money transfer, as in Temporal's first tutorial: withdraw, deposit, and give the money back if nobody takes it.

The two activities are steps. The refund is the compensation of the withdrawal, so the workflow has no `except`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from stepwell import Context, Engine, Fatal, Retry, RunFailed, StepContext, step, workflow


@dataclass(frozen=True)
class Transfer:
    source: str
    target: str
    amount: int


@dataclass
class Bank:
    """A bank that takes an idempotency key: what is sent twice is booked once."""

    accounts: dict[str, int] = field(default_factory=dict)
    bookings: dict[str, str] = field(default_factory=dict)

    def book(self, key: str, account: str, amount: int) -> str:
        if account not in self.accounts:
            raise Fatal(f"there is no account {account}")
        if self.accounts[account] + amount < 0:
            raise Fatal(f"{account} has only {self.accounts[account]}")
        if key not in self.bookings:
            self.bookings[key] = f"{account} {amount:+}"
            self.accounts[account] += amount
        return self.bookings[key]


bank = Bank()
patient = Retry(max_attempts=10, initial="1s", max_delay="1m")


async def refund(ctx: StepContext, transfer: Transfer) -> None:
    bank.book(ctx.idempotency_key, transfer.source, transfer.amount)


@step(retry=patient, timeout="10s", compensate=refund)
async def withdraw(ctx: StepContext, transfer: Transfer) -> str:
    return bank.book(ctx.idempotency_key, transfer.source, -transfer.amount)


@step(retry=patient, timeout="10s")
async def deposit(ctx: StepContext, transfer: Transfer) -> str:
    return bank.book(ctx.idempotency_key, transfer.target, transfer.amount)


@workflow
async def money_transfer(ctx: Context, transfer: Transfer) -> str:
    withdrawn = await ctx.step(withdraw, transfer)
    deposited = await ctx.step(deposit, transfer)
    return f"{withdrawn}, {deposited}"


async def main() -> None:
    bank.accounts |= {"ann": 100, "bob": 0}
    async with Engine("memory://", workflows=[money_transfer]) as engine:
        run = await engine.start(money_transfer, Transfer("ann", "bob", 40), key="transfer-1")
        print(await run.result())
        run = await engine.start(money_transfer, Transfer("ann", "cy", 40), key="transfer-2")
        try:
            await run.result()
        except RunFailed as error:
            print(error.status)
    print(bank.accounts)


if __name__ == "__main__":
    asyncio.run(main())
