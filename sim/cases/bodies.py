"""Bodies that raise what nobody expects, and runs whose values nobody can look at."""

from __future__ import annotations

from typing import Any

from sim.cases.case import Case, did
from stepwell import Context, Retry, StepContext, step, workflow
from stepwell.testing import scripts
from stepwell.testing.sync import SyncKit, SyncRun

_TWICE = Retry(max_attempts=2, initial="10ms")


@step(retry=_TWICE)
def _first_row(info: StepContext, rows: list[int]) -> int:
    did(f"attempt {info.attempt} at a row")
    return next(iter(rows))


@step(retry=_TWICE)
async def _exhausted(info: StepContext) -> int:
    did(f"attempt {info.attempt} at a generator")
    raise GeneratorExit


@workflow
async def stopping(ctx: Context) -> list[Any]:
    """Steps that raise what coroutines cannot."""
    row = await ctx.try_step(_first_row, [])
    generator = await ctx.try_step(_exhausted)
    return [row.ok, row.attempts, generator.ok, generator.attempts]


class _Lazy:
    """Looks up what it is when it is looked at, and does not find it."""

    @property
    def __class__(self) -> Any:
        raise LookupError("there is no such user")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise LookupError("there is no such user")


@workflow
async def odd(ctx: Context) -> Any:
    """Gives a value that nobody can look at."""
    return _Lazy()


@workflow
async def usual(ctx: Context) -> str:
    """Goes on beside a run that gives an odd value."""
    await ctx.receive("go")
    return "done"


def _start_odd(kit: SyncKit, run: SyncRun[Any], /) -> None:
    kit.start(odd, delay="1m")
    kit.clock.advance("2m")


CASES = {
    "a value that nobody can look at": Case(usual, output="done", script=(_start_odd, scripts.send("go"))),
    "bodies that raise StopIteration": Case(
        stopping,
        output=[False, 2, False, 2],
        done=(
            "attempt 1 at a row",
            "attempt 2 at a row",
            "attempt 1 at a generator",
            "attempt 2 at a generator",
        ),
    ),
}
