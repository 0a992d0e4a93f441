"""Many runs at once: in one process, with worker processes of their own, and the items of one map (W2)."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from bench.arenas import Arena, opened_anew
from bench.probes import Asked, Bench, Spent, in_words, opened
from bench.processes import workers
from bench.report import Report, at_least, at_most
from bench.sequential import measure_round
from bench.sizes import Size
from bench.workflows import mapped, sequence
from stepwell import Start


class Crowd(NamedTuple):
    """Steps per second of many runs, and what they cost."""

    rate: float  # until the client had every result
    rate_ended: float  # until the last run had ended, by the store's clock
    limit: float  # raw commits/s around it
    sequential: float  # W1 around it
    spent: Spent
    asked: Asked
    stored: int  # bytes
    tables: list[str]


async def w2(arena: Arena, size: Size, report: Report) -> None:
    """Steps per second of many short runs and of one map."""
    targets, steps = arena.targets, size.crowd * size.steps_each
    report.say("W2 in one process")
    one = await _median(arena, size, 0)
    goal = min(targets.crowd, targets.crowd_factor * one.sequential)
    name = f"W2  {size.crowd:,} runs x {size.steps_each} steps"
    words = f" ({targets.crowd_factor} x W1)" if goal < targets.crowd else ""
    report.timed(f"{name}, steps/s", f"{one.rate:,.0f}", *at_least(one.rate, goal, words))
    report.line(
        "W2  ratio to the limit and to W1 around it", f"{one.rate / one.limit:.2f} / {one.rate / one.sequential:.2f}"
    )
    report.line("W2  commits per step", f"{one.spent.commits / steps:.3f}")
    _say_costs(arena, one, steps, report)
    if arena.has_round_trips:
        for count in size.fleets:
            report.say(f"W2, worker processes: {count}")
            apart = await _median(arena, size, count)
            target = at_least(apart.rate, goal, words) if count == 1 else ("", None)
            report.timed(f"{name}, worker processes: {count}", f"{apart.rate:,.0f}", *target)
            report.line("  until the last run had ended", f"{apart.rate_ended:,.0f}")
            report.line("  ratio to the limit around it", f"{apart.rate / apart.limit:.2f}")
            report.line("  round trips per step", f"{apart.asked.total() / steps:.3f}")
            report.detail(f"in all: {in_words(apart.asked)}")
    report.say("map")
    rate = await _map(arena, size.items)
    target = at_least(rate, one.rate / 2, " (half of W2)")
    report.timed(f"map of {size.items:,} one-step items, steps/s", f"{rate:,.0f}", *target)


def _say_costs(arena: Arena, crowd: Crowd, steps: int, report: Report) -> None:
    stored = crowd.stored / steps
    report.timed("W2  bytes of database per step", f"{stored:.0f}", *at_most(stored, arena.targets.step_bytes))
    report.line("W2  bytes of log per step", f"{crowd.spent.log_bytes / steps:.0f}")
    if arena.has_round_trips:
        report.line("W2  round trips per step", f"{crowd.asked.total() / steps:.3f}")
        report.detail(f"in all: {in_words(crowd.asked)}")
    for words in crowd.tables:
        report.detail(words)


async def _median(arena: Arena, size: Size, count: int) -> Crowd:
    rounds = [await _round(arena, size, count) for _ in range(size.crowd_rounds)]
    return sorted(rounds, key=lambda one: one.rate)[len(rounds) // 2]


async def _round(arena: Arena, size: Size, count: int) -> Crowd:
    """One crowd, after a round of W1 and its raw commits and before more of those."""
    around = await measure_round(arena, size.steps)
    with arena.database() as url:
        async with opened(url, serves=not count) as bench, workers(url, count) as others:
            await (await bench.engine.start(sequence, 50)).result()
            spent, before = await bench.probe.spent(), bench.probe.asked() + await others.asked()
            rate, rate_ended = await start_all(bench, size)
            spent, asked = (await bench.probe.spent()).since(spent), bench.probe.asked() + await others.asked() - before
        limit = (around.limit + arena.limit(url, size.steps).limit) / 2
        return Crowd(rate, rate_ended, limit, around.rate, spent, asked, arena.size(url), arena.tables(url))


async def start_all(bench: Bench, size: Size) -> tuple[float, float]:
    began, began_at = time.perf_counter(), time.time()
    handles = await bench.engine.runs.start_many(sequence, [Start(size.steps_each)] * size.crowd)
    await asyncio.gather(*(handle.result() for handle in handles))
    took = time.perf_counter() - began
    views = await bench.engine.runs.find_many([handle.run_id for handle in handles])
    ended_at = max(view.ended_at.timestamp() for view in views if view and view.ended_at)
    steps = size.crowd * size.steps_each
    return steps / took, steps / (ended_at - began_at)


async def _map(arena: Arena, items: int) -> float:
    """One run that maps a one-step function over many items: steps/s."""
    async with opened_anew(arena) as bench:
        await (await bench.engine.start(mapped, 100)).result()
        began = time.perf_counter()
        await (await bench.engine.start(mapped, items)).result()
        return items / (time.perf_counter() - began)
