"""How long a caller waits, and how often the database is asked: starts (W3), signals (W4), other processes."""

from __future__ import annotations

import time

from bench.arenas import Arena, opened_anew
from bench.probes import QUIET, Asked, Bench, in_words, opened
from bench.processes import workers
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import MARKED, RESUMED, began_at, marked, parenting, sequence, telling, waiting
from stepwell import Start
from stepwell.sinks import EmittedEvent, handler


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2] * 1_000, ordered[len(ordered) * 99 // 100] * 1_000


async def w3(arena: Arena, size: Size, report: Report) -> None:
    """Start to result of a one-step run, and what it costs."""
    report.say("W3 starts")
    times, targets = [], arena.targets
    async with opened_anew(arena, **QUIET) as bench:
        await (await bench.engine.start(sequence, 1)).result()
        spent, asked = await bench.probe.spent(), bench.probe.asked()
        for _ in range(size.starts):
            began = time.perf_counter()
            await (await bench.engine.start(sequence, 1)).result()
            times.append(time.perf_counter() - began)
        spent, asked = (await bench.probe.spent()).since(spent), bench.probe.asked() - asked
        per_step = await _per_step(bench)
    p50, p99 = percentiles(times)
    report.line("W3  start to result of a 1-step run, p50/p99 ms", f"{p50:.2f} / {p99:.2f}")
    commits, allowed = spent.commits / size.starts, targets.run_commits
    report.line("W3  commits per 1-step run", f"{commits:.2f}", f"{allowed}", commits <= allowed + 0.02)
    report.line("W3  bytes of log per 1-step run", f"{spent.log_bytes / size.starts:.0f}")
    if targets.run_round_trips is not None:
        trips = asked.total() / size.starts
        target, holds = at_most(trips, targets.run_round_trips)
        report.line("W3  round trips per 1-step run", f"{trips:.2f}", f"{target}, start and result included", holds)
        report.detail(in_words(asked, size.starts))
        trips = per_step.total() / 100
        report.line("W3  round trips per sequential step", f"{trips:.2f}", "1", trips == 1)
        report.detail(in_words(per_step, 100))


async def _per_step(bench: Bench) -> Asked:
    """What 100 steps in the middle of a run ask for. Nobody waits for its result, for that asks too."""
    counts: list[Asked] = []
    MARKED[:] = [lambda: counts.append(bench.probe.asked())]
    before = bench.probe.count("completed")
    await bench.engine.start(marked, 100)
    await bench.until("completed", before + 1)
    MARKED.clear()
    return counts[1] - counts[0]


async def shared(arena: Arena, size: Size, report: Report) -> None:
    """What events, signals and children add to the commits of a run."""
    report.say("shared commits")
    count = size.shared
    sinks = [handler(_forget, name="nobody", events="none.*")]
    async with opened_anew(arena, sinks=sinks, **QUIET) as bench:
        engine, probe = bench.engine, bench.probe
        await (await engine.start(telling)).result()
        before = await probe.spent()
        for _ in range(count):
            await (await engine.start(telling)).result()
        emitting, before = (await probe.spent()).since(before).commits / count, await probe.spent()
        for _ in range(count):
            await (await engine.start(parenting)).result()
        children = (await probe.spent()).since(before).commits / count
        runs = await engine.runs.start_many(waiting, [Start()] * count)
        await bench.until("waiting", count)
        before = await probe.spent()
        for run in runs:
            await run.signal("go")
            await run.result()
        signalled = (await probe.spent()).since(before)
    holds = emitting <= arena.targets.run_commits + 0.02
    report.line("commits of a 1-step run that emits three events", f"{emitting:.2f}", "2: events share them", holds)
    commits, written = signalled.commits / count, signalled.log_bytes / count
    report.line("commits from a signal to the end of the run", f"{commits:.2f}", "signal; receipt, step and end")
    report.line("bytes of log from a signal to the end of the run", f"{written:.0f}")
    report.line("commits of a parent with a 1-step child", f"{children:.2f}", "start, child, its end, claim, end")


def _forget(_: EmittedEvent) -> None:
    """A sink that wants nothing of what is emitted here."""


async def w4(arena: Arena, size: Size, report: Report) -> None:
    """From the call of `signal` to the body of the step that waited for it, and to the end of its run."""
    report.say("W4 signals")
    resumed, ended = [], []
    async with opened_anew(arena, **QUIET) as bench:
        handles = await bench.engine.runs.start_many(waiting, [Start()] * size.signals)
        await bench.until("waiting", size.signals)
        asked = bench.probe.asked()
        for handle in handles:
            RESUMED.clear()
            began = time.perf_counter()
            await handle.signal("go")
            await handle.result()
            ended.append(time.perf_counter() - began)
            resumed.append(RESUMED[0] - began)
        asked = bench.probe.asked() - asked
    p50, p99 = percentiles(resumed)
    target = at_most(p50, arena.targets.signal_ms, "p50 ")
    report.timed("W4  signal to resumed step, p50/p99 ms", f"{p50:.2f} / {p99:.2f}", *target)
    p50, p99 = percentiles(ended)
    report.line("W4  signal to result, p50/p99 ms", f"{p50:.2f} / {p99:.2f}")
    if arena.has_round_trips:
        report.line("W4  round trips from signal to result", f"{asked.total() / size.signals:.2f}")
        report.detail(in_words(asked, size.signals))


async def enqueue(arena: Arena, size: Size, report: Report) -> None:
    """From the call of `start` in a process without a worker to the body of the first step in another one."""
    report.say("start on another process")
    times: list[float] = []
    with arena.database() as url:
        async with opened(url, serves=False) as bench, workers(url, 1):
            await (await bench.engine.start(began_at)).result()
            until = time.monotonic() + size.enqueued_seconds
            while len(times) < size.enqueued and time.monotonic() < until:
                began = time.perf_counter()  # the same clock in all processes
                times.append(await (await bench.engine.start(began_at)).result() - began)
    p50, p99 = percentiles(times)
    name = "start to first step in another process, p50/p99 ms"
    report.timed(name, f"{p50:.2f} / {p99:.2f}", *at_most(p50, 20, "p50 "))
    if len(times) < size.enqueued:
        report.detail(f"of {len(times)} only: there was no time for {size.enqueued}")
