"""Timers of every kind, on time: the same live, replayed, and after every crash."""

from __future__ import annotations

import asyncio

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


@workflow
async def limiting(ctx: Context) -> list[int]:
    """How many minutes each limit of asyncio took, and what it stopped."""
    minutes: list[int] = []
    since = ctx.now()

    def note() -> None:
        nonlocal since
        minutes.append(round((ctx.now() - since).total_seconds() / 60))
        since = ctx.now()

    await asyncio.sleep(600)
    note()
    try:
        async with asyncio.timeout(1200):
            await ctx.receive("never")
    except TimeoutError:
        note()
    try:
        async with asyncio.timeout(1800):
            await ctx.sleep("too long", "5h")
    except TimeoutError:
        note()
    async with asyncio.timeout(3600):
        await ctx.sleep("in time", "40m")
    note()

    async def late(inner: Context) -> None:
        await asyncio.sleep(3000)

    async def _later(inner: Context) -> None:
        await inner.sleep("long", "5h")

    await ctx.race("race", {"late": late, "later": _later})
    note()
    return minutes


CASES = {
    "timers of asyncio": Case(limiting, output=[10, 20, 30, 40, 50]),
    "timers of every kind": Case(timing, output=[10, 20, 30, 40, 50]),
}
