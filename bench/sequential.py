"""One run of sequential steps: beside raw commits (W1), and at several lengths (W8)."""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

from bench.arenas import Arena
from bench.probes import opened
from bench.report import Report, at_least, at_most
from bench.sizes import Size
from bench.workflows import sequence


class Sequential(NamedTuple):
    """One run beside raw commits in its database."""

    rate: float
    limit: float  # raw commits/s
    best: float
    ratio: float
    ratio_best: float
    commits: float  # per step
    log_bytes: float
    stored_bytes: float


async def measure_round(arena: Arena, steps: int) -> Sequential:
    """One run between two rounds of raw commits."""
    with arena.database() as url:
        async with opened(url):
            pass  # the tables are there now
        before = arena.limit(url, steps)
        async with opened(url) as bench:
            await (await bench.engine.start(sequence, 50)).result()
            size, spent, began = arena.size(url), await bench.probe.spent(), time.perf_counter()
            await (await bench.engine.start(sequence, steps)).result()
            rate = steps / (time.perf_counter() - began)
            spent = (await bench.probe.spent()).since(spent)
        stored = arena.size(url) - size
        after = arena.limit(url, steps)
    limit, best = (before.limit + after.limit) / 2, (before.best + after.best) / 2
    costs = spent.commits / steps, spent.log_bytes / steps, stored / steps
    return Sequential(rate, limit, best, rate / limit, rate / best, *costs)


async def w1(arena: Arena, size: Size, report: Report) -> None:
    """Steps per second of one run, as a part of the raw limit."""
    report.say("W1 beside raw commits")
    measured = [await measure_round(arena, size.steps) for _ in range(size.rounds)]
    one = Sequential(*(statistics.median(column) for column in zip(*measured, strict=True)))
    limit, best = arena.limit_words
    report.line("raw durable single-row commits/s, one connection", f"{one.limit:,.0f}", f"the limit: {limit}")
    report.line(f"raw with {best}", f"{one.best:,.0f}")
    report.line(f"W1  one run, {size.steps:,} sequential steps, steps/s", f"{one.rate:,.0f}")
    report.timed("W1  ratio to the limit", f"{one.ratio:.2f}", *at_least(one.ratio, 0.8))
    wanted = arena.targets.best_ratio
    judged = () if wanted is None else at_least(one.ratio_best, wanted)
    report.timed(f"W1  ratio to raw with {best}", f"{one.ratio_best:.2f}", *judged)
    report.line("W1  commits per step", f"{one.commits:.3f}")
    report.line("W1  bytes of log per step", f"{one.log_bytes:.0f}")
    report.line("W1  bytes of database per step", f"{one.stored_bytes:.0f}")


async def w8(arena: Arena, size: Size, report: Report) -> None:
    """Steps per second at several lengths."""
    rates: dict[int, float] = {}
    stored = 0.0
    for steps in size.lengths:
        report.say(f"W8 one run of {steps:,} steps")
        rounds = [await _length(arena, steps) for _ in range(size.crowd_rounds if steps < 10_000 else 1)]
        rates[steps], stored = statistics.median(rate for rate, _ in rounds), rounds[0][1]
        report.line(f"W8  one run of {steps:,} steps, steps/s", f"{rates[steps]:,.0f}")
    # Of a few steps nearly all is the empty database.
    report.timed("W8  bytes of database per step", f"{stored:.0f}", *at_most(stored, arena.targets.step_bytes))
    ratio = rates[size.lengths[-1]] / rates[size.lengths[0]]
    report.timed("W8  rate of the longest to rate of the shortest", f"{ratio:.2f}", *at_least(ratio, 0.8))


async def _length(arena: Arena, steps: int) -> tuple[float, float]:
    with arena.database() as url:
        async with opened(url) as bench:
            await (await bench.engine.start(sequence, 50)).result()
            began = time.perf_counter()
            await (await bench.engine.start(sequence, steps)).result()
            took = time.perf_counter() - began
        return steps / took, arena.size(url) / steps
