"""The workloads of the performance chapter that concern the kernel on SQLite."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.raw import raw_commits
from bench.workflows import WORKFLOWS, mapped, parenting, sequence, sequence_then_wait, telling, waiting
from stepwell import EmittedEvent, Engine, Start, WorkerSettings, handler
from stepwell.environment import system_environment
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.writer import Writer


@dataclass(frozen=True)
class Bench:
    """An engine on a fresh file, and the database under it for counting."""

    engine: Engine
    database: SqliteDatabase
    path: Path


@asynccontextmanager
async def opened(path: Path, **settings: Any) -> AsyncIterator[Bench]:
    """An engine with a worker on a SQLite file."""
    environment = system_environment()
    database = SqliteDatabase(str(path))
    store = SqliteStore(environment, path, runner=Writer(database))
    told = WorkerSettings(**settings)
    async with Engine(store, workflows=WORKFLOWS, environment=environment, settings=told) as engine:
        yield Bench(engine, database, path)


class Sequential(NamedTuple):
    """One run of sequential steps beside raw commits in its file."""

    rate: float
    raw: float  # the log written back as the store does it: the limit
    raw_default: float  # with SQLite's own interval
    ratio: float
    ratio_default: float


async def w1(folder: Path, steps: int = 1_000, rounds: int = 7) -> Sequential:
    """One run of sequential steps between two rounds of raw commits of each kind; medians."""
    measured = [await _w1(folder / f"w1-{number}.db", steps) for number in range(rounds)]
    return Sequential(*(statistics.median(column) for column in zip(*measured, strict=True)))


async def _w1(path: Path, steps: int) -> Sequential:
    before = raw_commits(path, steps, as_the_store=False), raw_commits(path, steps)
    async with opened(path) as bench:
        await (await bench.engine.start(sequence, 50)).result()
        began = time.perf_counter()
        await (await bench.engine.start(sequence, steps)).result()
        rate = steps / (time.perf_counter() - began)
    raw = (before[1] + raw_commits(path, steps)) / 2
    raw_default = (before[0] + raw_commits(path, steps, as_the_store=False)) / 2
    return Sequential(rate, raw, raw_default, rate / raw, rate / raw_default)


async def w2(folder: Path, runs: int = 1_000, steps: int = 10) -> tuple[float, float, float]:
    """Many runs at once: steps/s, commits per step, bytes of database per step."""
    async with opened(folder / "w2.db") as bench:
        await (await bench.engine.start(sequence, 50)).result()
        commits, began = bench.database.commits, time.perf_counter()
        handles = await bench.engine.start_many(sequence, [Start(steps)] * runs)
        await asyncio.gather(*(handle.result() for handle in handles))
        took = time.perf_counter() - began
        per_step = (bench.database.commits - commits) / (runs * steps)
        path = bench.path
    return runs * steps / took, per_step, path.stat().st_size / (runs * steps)


async def mapping(folder: Path, items: int = 10_000) -> float:
    """One run that maps a one-step function over many items: steps/s."""
    async with opened(folder / "map.db") as bench:
        await (await bench.engine.start(mapped, 100)).result()
        began = time.perf_counter()
        await (await bench.engine.start(mapped, items)).result()
        return items / (time.perf_counter() - began)


async def w3(folder: Path, count: int = 500) -> tuple[float, float, float]:
    """Start to result of a one-step run: p50 and p99 in milliseconds, commits per run."""
    async with opened(folder / "w3.db") as bench:
        await (await bench.engine.start(sequence, 1)).result()
        times, commits = [], bench.database.commits
        for _ in range(count):
            began = time.perf_counter()
            await (await bench.engine.start(sequence, 1)).result()
            times.append((time.perf_counter() - began) * 1_000)
        per_run = (bench.database.commits - commits) / count
    times.sort()
    return times[count // 2], times[count * 99 // 100], per_run


async def commits_shared(folder: Path, count: int = 100) -> tuple[float, float, float]:
    """Commits of a 1-step run with three events, of a run from its signal to its end, and of a parent with a child."""
    environment = system_environment()
    database = SqliteDatabase(str(folder / "shared.db"))
    store = SqliteStore(environment, folder / "shared.db", runner=Writer(database))
    sinks = [handler(_forget, name="nobody", events="none.*")]
    async with Engine(store, workflows=WORKFLOWS, environment=environment, sinks=sinks) as engine:
        await (await engine.start(telling)).result()
        before = database.commits
        for _ in range(count):
            await (await engine.start(telling)).result()
        emitting, before = (database.commits - before) / count, database.commits
        for _ in range(count):
            await (await engine.start(parenting)).result()
        children = (database.commits - before) / count
        runs = await engine.start_many(waiting, [Start()] * count)
        ids = [run.run_id for run in runs]
        while {run.status for run in await engine.status_many(ids) if run} != {"waiting"}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        before = database.commits
        for run in runs:
            await run.signal("go")
            await run.result()
        return emitting, (database.commits - before) / count, children


def _forget(_: EmittedEvent) -> None:
    """A sink that wants nothing of what is emitted here."""


async def w8(folder: Path, steps: int) -> tuple[float, float]:
    """One run of many steps: steps/s and bytes per step."""
    path = folder / f"w8-{steps}.db"
    async with opened(path) as bench:
        await (await bench.engine.start(sequence, 50)).result()
        began = time.perf_counter()
        await (await bench.engine.start(sequence, steps)).result()
        took = time.perf_counter() - began
    return steps / took, path.stat().st_size / steps


async def resume(folder: Path, steps: int = 10_000) -> float:
    """Seconds from the signal to the result of a run with many recorded steps, in an engine that has never seen it."""
    path = folder / "resume.db"
    async with opened(path) as bench:
        handle = await bench.engine.start(sequence_then_wait, steps, key="resume")
        while (status := await handle.status()).status != "waiting":
            await asyncio.sleep(0.05)
            assert not status.is_ended
    async with opened(path) as bench:
        await bench.engine.status("resume")
        began = time.perf_counter()
        await bench.engine.signal("resume", "go")
        await bench.engine.result("resume")
        return time.perf_counter() - began
