"""Resuming a run with a long history in a process that has never seen it."""

from __future__ import annotations

import asyncio
import time

from bench.arenas import Arena
from bench.probes import QUIET, Asked, Bench, in_words, opened
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import sequence_then_wait

# Bringing the signal, committing what the run does next, telling of it and handing its result over are not part of
# resuming it.
_OTHERS = ("deliver", "apply", "finish", "notify", "find_many", "next_wake")


async def resume(arena: Arena, size: Size, report: Report) -> None:
    """Seconds from the signal to the result, and round trips that loading the run takes."""
    for steps in size.histories:
        report.say(f"resume of {steps:,} steps")
        seconds, asked = await _resume(arena, steps)
        allowed = arena.targets.resume_seconds if steps == size.histories[-1] else None
        report.timed(f"resume a run with {steps:,} recorded steps, s", f"{seconds:.3f}", *at_most(seconds, allowed))
        if arena.has_round_trips:
            trips = asked.total() - sum(asked[name] for name in _OTHERS)
            report.line("  round trips to load it", f"{trips}", "1", trips == 1)
            report.detail(f"from signal to result: {in_words(asked)}")


async def _resume(arena: Arena, steps: int) -> tuple[float, Asked]:
    with arena.database() as url:
        async with opened(url) as bench:
            await bench.engine.start(sequence_then_wait, steps, key="resume")
            await bench.until("waiting", 1)
        async with opened(url, **QUIET) as bench:
            await bench.engine.status("resume")
            await _until_calm(bench)
            asked, began = bench.probe.asked(), time.perf_counter()
            await bench.engine.signal("resume", "go")
            await bench.engine.result("resume")
            return time.perf_counter() - began, bench.probe.asked() - asked


async def _until_calm(bench: Bench) -> None:
    """A worker that has just begun looks for work; on a busy machine it may still do so when others have begun."""
    before = None
    while before != (before := bench.probe.asked()):  # noqa: ASYNC110  only the store knows
        await asyncio.sleep(0.1)
