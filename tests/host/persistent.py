"""A program that starts runs for ever, and notes what was acknowledged: `python persistent.py KIND URL FILE`.

KIND is Engine, under `asyncio.run`, or SyncEngine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import time

from stepwell import Context, Engine, SyncContext, SyncEngine, WorkerSettings, workflow

SETTINGS = WorkerSettings(lease="1s", sweep_every="200ms")
EXPECTED = 6
PATIENCE = "60s"


def double(number: int) -> int:
    time.sleep(0.02)
    return number * 2


async def add(number: int) -> int:
    await asyncio.sleep(0.02)
    return number + 4


@workflow
async def sums(ctx: Context) -> int:
    doubled = await ctx.step("double", double, 1)
    await ctx.sleep("nap", "20ms")
    return await ctx.step("add", add, doubled)


@workflow
def plain(ctx: SyncContext) -> int:
    return ctx.step("double", double, 1) + ctx.step("again", double, 2)


FLOWS = (sums, plain)


class Acks:
    """Lines in a file, each there when `note` returns."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def note(self, kind: str, key: str) -> None:
        os.write(self._file, f"{kind} {key}\n".encode())


async def asynchronous(url: str, acks: Acks) -> None:
    """Runs for ever, four at a time."""

    async def one(numbers: range | itertools.count[int]) -> None:
        for number in numbers:
            key = f"{os.getpid()}-{number}"
            run = await engine.start(FLOWS[number % 2], key=key)
            acks.note("started", key)
            assert await run.result(timeout=PATIENCE) == EXPECTED
            acks.note("ended", key)

    async with Engine(url, workflows=FLOWS, settings=SETTINGS) as engine, asyncio.TaskGroup() as group:
        for first in range(4):
            group.create_task(one(itertools.count(first, 4)))


def blocking(url: str, acks: Acks) -> None:
    """Runs for ever, one after the other, each awaited after the next was started."""
    with SyncEngine(url, workflows=FLOWS, settings=SETTINGS) as engine:
        before = None
        for number in itertools.count():
            key = f"{os.getpid()}-{number}"
            run = engine.start(FLOWS[number % 2], key=key)
            acks.note("started", key)
            if before is not None:
                assert before[0].result(timeout=PATIENCE) == EXPECTED
                acks.note("ended", before[1])
            before = (run, key)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which whoever runs this may have ignored
    noted = Acks(sys.argv[3])
    if sys.argv[1] == "Engine":
        asyncio.run(asynchronous(sys.argv[2], noted))
    else:
        blocking(sys.argv[2], noted)
