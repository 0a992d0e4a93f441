"""Plain functions that stand in line for a thread, and raise what futures do not take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from sim.cases.case import Tried
from sim.cases.stage import Stage
from stepwell import Context, Retry, RunFailed, step, workflow
from stepwell.virtual.loop import VirtualLoop

T = TypeVar("T")

LASTS = 0.4  # seconds, of each call
ITEMS = 10


class OneThread:
    """One thread for blocking calls: they stand in line, and each takes its time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._is_free_at = 0.0

    def begin(self, call: Callable[[], T], began: Callable[[], None] | None) -> asyncio.Future[T]:
        """Begin the call when all that were asked for before have ended."""
        future: asyncio.Future[T] = self._loop.create_future()
        begins_at = max(self._loop.time(), self._is_free_at)
        self._is_free_at = begins_at + LASTS
        if began is not None:
            self._loop.call_at(begins_at, began)
        self._loop.call_at(begins_at + LASTS, self._end, call, future)
        return future

    def _end(self, call: Callable[[], T], future: asyncio.Future[T]) -> None:
        if not future.done():
            future.set_result(call())


@step(timeout="1s")
def _resize(number: int) -> int:
    return number


@workflow
async def resizing(ctx: Context) -> int:
    """More items than there are threads, none of which takes long."""

    async def item(inner: Context, number: int) -> int:
        return await inner.step(_resize, number)

    return len(await ctx.map("items", item, range(ITEMS)))


@step(retry=Retry(max_attempts=2, initial="10ms"))
def _first_row(rows: list[int]) -> int:
    return next(iter(rows))


@workflow
async def reading(ctx: Context) -> int:
    """A plain function that raises `StopIteration`."""
    return await ctx.step(_first_row, [])


async def _resize_all(stage: Stage) -> str:
    async with stage.engine("worker", [resizing]) as engine:
        try:
            resized = await (await engine.start(resizing)).result()
        except RunFailed as failed:
            return f"it failed: {failed}"
        return "" if resized == ITEMS else f"{resized} items of {ITEMS}"


async def _read(stage: Stage) -> str:
    async with stage.engine("worker", [reading]) as engine:
        try:
            await (await engine.start(reading)).result()
        except RunFailed as failed:
            kind = failed.failure.type if failed.failure is not None else ""
            return "" if kind == "StopIteration" else f"it failed by {kind}"
        return "it completed without a row"


def queueing() -> Iterator[Tried]:
    """A timeout counts from the beginning of the body."""
    with Stage(OneThread) as stage:
        yield Tried("many items and one thread", "live", stage.play(_resize_all(stage)))


def stopping() -> Iterator[Tried]:
    """What a plain function raises is a failed attempt."""
    with Stage() as stage:
        yield Tried("a plain function without a row", "live", stage.play(_read(stage)))


PLAYS: dict[str, Any] = {"timeouts in line for a thread": queueing, "StopIteration in a thread": stopping}
