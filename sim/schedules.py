"""Schedules in simulation: workers that crash, freeze and lose answers, clocks that jump, people who interfere.

    make schedules SEEDS=50

A seed decides everything. `sim.checks.schedules` holds what must be.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from sim.checks.schedules import ScheduleChecker
from sim.databases import open_database
from stepwell import Context, workflow
from stepwell.clock import to_datetime
from stepwell.config import WorkerSettings
from stepwell.errors import StepwellError, StoreUnavailableError
from stepwell.virtual.clock import ContinuousClock, ProcessClock
from stepwell.virtual.executors import InlineCalls
from stepwell.virtual.ids import drawn_ids
from stepwell.virtual.lanes import drawn
from stepwell.virtual.loop import VirtualLoop
from stepwell.virtual.processes import VirtualProcess
from stepwell.virtual.wire import FilteredWakeups, RemoteStore
from stepwell.wiring import Engine

_SETTINGS = WorkerSettings(lease=4.0, sweep_every=1.0)
_YEAR = 365.0 * 86_400
_WRITES = frozenset(
    {"change", "create", "claim", "apply", "cancel", "renew", "register", "next_due", "due", "find_many"}
)


@workflow
async def at_once_done(ctx: Context) -> str:
    return "done"


@workflow
async def takes_long(ctx: Context, seconds: float = 20.0) -> str:
    await ctx.sleep("work", seconds)
    return "done"


@workflow
async def continues(ctx: Context, left: int = 2) -> str:
    await ctx.sleep("work", 6.0)
    if left:
        await ctx.continue_as_new(left - 1)
    return "done"


@workflow
async def not_everywhere(ctx: Context) -> str:
    return "done"


class Size(NamedTuple):
    """How large the story of a seed is."""

    schedules: int = 20
    ticks: int = 100
    workers: int = 3


LARGE = Size()
SMALL = Size(8, 25, 3)


@dataclass
class Report:
    """What one seed came to."""

    seed: int
    violations: list[str] = field(default_factory=list)
    stats: Counter[str] = field(default_factory=Counter)


class _Wire:
    """Carries the calls of one worker, more or less: calls fail, answers get lost, and the worker dies meanwhile."""

    def __init__(self, world: ScheduleWorld, worker: _Worker) -> None:
        self._world = world
        self._worker = worker
        self._rng = random.Random(world.rng.getrandbits(64))

    async def call(self, noun: str, verb: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """One call, with whatever goes wrong around it."""
        world, fault = self._world, self._draw(verb)
        await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.01)))
        if fault == "refused":
            raise StoreUnavailableError("simulated: the store did nothing")
        if fault == "crash before":
            await self._worker.die()
        answer = await method(*args, **kwargs)
        if noun == "records" and verb == "change":
            world.checker.changed(args[0], answer)
        if fault == "twice":
            again = await method(*args, **kwargs)
            world.checker.changed(args[0], again)
        if fault == "crash after":
            await self._worker.die()
        await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.01)))
        if fault == "lost":
            raise StoreUnavailableError("simulated: the answer is lost")
        if fault == "slow":
            await asyncio.sleep(self._rng.uniform(0.1, 3.0))
        return answer

    def _draw(self, verb: str) -> str | None:
        world = self._world
        if not world.are_faults_on or verb not in _WRITES or self._rng.random() > world.fault_rate:
            return None
        fault = self._rng.choice(("refused", "lost", "slow", "crash before", "crash after", "lost", "twice"))
        if fault == "twice" and verb != "change":
            return "lost"
        world.checker.stats[f"fault {fault}"] += 1
        return fault


class _Worker:
    """One start of one worker."""

    def __init__(self, world: ScheduleWorld, name: str) -> None:
        self.world = world
        self.name = name
        lane = world.loop.add_lane(name)
        rng = random.Random(world.rng.getrandbits(64))
        clock = ProcessClock(world.host, origin=rng.uniform(0, 1e5))
        ids = drawn_ids(clock, random.Random(rng.getrandbits(64)))
        self.process = VirtualProcess(world.loop, lane, clock, ids, rng, calls=InlineCalls(world.loop))
        inner = world.database.open(self.process.environment, clock)
        hears = rng.random() < 0.7
        wakeups = FilteredWakeups(inner.wakeups, lambda: not lane.is_dead and (hears or not world.are_faults_on))
        served = [at_once_done, takes_long, continues]
        if world.knows_all or rng.random() < 0.5:
            served.append(not_everywhere)
        self.engine = Engine(
            RemoteStore(inner, _Wire(world, self), wakeups),
            workflows=served,
            settings=_SETTINGS,
            environment=self.process.environment,
        )

    def start(self) -> None:
        """Begin to serve. A worker that cannot start is started again."""
        self.world.loop.create_task(self._open(), name=self.name, context=self.process.lane.context())

    async def _open(self) -> None:
        try:
            await self.engine.open()
        except StepwellError:
            self.world.loop.call_soon(self.kill, context=self.world.context)

    def kill(self) -> None:
        """kill -9."""
        if self.process.is_alive:
            self.world.checker.stats["kills"] += 1
            self.process.kill()
            self.process.executor.close()
            self.world.replace(self)

    async def die(self) -> None:
        """Die inside a call: it never returns."""
        self.kill()
        await self.world.loop.create_future()


class ScheduleWorld:
    """Everything of one seed."""

    def __init__(self, seed: int, store: str = "sqlite", size: Size = LARGE) -> None:
        self.rng = rng = random.Random(f"schedules {seed} {store}")
        self.size = size
        self.host = ContinuousClock()
        self.loop = VirtualLoop(self.host, choose=drawn(random.Random(rng.getrandbits(64))), has_outside=False)
        self.loop.handles_max = 60_000_000
        self.loop.set_exception_handler(lambda *_: None)
        self.context = self.loop.world.context()
        self.database = open_database(store)
        self.are_faults_on = True
        self.knows_all = rng.random() < 0.6
        self.fault_rate = rng.choice((0.0, 0.01, 0.03))
        self.is_down = False
        self.workers: dict[str, _Worker] = {}
        clock = ProcessClock(self.host)
        outside = VirtualProcess(
            self.loop, self.loop.add_lane("people"), clock, drawn_ids(clock, rng), rng, calls=InlineCalls(self.loop)
        )
        self._outside = outside
        self._inspector = self.database.open(outside.environment, clock)
        self.checker = ScheduleChecker(self._inspector)
        self.people = Engine(
            RemoteStore(self.database.open(outside.environment, clock), _Seen(self), self._inspector.wakeups),
            workflows=[at_once_done, takes_long, continues, not_everywhere],
            worker=False,
            environment=outside.environment,
        )
        self.names: list[str] = []
        self.seconds = 0.0

    def replace(self, worker: _Worker) -> None:
        """Start it again, after a while."""
        if self.workers.get(worker.name) is worker:
            self.loop.call_later(self.rng.uniform(0.05, 5.0), self._start, worker.name, context=self.context)

    def _start(self, name: str) -> None:
        if self.is_down:
            self.loop.call_later(1.0, self._start, name, context=self.context)
            return
        self.workers[name] = worker = _Worker(self, name)
        worker.start()

    # --- the story ---

    async def run(self) -> None:
        """Live through one seed."""
        await self.people.open()
        await self._inspector.open()
        for number in range(self.size.workers):
            self._start(f"worker{number}")
        for number in range(self.size.schedules):
            await self._create(number)
        begun = self.loop.time()
        await asyncio.gather(self._kill(), self._outage(), self._jump(), self._interfere())
        await asyncio.sleep(max(0.0, begun + self.seconds - self.loop.time()))
        self.are_faults_on, self.is_down, self.knows_all = False, False, True
        for worker in tuple(self.workers.values()):
            worker.kill()
        await asyncio.sleep(90.0)
        if self.rng.random() < 0.3:
            await asyncio.sleep(60.0)
        # At this moment something may just be due: give it as long as a worker may need.
        await asyncio.sleep(self.rng.uniform(0.0, 1.0))
        self.checker.check_complete()
        for name in self.names:
            with suppress(StepwellError):
                await self.people.schedules.pause(name)
        await asyncio.sleep(60.0)
        self.checker.end()

    async def _create(self, number: int) -> None:
        rng, name = self.rng, f"s{number}"
        step = rng.choice((5, 10, 15, 20, 30))
        self.seconds = max(self.seconds, min(step * self.size.ticks, 60.0 * self.size.ticks))
        options: dict[str, Any] = {
            "overlap": rng.choice(("skip", "allow", "cancel_running", "buffer_one")),
            "catch_up": rng.choice(("latest", "all", "all", "none")),
            "jitter": rng.choice((0, 0, 0, 2, 8)),
            "window": rng.choice((None, None, "30s", "2m")),
        }
        if number % 4 == 0:
            options |= {"overlap": "allow", "catch_up": "all", "window": None}  # every tick starts a run
        if rng.random() < 0.2:
            times: dict[str, Any] = {"cron": "* * * * *", "timezone": rng.choice(("Europe/Berlin", "Asia/Kolkata"))}
        else:
            times = {"every": f"{step}s", "offset": f"{rng.randrange(step)}s"}
        started = rng.choice((at_once_done, at_once_done, takes_long, continues, not_everywhere))
        self.names.append(name)
        await self.people.schedules.create(name, workflow=started, **times, **options)

    async def _kill(self) -> None:
        for _ in range(self.rng.randrange(8)):
            await asyncio.sleep(self.rng.uniform(0.0, self.seconds / 4))
            worker = self.rng.choice(list(self.workers.values()))
            if self.rng.random() < 0.7:
                worker.kill()
                continue
            worker.process.pause()  # for longer than its lease
            self.loop.call_later(self.rng.uniform(2.0, 15.0), worker.process.resume, context=self.context)
            self.checker.stats["pauses"] += 1

    async def _outage(self) -> None:
        """For a while, all workers are down."""
        for _ in range(self.rng.randrange(3)):
            await asyncio.sleep(self.rng.uniform(0.0, self.seconds / 3))
            self.is_down = True
            self.checker.stats["outages"] += 1
            for worker in tuple(self.workers.values()):
                worker.kill()
            await asyncio.sleep(self.rng.choice((3.0, 30.0, 200.0)))
            self.is_down = False

    async def _jump(self) -> None:
        if self.rng.random() < 0.5:
            return
        for _ in range(self.rng.randrange(1, 5)):
            await asyncio.sleep(self.rng.uniform(0.0, self.seconds / 4))
            self.host.jump(self.rng.choice((-3_600.0, -60.0, -1.0, 0.7, 45.0, 400.0)))
            self.checker.stats["clock jumps"] += 1
        if self.rng.random() < 0.25:
            # A year ahead, where every tick of "all" would start a run: such schedules get a window first.
            for name in self.names:
                with suppress(StepwellError):
                    await self.people.schedules.update(name, window="2m")
            self.host.jump(_YEAR)
            await asyncio.sleep(self.seconds / 8)
            self.host.jump(-_YEAR)
            self.checker.stats["jumps of a year"] += 1

    async def _interfere(self) -> None:
        """People pause, resume, trigger, change and backfill schedules. What is refused changes nothing."""
        for _ in range(self.rng.randrange(12)):
            await asyncio.sleep(self.rng.uniform(0.0, self.seconds / 8))
            with suppress(StepwellError):
                await self._act(self.rng.choice(self.names))
            self.checker.stats["acts of people"] += 1

    async def _act(self, name: str) -> None:
        rng, schedules = self.rng, self.people.schedules
        match rng.randrange(6):
            case 0:
                await schedules.pause(name)
            case 1:
                await schedules.resume(name)
            case 2:
                await schedules.trigger(name, overlap=rng.choice((None, "allow")))
            case 3:
                await schedules.update(name, jitter=rng.choice((0, 3)))
            case 4:
                await schedules.update(name, every=rng.choice(("7s", "20s", "45s")))
            case _:
                now = to_datetime(self.people.now())
                await schedules.backfill(name, now - timedelta(seconds=rng.uniform(10, 300)), now)


class _Seen:
    """The wire of people: nothing goes wrong on it, and the checker sees what they change."""

    def __init__(self, world: ScheduleWorld) -> None:
        self._world = world

    async def call(self, noun: str, verb: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """One call."""
        answer = await method(*args, **kwargs)
        if noun == "records" and verb == "change":
            self._world.checker.changed(args[0], answer)
        return answer


def simulate_schedules(seed: int, store: str = "sqlite", size: Size = LARGE) -> Report:
    """Live through one seed, and say what was wrong."""
    world = ScheduleWorld(seed, store, size)
    try:
        task = world.loop.create_task(world.run(), context=world._outside.lane.context())
        world.loop.run_until_complete(task)
    finally:
        for worker in world.workers.values():
            worker.process.executor.close()
        world.loop.dispose()
        world.database.close()
    return Report(seed, world.checker.violations, world.checker.stats)


def _one(job: tuple[int, str]) -> Report:
    return simulate_schedules(job[0], job[1])


def main(argv: list[str] | None = None) -> int:
    """Run many seeds, print what they came to, and exit with 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m sim.schedules", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(argv)
    jobs = [(seed, given.store) for seed in range(given.first_seed, given.first_seed + given.seeds)]
    stats: Counter[str] = Counter()
    broken = 0
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for report in pool.imap_unordered(_one, jobs):
            stats += report.stats
            broken += bool(report.violations)
            for violation in report.violations[:3]:
                print(f"seed {report.seed}: {violation}", flush=True)
    for name, count in sorted(stats.items()):
        print(f"{name:<24} {count:>12,}")
    print(f"{given.seeds} seeds, {broken} with violations")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
