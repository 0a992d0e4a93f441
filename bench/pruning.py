"""Pruning: ended runs are deleted while nobody works, and while W2 runs; afterwards everything is as on an empty
database.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import AsyncExitStack

import apsw
import psycopg

from bench.arenas import Arena
from bench.crowd import start_all
from bench.growth import compare, make_side
from bench.multiply import multiply
from bench.probes import Bench, opened, path_of
from bench.report import Report, at_least, at_most
from bench.sizes import Size
from bench.workflows import sequence
from stepwell.care import Retention
from stepwell.services.pruner import Pruner
from stepwell.stores.base.views import RunFilter

_IDLE_MIN, _BUSY_MIN = 2_000, 200  # runs/s
_LOSS_MAX = 0.15
_ROUNDS = 6  # of W2, by turns with and without
_DAY = 86_400_000_000
_KEEPS = Retention("1h")


async def prune(arena: Arena, size: Size, report: Report) -> None:
    """How fast ended runs are deleted, what that costs others, and what is left of them."""

    async def idle(url: str) -> None:
        _age(url)
        report.say("prune: nobody works")
        before = arena.size(url)
        async with opened(url, serves=False) as bench:
            began = time.perf_counter()
            done = await bench.engine.retention.prune(_KEEPS)
            rate = done.runs / (time.perf_counter() - began)
        report.timed(f"prune  {done.runs:,} runs, nobody works, runs/s", f"{rate:,.0f}", *at_least(rate, _IDLE_MIN))
        report.line("prune  bytes of the database before", f"{before:,}")

    async with AsyncExitStack() as stack:
        small = await make_side(stack, arena, 0, size.asked * 2)
        report.say(f"prune: {size.ended:,} ended runs are made")
        pruned = await make_side(stack, arena, size.ended, size.asked * 2, idle)
        await compare(
            small, pruned, size, report, f"prune  {size.ended:,} runs were deleted: against an empty database"
        )
    await _beside(arena, size, report)


async def _grow(url: str, count: int) -> None:
    async with opened(url) as bench:
        done = await bench.engine.start(sequence, 3)
        await done.result()
    multiply(url, done.run_id, count)
    _age(url)


def _age(url: str) -> None:
    """Let the runs have ended a day ago."""
    change = f"set ended_at = ended_at - {_DAY} where ended_at is not null"
    if url.startswith("sqlite:"):
        file = apsw.Connection(str(path_of(url)))
        file.execute(f"update stepwell_runs {change}")
        file.close()
        return
    with psycopg.connect(url) as connection:
        connection.execute(f"update stepwell.runs {change}".encode())


async def _beside(arena: Arena, size: Size, report: Report) -> None:
    """W2 with a pruner beside it, and without, by turns."""
    with_it: list[float] = []
    without: list[float] = []
    pruned = seconds = 0.0
    with arena.database() as url:
        await _grow(url, size.ended // 4)
        async with opened(url) as bench:
            await (await bench.engine.start(sequence, 50)).result()
            bench.engine.retention.policy = _KEEPS
            pruner = Pruner(bench.engine.retention, lambda: True)
            for round_ in range(_ROUNDS):
                report.say(f"prune: beside W2, round {round_ + 1}")
                without.append((await start_all(bench, size))[0])
                left = await _count(bench)
                began = time.perf_counter()
                task = asyncio.get_running_loop().create_task(_serve(bench, pruner))
                with_it.append((await start_all(bench, size))[0])
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                seconds += time.perf_counter() - began
                pruned += left + size.crowd - await _count(bench)
    loss = 1 - statistics.median(with_it) / statistics.median(without)
    report.timed("prune  beside W2, runs/s", f"{pruned / seconds:,.0f}", *at_least(pruned / seconds, _BUSY_MIN))
    rates = f"{statistics.median(with_it):,.0f} / {statistics.median(without):,.0f}"
    report.timed(f"prune  what W2 loses ({rates} steps/s)", f"{loss:.2f}", *at_most(loss, _LOSS_MAX))


async def _serve(bench: Bench, pruner: Pruner) -> None:
    """What the loop of the services does with a pruner."""
    while True:
        next_at = await pruner.run_once(bench.engine.now())
        await asyncio.sleep(0 if next_at is None else max(0, next_at - bench.engine.now()) / 1e6)


async def _count(bench: Bench) -> int:
    return await bench.probe.store.views.count_runs(RunFilter(), limit=10_000_000)
