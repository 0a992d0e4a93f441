"""What runs cost that only wait: memory, and what an idle process does (W7)."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from bench.arenas import Arena
from bench.probes import in_words, opened
from bench.processes import run_module
from bench.report import Report, at_most
from bench.sizes import FULL, QUICK, Size
from bench.workflows import waiting
from stepwell import Start


class Waiting(NamedTuple):
    """Many runs that wait for a signal, in a process of their own."""

    bytes_each: float  # of the process' own memory, once their code is evicted
    seconds_idle: float  # how long it was watched
    cpu_idle: float  # seconds of it that the process was busy
    asked_idle: dict[str, int]
    scanned_idle: int | None  # rows that were stepped over without an index


async def w7(arena: Arena, size: Size, report: Report) -> None:
    """Memory and idle work, in a fresh process, so that nothing else is in its memory."""
    count = size.waiting
    report.say(f"W7 {count:,} waiting runs")
    with arena.database() as url:
        process = await run_module("bench.waiting", url, "full" if size is FULL else "quick")
        out, _ = await process.communicate(b"")
        if process.returncode:
            raise RuntimeError(f"the process with the waiting runs ended with exit code {process.returncode}")
        idle, stored = Waiting(*json.loads(out)), arena.size(url)
    name = f"W7  {count:,} runs waiting, bytes of memory each"
    report.timed(name, f"{idle.bytes_each:,.0f}", *at_most(idle.bytes_each, 1_024))
    report.line("W7  bytes of database each", f"{stored / (count + size.waiting_first):,.0f}")
    report.line("W7  CPU of the idle process, %", f"{100 * idle.cpu_idle / idle.seconds_idle:.1f}")
    asked = Counter(idle.asked_idle)
    if arena.has_round_trips:
        trips = asked.total() / idle.seconds_idle
        target = at_most(trips, arena.targets.idle_round_trips)
        report.timed("W7  round trips per second of idling", f"{trips:.2f}", *target)
        report.detail(f"in {idle.seconds_idle:.0f} s: {in_words(asked) or 'nothing'}")
    else:
        report.line(f"W7  statements in {idle.seconds_idle:.0f} s of idling", f"{asked.total()}")
    if idle.scanned_idle is not None:
        report.line("W7  rows scanned by them", f"{idle.scanned_idle}", "0", idle.scanned_idle == 0)


def _own_bytes() -> int:
    """Memory that belongs to this process alone: the file's pages that are mapped are not counted."""
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the memory of this process cannot be read here")


async def _watch(url: str, size: Size) -> Waiting:
    async with opened(url, cache_max=0) as bench:
        # Caches and arenas fill with the first ones.
        await bench.engine.runs.start_many(waiting, [Start()] * size.waiting_first)
        await bench.until("waiting", size.waiting_first)
        before = _own_bytes()
        for started in range(0, size.waiting, size.waiting_batch):
            await bench.engine.runs.start_many(waiting, [Start()] * size.waiting_batch)
            await bench.until("waiting", size.waiting_first + started + size.waiting_batch)
        await asyncio.sleep(1.0)
        each = (_own_bytes() - before) / size.waiting
        end, busy, began = bench.probe.watch(), time.process_time(), time.perf_counter()
        await asyncio.sleep(size.idle_seconds)
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        asked, scanned = end()
    return Waiting(each, seconds, busy, dict(asked), scanned)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_watch(sys.argv[1], FULL if sys.argv[2] == "full" else QUICK))))
