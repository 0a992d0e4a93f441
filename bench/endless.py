"""A loop that never ends: what is kept of it, in the database and in memory (W9)."""

from __future__ import annotations

import gc
import resource
import time
from pathlib import Path

from bench.arenas import Arena, opened_anew
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import perpetual

_KEPT_MAX = 100  # entries: twice what is kept between two trims
_GROWTH_MAX = 4.0  # MiB, from the first tenth on


async def endless(arena: Arena, size: Size, report: Report) -> None:
    """Entries that are left of all iterations, and how the process has grown while they went by."""
    total, first = size.iterations, size.iterations // 10
    report.say(f"a loop of {total:,} iterations")
    async with opened_anew(arena) as bench:
        await (await bench.engine.start(perpetual, first)).result()
        gc.collect()
        before, began = _resident(), time.perf_counter()
        handle = await bench.engine.start(perpetual, total)
        await handle.result()
        took = time.perf_counter() - began
        gc.collect()
        grown = _resident() - before
        kept = len(await bench.engine.runs.history(handle.run_id))
    report.line(f"loop of {total:,} iterations: entries kept", f"{kept}", *at_most(kept, _KEPT_MAX))
    report.timed("  growth of the process, MiB", f"{grown:.1f}", *at_most(grown, _GROWTH_MAX))
    report.line("  iterations/s", f"{total / took:,.0f}")


def _resident() -> float:
    """MiB of this process now; where only the highest is known, that."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize() / (1 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
