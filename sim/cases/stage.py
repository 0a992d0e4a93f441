"""A stage for cases that need more than one run: engines over one database on a virtual clock, driven by a script."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from sim.backends import open_backend
from sim.environment import HostClock, SimExecutor, make_environment
from sim.loop import Deadlock, SimLoop, Spinning
from stepwell.config import WorkerSettings
from stepwell.environment import Environment
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.store import Store
from stepwell.wiring import Engine

SETTINGS = WorkerSettings(lease=2.0, sweep_every=0.5)


class Stage:
    """One database, one clock, any number of engines; usable as a context manager."""

    def __init__(self, executor: type[SimExecutor] = SimExecutor) -> None:
        self._executor = executor
        self.loop = SimLoop(random.Random(1))  # type: ignore[abstract]
        self.host = HostClock(self.loop)
        self._backend = open_backend("sqlite")
        self._environments: list[Environment] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for environment in self._environments:
            environment.executor.close()
        self.loop.dispose()
        self._backend.close()

    def store(self, name: str) -> tuple[Environment, Store]:
        """The store as one process has it."""
        made = make_environment(self.loop, self.host, random.Random(name), name, lambda *_: None)
        environment = replace(made, executor=self._executor(self.loop, random.Random(name)))
        self._environments.append(environment)
        return environment, self._backend.handle(environment)

    def engine(
        self,
        name: str,
        workflows: Iterable[Workflow[Any, Any]] = (),
        *,
        settings: WorkerSettings = SETTINGS,
        through: Callable[[Store], Any] = lambda store: store,
    ) -> Engine:
        """An engine of a process of its own; a worker, if it has workflows. `through` may stand before its store."""
        environment, store = self.store(name)
        has_worker = bool(tuple(workflows))
        return Engine(
            through(store), workflows=workflows, worker=has_worker, settings=settings, environment=environment
        )

    def play(self, story: Coroutine[Any, Any, str], *, seconds: float = 600.0) -> str:
        """What is wrong at the end of a story; also that it has not ended after so many seconds of virtual time."""
        try:
            return self.loop.run(_in_time(story, seconds))
        except (Deadlock, Spinning) as error:
            return str(error)


async def _in_time(story: Coroutine[Any, Any, str], seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await story
    except TimeoutError:
        return f"it has not ended after {seconds:g} s"
