"""Many timers that are due at nearly the same moment (W5)."""

from __future__ import annotations

import time

from bench.arenas import Arena, opened_anew
from bench.latency import percentiles
from bench.probes import in_words
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import WOKE, sleeping
from stepwell import Start


async def w5(arena: Arena, size: Size, report: Report) -> None:
    """How late code goes on after its timer, and how late its run ends."""
    count = size.timers
    report.say(f"W5 {count:,} timers")
    async with opened_anew(arena) as bench:
        WOKE.clear()
        asked, busy, began = bench.probe.asked(), time.process_time(), time.perf_counter()
        handles = await bench.engine.runs.start_many(sleeping, [Start(size.timer_seconds)] * count)
        # Nobody waits for results meanwhile: that would ask for each of them once a second.
        await bench.until("completed", count, every=0.1)
        took, busy, asked = time.perf_counter() - began, time.process_time() - busy, bench.probe.asked() - asked
        views = await bench.engine.runs.find_many([handle.run_id for handle in handles])
    woke, ended = [], []
    for view in views:
        assert view is not None
        assert view.ended_at is not None
        woke.append(WOKE[view.run_id] - view.output)
        ended.append(view.ended_at.timestamp() - view.output)
    p50, p99 = percentiles(woke)
    name, allowed = f"W5  {count:,} timers of {size.timer_seconds:g} s, late p50/p99 ms", arena.targets.late_ms
    report.timed(name, f"{p50:.1f} / {p99:.1f}", *at_most(p99, allowed, "p99 "))
    p50, p99 = percentiles(ended)
    report.line("W5  end of their runs, late p50/p99 ms", f"{p50:.1f} / {p99:.1f}")
    report.line("W5  CPU of the process, and of how long, s", f"{busy:.1f} / {took:.1f}")
    if arena.has_round_trips:
        report.line("W5  round trips per run", f"{asked.total() / count:.2f}")
        report.detail(f"in all: {in_words(asked)}")
