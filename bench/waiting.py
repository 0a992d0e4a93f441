"""What runs cost that only wait: memory, idle work, and the way from a signal to the next step."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench.measures import Bench, opened
from bench.workflows import RESUMED, waiting
from stepwell import Start


class Waiting(NamedTuple):
    """Many runs that wait for a signal, in a process of their own."""

    bytes_each: float  # of the process' own memory, once their code is evicted
    seconds_idle: float  # how long it was watched
    statements_idle: int  # that SQLite ran meanwhile
    scanned_idle: int  # rows that they stepped over without an index


def waiting_runs(folder: Path, runs: int = 10_000) -> Waiting:
    """Measure in a fresh process, so that nothing else is in its memory."""
    command = [sys.executable, "-m", "bench.waiting", str(folder / "waiting.db"), str(runs)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Waiting(*json.loads(done.stdout))


async def signal_to_step(folder: Path, count: int = 300) -> tuple[float, float]:
    """From the call of `signal` to the body of the step that waited for it: p50 and p99 in milliseconds."""
    times = []
    async with opened(folder / "signals.db") as bench:
        handles = await bench.engine.start_many(waiting, [Start()] * count)
        await _all_wait(bench, count)
        for handle in handles:
            RESUMED.clear()
            began = time.perf_counter()
            await handle.signal("go")
            await handle.result()
            times.append((RESUMED[0] - began) * 1_000)
    times.sort()
    return statistics.median(times), times[count * 99 // 100]


async def _all_wait(bench: Bench, count: int) -> None:
    reader = apsw.Connection(str(bench.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        while True:
            row = reader.execute("select count(*) from stepwell_runs where status = 'waiting'").fetchone()
            if row is not None and row[0] >= count:
                return
            await asyncio.sleep(0.02)
    finally:
        reader.close()


def _own_bytes() -> int:
    """Memory that belongs to this process alone: the file's pages that are mapped are not counted."""
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the memory of this process cannot be read here")


async def _watch(path: Path, runs: int) -> Waiting:
    async with opened(path, parked_max=0) as bench:
        # Caches and arenas fill with the first ones.
        await bench.engine.start_many(waiting, [Start()] * 2_000)
        await _all_wait(bench, 2_000)
        before = _own_bytes()
        for started in range(0, runs, 1_000):
            await bench.engine.start_many(waiting, [Start()] * 1_000)
            await _all_wait(bench, 3_000 + started)
        await asyncio.sleep(1.0)
        each = (_own_bytes() - before) / runs
        seen: list[dict[str, Any]] = []
        bench.database.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, seen.append)
        began = time.perf_counter()
        await asyncio.sleep(5.0)
        seconds = time.perf_counter() - began
        bench.database.connection.trace_v2(0, None)
        scanned = sum(one["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"] for one in seen)
    return Waiting(each, seconds, len(seen), scanned)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_watch(Path(sys.argv[1]), int(sys.argv[2])))))
