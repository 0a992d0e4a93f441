"""A run that awaits the runs it has spawned one by one, beside a map of children."""

from __future__ import annotations

import statistics
import time

from bench.arenas import Arena
from bench.probes import Bench, opened
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import dispatching, mapping_children
from stepwell import Workflow

_RATIO_MAX = 2.0


async def dispatch(arena: Arena, size: Size, report: Report) -> None:
    """Seconds for the same children: spawned and awaited one by one, and mapped."""
    took: dict[str, list[float]] = {"one by one": [], "mapped": []}
    with arena.database() as url:
        async with opened(url) as bench:
            await _time(bench, mapping_children, 3)
            for _ in range(size.crowd_rounds):
                report.say(f"{size.dispatched} children awaited one by one, and mapped")
                took["one by one"].append(await _time(bench, dispatching, size.dispatched))
                took["mapped"].append(await _time(bench, mapping_children, size.dispatched))
    one_by_one, mapped = (statistics.median(seconds) for seconds in took.values())
    report.line(f"dispatch  {size.dispatched} spawned runs awaited one by one, s", f"{one_by_one:.2f}")
    report.line(f"dispatch  a map of {size.dispatched} children, s", f"{mapped:.2f}")
    ratio = one_by_one / mapped
    report.timed("dispatch  one by one to mapped", f"{ratio:.2f}", *at_most(ratio, _RATIO_MAX))


async def _time(bench: Bench, flow: Workflow[int, int], children: int) -> float:
    began = time.perf_counter()
    await (await bench.engine.start(flow, children)).result()
    return time.perf_counter() - began
