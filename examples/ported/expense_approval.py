"""Expenses, as in the sample of Cadence and Temporal: ask a person, wait for the decision, and pay or say no.

The decision is a request, so whoever clicks is told at once whether it counts. A validator keeps out a decision by the
person who wants the money.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from stepwell import Context, Engine, Request, workflow
from stepwell.errors import AskRefused


@dataclass(frozen=True)
class Expense:
    employee: str
    amount: int


@dataclass(frozen=True)
class Decision:
    by: str
    approved: bool


decide = Request[Decision, str]("decide")


async def notify(expense: Expense) -> None:
    print(f"{expense.employee} wants {expense.amount} EUR")


async def pay(expense: Expense) -> None:
    print(f"paid {expense.amount} EUR to {expense.employee}")


@workflow
async def approve_expense(ctx: Context, expense: Expense) -> str:
    decisions: asyncio.Queue[Decision] = asyncio.Queue()

    def check(decision: Decision) -> None:
        if decision.by == expense.employee:
            raise ValueError("nobody approves their own expenses")

    async def on_decide(ctx: Context, decision: Decision) -> str:
        decisions.put_nowait(decision)
        return f"thank you, {decision.by}"

    ctx.handle(decide, on_decide, validate=check)
    await ctx.step(notify, expense)
    try:
        async with asyncio.timeout(3 * 86_400):
            decision = await decisions.get()
    except TimeoutError:
        return "rejected: nobody has decided"
    if not decision.approved:
        return f"rejected by {decision.by}"
    await ctx.step(pay, expense)
    return f"approved by {decision.by}"


async def main() -> None:
    async with Engine("memory://", workflows=[approve_expense]) as engine:
        run = await engine.start(approve_expense, Expense("ann", 80), key="expense-1")
        try:
            await engine.ask("expense-1", decide, Decision("ann", approved=True))
        except AskRefused as refused:
            print(refused.title)
        print(await engine.ask("expense-1", decide, Decision("bob", approved=True)))
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
