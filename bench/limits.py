"""The limits of this machine, before anything of ours is measured: the disk, the database, and code without either."""

from __future__ import annotations

import os
import statistics
import tempfile
import time

from bench.arenas import Arena
from bench.probes import opened
from bench.report import Report
from bench.sizes import Size
from bench.workflows import WORKFLOWS, sequence
from stepwell import Engine

_PAGE = b"\x00" * 4096
_ROWS = 1_000  # in one commit


async def limits(arena: Arena, size: Size, report: Report) -> None:
    """What nothing on this machine can be faster than."""
    report.say("limits")
    took = _syncs(size.steps)
    report.line("write + fdatasync of a page, per second; p50 ms", f"{len(took) / sum(took):,.0f}; {_p50(took):.2f}")
    with arena.database() as url:
        async with opened(url):
            pass  # the tables are there now
        one = arena.limit(url, size.steps)
        many = arena.batch_limit(url, _ROWS, max(1, size.steps // 50))
    report.line("raw rows/s, one a commit", f"{one.limit:,.0f}")
    report.line(f"the same with {arena.limit_words[1]}", f"{one.best:,.0f}")
    report.line(f"raw rows/s, {_ROWS:,} a commit", f"{many:,.0f}")
    report.line("one run of this engine with a store in memory, steps/s", f"{await _in_memory(size.steps):,.0f}")


def _syncs(count: int) -> list[float]:
    took: list[float] = []
    with tempfile.TemporaryFile() as file:
        for _ in range(count):
            began = time.perf_counter()
            os.write(file.fileno(), _PAGE)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return took


def _p50(took: list[float]) -> float:
    return statistics.median(took) * 1e3


async def _in_memory(steps: int) -> float:
    """Steps per second of one run: everything but durability."""
    async with Engine("memory://", workflows=WORKFLOWS) as engine:
        await (await engine.start(sequence, 50)).result()
        began = time.perf_counter()
        await (await engine.start(sequence, steps)).result()
        return steps / (time.perf_counter() - began)
