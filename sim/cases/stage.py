"""A stage for cases that need more than one run: engines over one database on a virtual clock, driven by a script."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Self

from sim.databases import open_database
from stepwell.config import WorkerSettings
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.store import Store
from stepwell.virtual.clock import ContinuousClock, ProcessClock
from stepwell.virtual.executors import BlockingCalls, InlineCalls
from stepwell.virtual.ids import drawn_ids
from stepwell.virtual.loop import DeadlockError, SpinningError, VirtualLoop
from stepwell.virtual.processes import VirtualProcess
from stepwell.wiring import Engine

SETTINGS = WorkerSettings(lease=2.0, sweep_every=0.5)
THREAD_SECONDS = 0.01  # until a thread takes up a call


class Stage:
    """One database, one clock, any number of engines; usable as a context manager."""

    def __init__(self, calls: Callable[[VirtualLoop], BlockingCalls] | None = None) -> None:
        self.host = ContinuousClock()
        self.loop = VirtualLoop(self.host, has_outside=False)
        self.loop.handles_max = 600_000
        self.loop.set_exception_handler(lambda *_: None)  # what hangs because of it has not ended in time
        self._calls = calls or (lambda loop: InlineCalls(loop, lambda: THREAD_SECONDS))
        self._database = open_database("sqlite")
        self._processes: list[VirtualProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.executor.close()
        self.loop.dispose()
        self._database.close()

    def engine(
        self,
        name: str,
        workflows: Iterable[Workflow[Any, Any]] = (),
        *,
        settings: WorkerSettings = SETTINGS,
        through: Callable[[Store], Any] = lambda store: store,
    ) -> Engine:
        """An engine of a process of its own; a worker, if it has workflows. `through` may stand before its store."""
        clock, rng = ProcessClock(self.host), random.Random(name)
        process = VirtualProcess(
            self.loop, self.loop.add_lane(name), clock, drawn_ids(clock, rng), rng, calls=self._calls(self.loop)
        )
        self._processes.append(process)
        store = self._database.open(process.environment, clock)
        has_worker = bool(tuple(workflows))
        return Engine(
            through(store), workflows=workflows, worker=has_worker, settings=settings, environment=process.environment
        )

    def play(self, story: Coroutine[Any, Any, str], *, seconds: float = 600.0) -> str:
        """What is wrong at the end of a story; also that it has not ended after so many seconds of virtual time."""
        main = self.loop.create_task(_in_time(story, seconds), context=self.loop.world.context())
        try:
            self.loop.drive(main.done)
        except (DeadlockError, SpinningError) as error:
            return str(error)
        return str(main.result())


async def _in_time(story: Coroutine[Any, Any, str], seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await story
    except TimeoutError:
        return f"it has not ended after {seconds:g} s"
