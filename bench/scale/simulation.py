"""A discrete-event simulation of workers at one database: cores that serve in order, a log that commits in groups.

Every worker claims a batch of due runs, executes their steps side by side, commits each step of the whole batch at
once, and claims again. There is always enough to claim, so what comes out is the most that the database gives.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.scale.costs import Costs


@dataclass(frozen=True)
class Setup:
    """Who takes part."""

    workers: int
    batch: int = 10  # runs that a worker claims and executes together
    steps: int = 10  # of each run
    cores: int = 2  # of the database
    cycles: int = 10  # that every worker goes through, the first fifth of which is not counted
    seed: int = 1
    spread: float = 0.2  # each time is drawn from 1 ± this part of its mean


class Outcome(NamedTuple):
    """What was seen while it was counted."""

    workers: int
    runs_per_s: float
    claim_p50_s: float
    claim_p99_s: float
    cores_busy: float  # parts of 1
    log_busy: float
    workers_busy: float
    commits_per_flush: float

    @property
    def bottleneck(self) -> str:
        """What leaves no room. A log that is always busy takes more at once; cores that are do not."""
        if self.cores_busy >= 0.9:
            return "database cores"
        if self.log_busy >= 0.9:
            return "waits for the log"
        return "workers" if self.workers_busy >= 0.9 else "waits for answers"


class _Pause(NamedTuple):
    seconds: float


class _Core(NamedTuple):
    seconds: Callable[[], float]  # known when it is served


class _Flush(NamedTuple):
    pass


_Process = Generator[_Pause | _Core | _Flush, None, None]


@dataclass
class Simulation:
    """One database and its workers; the same seed gives the same."""

    costs: Costs
    setup: Setup
    now: float = 0.0
    steps: int = 0
    held: int = 0  # rows that claims hold which are not committed
    latencies: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.setup.seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._free = self.setup.cores
        self._queue: deque[tuple[_Process, _Core]] = deque()
        self._log_waiting: list[_Process] = []
        self._log_is_busy = False
        self._until = self.setup.cycles * self._longest_cycle()
        self._counts_from = self._until / 5
        self._core_s = self._log_s = self._worker_s = 0.0
        self._flushes = self._flushed = 0

    def run(self) -> Outcome:
        """Until the time is over."""
        for _ in range(self.setup.workers):
            process = self._worker()
            self._after(
                self._random.random() * self.costs.cycle(batch=self.setup.batch, steps=self.setup.steps), process
            )
        while self._events and self._events[0][0] <= self._until:
            self.now, _, act = heapq.heappop(self._events)
            act()
        counted = self._until - self._counts_from
        ordered = sorted(self.latencies) or [0.0]
        return Outcome(
            self.setup.workers,
            self.steps / self.setup.steps / counted,
            ordered[len(ordered) // 2],
            ordered[len(ordered) * 99 // 100],
            self._core_s / (counted * self.setup.cores),
            self._log_s / counted,
            self._worker_s / (counted * self.setup.workers),
            self._flushed / self._flushes if self._flushes else 0.0,
        )

    def _longest_cycle(self) -> float:
        """Of a worker: alone, or in a queue with all others."""
        costs, setup = self.costs, self.setup
        core = setup.batch * costs.core_per_run(batch=setup.batch, steps=setup.steps)
        alone = costs.cycle(batch=setup.batch, steps=setup.steps)
        return max(alone, setup.workers * core / setup.cores)

    def _worker(self) -> _Process:
        """One worker's life."""
        costs, batch = self.costs, self.setup.batch
        half = costs.round_trip_s / 2

        def claim_time() -> float:
            self.held += batch
            return costs.claim(batch, held=self.held - batch)

        while True:
            asked = self.now
            yield _Pause(half)
            yield _Core(claim_time)
            yield _Flush()
            self.held -= batch
            yield _Pause(half)
            if self._is_counted:
                self.latencies.append(self.now - asked)
            for _ in range(self.setup.steps):
                work = self._drawn(batch * costs.worker_step_s)
                yield _Pause(work)
                self._worker_s += self._counted_part(work)
                yield _Pause(half)
                yield _Core(lambda: costs.commit(batch))
                yield _Flush()
                yield _Pause(half)
                if self._is_counted:
                    self.steps += batch

    @property
    def _is_counted(self) -> bool:
        return self.now >= self._counts_from

    def _counted_part(self, seconds: float) -> float:
        """Of something that ends now: what of it lies in the time that counts."""
        return max(0.0, min(seconds, self.now - self._counts_from))

    def _drawn(self, mean: float) -> float:
        spread = self.setup.spread
        return mean * self._random.uniform(1 - spread, 1 + spread) if spread else mean

    def _at(self, moment: float, act: Callable[[], None]) -> None:
        self._count += 1  # of two at one moment the one that was planned first
        heapq.heappush(self._events, (moment, self._count, act))

    def _after(self, seconds: float, process: _Process) -> None:
        self._at(self.now + seconds, lambda: self._go_on(process))

    def _go_on(self, process: _Process) -> None:
        """Let it run until it wants something."""
        wanted = next(process)
        match wanted:
            case _Pause(seconds):
                self._after(seconds, process)
            case _Core():
                self._queue.append((process, wanted))
                self._serve()
            case _Flush():
                self._log_waiting.append(process)
                self._flush()

    def _serve(self) -> None:
        while self._free and self._queue:
            process, wanted = self._queue.popleft()
            self._free -= 1
            took = self._drawn(wanted.seconds())
            self._at(self.now + took, lambda process=process, took=took: self._served(process, took))  # type: ignore[misc]

    def _served(self, process: _Process, took: float) -> None:
        self._free += 1
        self._core_s += self._counted_part(took)
        self._go_on(process)
        self._serve()

    def _flush(self) -> None:
        """All who wait are written together; who comes meanwhile waits for the next time."""
        if self._log_is_busy or not self._log_waiting:
            return
        together, self._log_waiting = self._log_waiting, []
        self._log_is_busy = True
        took = self._drawn(self.costs.flush_s)
        self._at(self.now + took, lambda: self._flushed_all(together, took))

    def _flushed_all(self, together: list[_Process], took: float) -> None:
        self._log_is_busy = False
        self._log_s += self._counted_part(took)
        if self._is_counted:
            self._flushes += 1
            self._flushed += len(together)
        for process in together:
            self._go_on(process)
        self._flush()


def simulate(costs: Costs, setup: Setup) -> Outcome:
    """What so many workers get out of one database."""
    return Simulation(costs, setup).run()


def knee(outcomes: list[Outcome]) -> Outcome:
    """The smallest of growing fleets that reaches nine tenths of the most that any of them does."""
    most = max(one.runs_per_s for one in outcomes)
    return next(one for one in outcomes if one.runs_per_s >= 0.9 * most)
