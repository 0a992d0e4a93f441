"""Loops that are trimmed, and later code that names what was in them."""

from __future__ import annotations

from typing import Any

from sim.cases.case import Case, did
from stepwell import Break, Context, Continue, Rollback, done, step, workflow

TIMES = 6


async def _undo(name: str, result: str) -> None:
    did(f"undid {name}")


@step(compensate=_undo)
async def _do(name: str) -> str:
    return name


@workflow
async def batching(ctx: Context) -> None:
    """Rolls back to a checkpoint of an iteration that is trimmed."""
    await ctx.step("set up", _do, "set up")

    async def body(inner: Context, number: int) -> Any:
        if number == 1:
            await inner.rollback_checkpoint("line")
        if number == TIMES - 1:
            await inner.step("last", _do, "last")
            return Break(None)
        return Continue(number + 1)

    await ctx.loop("numbers", body, 0, trim_every=1, keep=1)
    raise Rollback("undo what came after the line", to="line")


@workflow
async def spawned(ctx: Context, number: int) -> int:
    """What a loop spawns."""
    return number


@workflow
async def spawning(ctx: Context) -> int:
    """Waits for runs that trimmed iterations have spawned."""

    async def body(inner: Context, ids: list[str]) -> Any:
        ids = [*ids, await inner.spawn(spawned, len(ids))]
        return Break(ids) if len(ids) == TIMES else Continue(ids)

    ids = await ctx.loop("numbers", body, [], trim_every=1, keep=1)
    for run_id in ids:
        await ctx.wait_any("one", child=done(run_id))
    return len(ids)


CASES = {
    "a checkpoint in a trimmed iteration": Case(batching, status="compensated", done=("undid last",)),
    "runs spawned by trimmed iterations": Case(spawning, output=TIMES),
}
