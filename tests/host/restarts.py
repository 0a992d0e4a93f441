"""Start and stop every service again and again, several at once, while runs are active:
`python -m tests.host.restarts --tasks 10 --times 50`.

Nothing may hang, and nothing may be left: no task, no thread, no descriptor, no connection, and no run that was
acknowledged and does not come to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from stepwell import Engine, StepwellError
from tests.host.brief import FLOWS
from tests.host.services import (
    PATIENCE_SECONDS,
    AsgiService,
    CommandService,
    Cycle,
    EngineService,
    Service,
    SyncEngineService,
)
from tests.servers.shared import close_shared_servers, shared_server
from tests.system.takeovers import percentile
from tools.progress import Bar
from tools.results import Result, Trial, keep

SERVICES = ("engine", "sync engine", "ASGI server", "worker", "serve", "dev")
STORES = ("sqlite", "postgres")
_LEFT_SECONDS_MAX = 10.0  # what is going to end by itself has ended by then
_SHOWN_MAX = 5


@dataclass
class Outcome:
    """What came of one service on one store."""

    service: str
    store: str
    cycles: list[Cycle] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # tasks, threads, descriptors and connections
    lost: list[str] = field(default_factory=list)  # runs
    is_process: bool = False

    def hangs(self, limit: float) -> list[float]:
        """Starts and stops that took longer. How long a process takes to start says how many share the cores."""
        times = [one.closed if self.is_process else max(one.opened, one.closed) for one in self.cycles]
        return [seconds for seconds in times if seconds > limit]

    def problems(self, limit: float) -> list[str]:
        """Everything that must not be."""
        slow = [f"a start or stop took {seconds:.1f} s" for seconds in self.hangs(limit)]
        return [*self.failed, *slow, *self.left, *self.lost]


class Census:
    """Who is here before, and who is left afterwards."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._tasks = asyncio.all_tasks()
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors()

    async def left(self) -> list[str]:
        """What is left, once it had the time to go."""
        deadline = time.monotonic() + _LEFT_SECONDS_MAX
        while (found := await self._look()) and time.monotonic() < deadline:
            gc.collect()
            await asyncio.sleep(0.05)
        return found

    async def _look(self) -> list[str]:
        found = [f"task {task.get_name()} is left" for task in asyncio.all_tasks() - self._tasks]
        found += [f"thread {thread.name} is left" for thread in set(threading.enumerate()) - self._threads]
        if (more := _descriptors() - self._descriptors) > 0:
            found.append(f"{more} descriptors are left")
        if self._url.startswith("postgresql") and (count := _connections(self._url)):
            found.append(f"{count} connections are left")
        return found


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  the folder counts itself each time


def _connections(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'"
        ).fetchone()
        assert row is not None
        return int(row[0])


async def restart(service: Service, store: str, url: str, options: argparse.Namespace, bar: Bar) -> Outcome:
    """Start and stop one service on one database: as many at once as there are tasks, each so many times."""
    outcome = Outcome(service.name, store, is_process=service.is_process)
    async with Engine(url, workflows=FLOWS, worker=False):
        pass  # the database is made once
    census = Census(url)
    numbers = itertools.count()

    async def task() -> None:
        for _ in range(options.times):
            number = next(numbers)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    outcome.cycles.append(await service.cycle(url, number))
            except (StepwellError, OSError, RuntimeError, TimeoutError) as error:
                outcome.failed.append(f"{type(error).__name__}: {error}")
            bar.show(next(options.done), f"{service.name} on {store}")

    await asyncio.gather(*(task() for _ in range(options.tasks)))
    outcome.left = await census.left()
    outcome.lost = await find_lost(url, outcome.cycles)
    return outcome


