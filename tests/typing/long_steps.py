# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must infer of long and transactional steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from stepwell import Budget, Context, Engine, StepContext, Transaction, step, workflow


@dataclass
class Cursor:
    page: int = 0


@step(budget=Budget(time="30s", rows=1_000))
async def load(info: StepContext, pages: int) -> int:
    assert_type(info.state_as(Cursor), Cursor | None)
    assert_type(info.state_as(Cursor, Cursor()), Cursor)
    assert_type(info.state, Any)
    assert_type(info.should_yield(), bool)
    await info.checkpoint(Cursor(1))
    info.yield_(Cursor(2))


@step(transaction=True)
async def reserve(tx: Transaction, item: str) -> int:
    assert_type(tx.execute("select 1"), list[tuple[Any, ...]])
    return tx.changes


@step(transaction=True)
def put_back(tx: Transaction, item: str) -> None:
    tx.execute("delete from stock where item = ?", (item,))


@workflow
async def flow(ctx: Context) -> int:
    assert_type(await ctx.step(load, 5), int)
    assert_type(await ctx.step(reserve, "x"), int)
    await ctx.step(put_back, "x")
    await ctx.step(reserve, 1)  # type: ignore[call-overload]
    return await ctx.step(reserve.options(name="again"), "y")


async def main(engine: Engine) -> None:
    assert_type(await engine.transact(lambda tx: tx.execute("select 1")), list[tuple[Any, ...]])
