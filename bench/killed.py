"""A worker that is killed in the middle of its work: how long until all is done, and what was done again (W6)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.arenas import Arena
from bench.probes import opened
from bench.processes import run_module
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import noted
from stepwell import Start

_LEASE_SECONDS = 2.0


class Killed(NamedTuple):
    """What a kill cost."""

    half: float  # seconds until half of the steps had been executed
    rest: float  # seconds from the kill until all runs had completed
    again: int  # steps that were executed a second time


async def w6(arena: Arena, size: Size, report: Report) -> None:
    """Seconds from kill -9 until another worker has ended every run, and steps that were executed twice."""
    report.say("W6 kill -9 in the middle")
    killed = await _kill(arena, size.killed, size.killed_steps)
    allowed = _LEASE_SECONDS + 1 + killed.half
    name = f"W6  {size.killed:,} runs x {size.killed_steps} steps, from kill -9 to all ended, s"
    report.timed(name, f"{killed.rest:.1f}", *at_most(killed.rest, round(allowed, 1), "lease + 1 + time of a half "))
    report.line("W6  steps executed again", f"{killed.again}", *at_most(killed.again, size.killed, "one a run, "))


async def _kill(arena: Arena, runs: int, steps: int) -> Killed:
    with TemporaryDirectory(prefix="stepwell-bench-") as folder, arena.database() as url:
        marks = Path(folder) / "marks"
        marks.touch()
        async with opened(url, serves=False) as bench:
            worker = await run_module("bench.processes", url, str(_LEASE_SECONDS))
            await bench.engine.runs.start_many(noted, [Start((str(marks), steps))] * runs)
            await _grown(marks, 1)
            began = time.perf_counter()
            await _grown(marks, runs * steps // 2)
            half = time.perf_counter() - began
            worker.kill()
            await worker.wait()
            began = time.perf_counter()
            worker = await run_module("bench.processes", url, str(_LEASE_SECONDS))
            await bench.until("completed", runs)
            rest = time.perf_counter() - began
            await worker.communicate(b"")
        return Killed(half, rest, marks.stat().st_size - runs * steps)


async def _grown(marks: Path, size: int) -> None:
    while marks.stat().st_size < size:  # noqa: ASYNC110, ASYNC240  only the file knows
        await asyncio.sleep(0.005)
