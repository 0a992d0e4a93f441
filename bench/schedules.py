"""What schedules cost: many of them spread over a minute, many at one instant, and many that are not due."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from bench.arenas import Arena
from bench.latency import percentiles
from bench.probes import QUIET, Bench, opened
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import at_a_time
from stepwell.clock import SECOND, Instant, to_datetime
from stepwell.model.schedules import FIRE_TIME
from stepwell.stores.base.views import RunFilter

_LATE_MS_MAX = 1_000.0  # p99
_CORE_MAX = 0.2
_ALL_SECONDS_MAX = 10.0
_AT_ONCE = 200  # creations


async def schedules(arena: Arena, size: Size, report: Report) -> None:
    """Spread over a minute, then at one instant, then none of them is due."""
    count = size.schedules
    async with AsyncExitStack() as stack:
        report.say(f"schedules: {count:,} spread over {size.schedule_seconds} s are made")
        bench = await stack.enter_async_context(opened(stack.enter_context(arena.database())))
        await _spread(bench, count, size, report)
    async with AsyncExitStack() as stack:
        report.say(f"schedules: {count:,} at one instant are made")
        bench = await stack.enter_async_context(opened(stack.enter_context(arena.database())))
        await _together(bench, count, size, report)
    async with AsyncExitStack() as stack:
        report.say("schedules: none is due")
        bench = await stack.enter_async_context(opened(stack.enter_context(arena.database()), **QUIET))
        await _idle(bench, size, report)


async def _spread(bench: Bench, count: int, size: Size, report: Report) -> None:
    minute = size.schedule_seconds
    offsets = [number % minute for number in range(count)]
    await _create(bench, [{"every": minute, "offset": offset, "overlap": "allow"} for offset in offsets])
    await asyncio.sleep(1.0)
    busy, began, first = time.process_time(), time.perf_counter(), bench.engine.now()
    await asyncio.sleep(minute)
    took, busy, last = time.perf_counter() - began, time.process_time() - busy, bench.engine.now()
    await asyncio.sleep(2.0)
    late = [one for tick, one in await _lateness(bench, size) if first <= tick <= last]
    p50, p99 = percentiles(late)
    name = f"schedules  {len(late):,} ticks in {took:.0f} s, late p50/p99 ms"
    report.timed(name, f"{p50:.1f} / {p99:.1f}", *at_most(p99, _LATE_MS_MAX, "p99 "))
    report.timed("schedules    of a core, with the runs", f"{busy / took:.2f}", *at_most(busy / took, _CORE_MAX))


async def _together(bench: Bench, count: int, size: Size, report: Report) -> None:
    ahead = max(2, count // 150)  # seconds; longer than it takes to create them
    at = to_datetime(Instant(bench.engine.now() // SECOND * SECOND + ahead * SECOND))
    await _create(bench, [{"at": at} for _ in range(count)])
    left = (at - to_datetime(bench.engine.now())).total_seconds()
    report.detail(f"they were made {left:.1f} s before they are due")
    await asyncio.sleep(max(0.0, left - 0.2))
    asked, busy = bench.probe.asked(), time.process_time()
    await bench.until("completed", count, every=0.1)
    busy, asked = time.process_time() - busy, bench.probe.asked() - asked
    late = [one for _, one in await _lateness(bench, size)]
    name = f"schedules  {count:,} at one instant, the last is started after s"
    report.timed(name, f"{max(late):.1f}", *at_most(max(late), _ALL_SECONDS_MAX))
    report.line("schedules    transactions for each, with its run", f"{asked.total() / count:.2f}")
    report.line("schedules    CPU of the process, s", f"{busy:.1f}")


async def _idle(bench: Bench, size: Size, report: Report) -> None:
    await _create(bench, [{"every": "365d"} for _ in range(min(size.schedules, 1_000))])
    await asyncio.sleep(0.5)
    end = bench.probe.watch()
    await asyncio.sleep(size.idle_seconds)
    asked, scanned = end()
    # Those of SQLite ask whether another process has written.
    report.line("schedules  statements while none is due", f"{asked.total():,}")
    if scanned is not None:
        report.line("schedules    rows scanned by them", f"{scanned:,}", *at_most(scanned, 0))


async def _create(bench: Bench, options: list[dict[str, Any]]) -> None:
    make = bench.engine.schedules.create
    for begin in range(0, len(options), _AT_ONCE):
        part = enumerate(options[begin : begin + _AT_ONCE], begin)
        await asyncio.gather(*(make(f"s{number}", workflow=at_a_time, **one) for number, one in part))


async def _lateness(bench: Bench, size: Size) -> list[tuple[int, float]]:
    """Of each run of a schedule, its tick and by how many seconds its code began later."""
    found: list[tuple[int, float]] = []
    last: Any = None
    while True:
        where = RunFilter(workflow=at_a_time.name)
        page = await bench.probe.store.views.list_runs(where, limit=1_000, before=last)
        for run in page:
            tick = next(int(one.value[1:]) - 10**17 for one in run.attributes if one.name == FIRE_TIME)
            if run.started_at is not None:
                found.append((tick, (run.started_at - tick) / SECOND))
        if len(page) < 1_000:
            return found
        last = page[-1].run_id