async def find_lost(url: str, cycles: list[Cycle]) -> list[str]:
    """Runs that were acknowledged, and do not come to their end although somebody works."""
    lost: list[str] = []
    async with Engine(url, workflows=FLOWS) as engine:
        for cycle in cycles:
            try:
                await engine.result(cycle.run_id, timeout=PATIENCE_SECONDS)
            except StepwellError as error:
                lost.append(f"run {cycle.run_id}: {error.title}")
        running = [worker for worker in await engine.workers.list() if worker.is_alive]
        if len(running) > 1:
            lost.append(f"{len(running) - 1} leases are left")
    return lost


@contextmanager
def database(store: str, folder: Path) -> Iterator[str]:
    """An empty database."""
    if store == "sqlite":
        yield f"sqlite:///{folder}/restarts.db"
        return
    server = shared_server()
    url = server.create_database()
    try:
        yield url
    finally:
        server.drop_database(url)


def make_service(name: str, folder: Path) -> Service:
    """A service, by its name."""
    match name:
        case "engine":
            return EngineService()
        case "sync engine":
            return SyncEngineService()
        case "ASGI server":
            return AsgiService()
        case _:
            return CommandService(name, folder)


def print_outcome(outcome: Outcome, limit: float) -> int:
    """One line of figures, and what must not be; how much that is."""
    opened, closed = ([getattr(one, side) for one in outcome.cycles] for side in ("opened", "closed"))
    problems = outcome.problems(limit)
    print(
        f"  {outcome.service:<12} {outcome.store:<9} {len(outcome.cycles):>6} restarts"
        f"  start {_times(opened)}  stop {_times(closed)}"
        f"  {len(outcome.hangs(limit))} hangs, {len(outcome.left)} left, {len(outcome.lost)} lost,"
        f" {len(outcome.failed)} failed"
    )
    for problem in problems[:_SHOWN_MAX]:
        print(f"    - {problem}")
    return len(problems)


def _times(seconds: list[float]) -> str:
    return f"p50 {percentile(seconds, 0.5):.2f} p99 {percentile(seconds, 0.99):.2f} s"


def result_of(outcomes: list[Outcome], options: argparse.Namespace, seconds: float) -> Result:
    """What is kept."""
    trials = tuple(
        Trial(
            f"start and stop of {one.service} on {one.store}, {options.tasks} at once",
            len(one.cycles),
            acknowledged=len(one.cycles),
            lost=len(one.lost),
            doubled=None,
            stuck=len(one.failed) + len(one.hangs(options.hang)) + len(one.left),
            recovery=f"stop {_times([cycle.closed for cycle in one.cycles])}",
        )
        for one in outcomes
    )
    command = f"make restarts TASKS={options.tasks} TIMES={options.times}"
    return Result("restarts", command, seconds, trials)


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, start and stop, and say what is left."""
    parser = argparse.ArgumentParser(prog="restarts", description=__doc__)
    parser.add_argument("--tasks", type=int, default=10, help="of each service at once")
    parser.add_argument("--times", type=int, default=50, help="that each of them starts and stops")
    parser.add_argument("--services", default=",".join(SERVICES), help="some of them, with commas")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--hang", type=float, default=5.0, help="seconds that no start and no stop may exceed")
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    options = parser.parse_args(arguments)
    services, stores = options.services.split(","), options.stores.split(",")
    options.done = itertools.count(1)
    bar = Bar(len(services) * len(stores) * options.tasks * options.times, "restarts")
    outcomes: list[Outcome] = []
    began, found = time.monotonic(), 0
    for store, name in itertools.product(stores, services):
        with tempfile.TemporaryDirectory(prefix="stepwell-restarts-") as folder, database(store, Path(folder)) as url:
            service = make_service(name, Path(folder))
            outcomes.append(asyncio.run(restart(service, store, url, options, bar)))
        found += print_outcome(outcomes[-1], options.hang)
    seconds = time.monotonic() - began
    print("nothing hangs and nothing is left" if not found else f"{found} PROBLEMS", f"({seconds:.0f} s)")
    if options.record:
        keep(result_of(outcomes, options, seconds))
    close_shared_servers()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
