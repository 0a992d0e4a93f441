"""Approval by a person: ask, wait for days, ask a second person, and decide without an answer in the end.

You learn: `ctx.receive` waits for a signal, of one name or of several, until its `timeout`. A signal
may be sent before the workflow waits for it; it is kept. While the workflow waits, it needs no memory and
survives restarts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from stepwell import Context, Engine, WaitTimeout, workflow


@dataclass(frozen=True)
class Expense:
    number: str
    amount: int
    patience: str = "3d"  # how long each person may take


async def send_request(expense: Expense, person: str) -> None:
    print(f"{expense.number}: asked the {person} about {expense.amount} EUR")


async def ask(ctx: Context, expense: Expense, person: str) -> str | None:
    """The person's answer, or None if there is none in time."""
    await ctx.step(f"ask-{person}", send_request, expense, person)
    try:
        answer = await ctx.receive("approve", "reject", timeout=expense.patience, name=f"answer-of-{person}")
    except WaitTimeout:
        return None
    verdict = "approved" if answer.name == "approve" else "rejected"
    return f"{verdict} by {answer.payload}"


@workflow
async def approve_expense(ctx: Context, expense: Expense) -> str:
    answer = await ask(ctx, expense, "manager")
    if answer is None:
        answer = await ask(ctx, expense, "director")
    return answer or "rejected, because there was no answer"


async def main() -> None:
    with TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/expenses.db", workflows=[approve_expense]) as engine:
            run = await engine.start(approve_expense, Expense("expense-1", 80), key="expense-1")
            await engine.signal("expense-1", "approve", "Ann")
            print(f"expense-1: {await run.result()}")

            run = await engine.start(approve_expense, Expense("expense-2", 900, patience="500ms"), key="expense-2")
            print(f"expense-2: {await run.result()}")


if __name__ == "__main__":
    asyncio.run(main())
