"""Timers of every kind, on time: the same live, replayed, and after every crash."""

from __future__ import annotations

from sim.cases.case import Case
from stepwell import Context, Retry, StepContext, done, signal, step, timer, workflow


@step(retry=Retry(max_attempts=2, initial="40m", jitter=0))
async def _flaky(info: StepContext) -> int:
    if info.attempt == 1:
        raise OSError("connection reset")
    return info.attempt


@workflow
async def sleeping(ctx: Context) -> int:
    """A child that takes its time."""
    await ctx.sleep("long", "50m")
    return 1


@workflow
async def timing(ctx: Context) -> list[int]:
    """How many minutes each wait took."""
    minutes: list[int] = []
    since = ctx.now()

    def note() -> None:
        nonlocal since
        minutes.append(round((ctx.now() - since).total_seconds() / 60))
        since = ctx.now()

    await ctx.sleep("ten", "10m")
    note()
    await ctx.receive("never", timeout="20m", default=None)
    note()
    await ctx.wait_any("first", message=signal("never"), late=timer("30m"), later=timer("60m"))
    note()
    await ctx.step(_flaky)
    note()
    child = await ctx.spawn(sleeping)
    await ctx.wait_any("child", ended=done(child), late=timer("2h"))
    note()
    return minutes


CASES = {"timers of every kind": Case(timing, output=[10, 20, 30, 40, 50])}
