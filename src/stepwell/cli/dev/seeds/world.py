"""The world in which the shop's past happens: its database, on a clock that jumps to what happens next."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final

import apsw

from stepwell.clock import SECOND, Instant, Span, span
from stepwell.config import WorkerSettings
from stepwell.engine.alert_rules import Alert
from stepwell.engine.triggers import Trigger
from stepwell.replay.workflows import Workflow
from stepwell.sinks.base import Sink
from stepwell.virtual.clock import ManualClock
from stepwell.virtual.databases import InlineSqlite
from stepwell.virtual.ids import counted_ids
from stepwell.virtual.loop import VirtualLoop
from stepwell.virtual.processes import VirtualProcess
from stepwell.wiring import Engine

FOREVER: Final = "36500d"
_DAMAGE: Final = """
update stepwell_entries set value = x'6aff00'
where kind = 's' and run = (select id from stepwell_runs where run_id = ?)
"""


class Machine:
    """A process with a worker."""

    def __init__(self, process: VirtualProcess, engine: Engine) -> None:
        self._process = process
        self.engine = engine

    async def close(self) -> None:
        """Stop it in an orderly way."""
        await self.engine.close()

    def die(self) -> None:
        """Kill it: its runs stay claimed until its lease ends."""
        self._process.kill()


class World:
    """A file, a clock that begins at a moment, and processes."""

    def __init__(self, file: Path, began_at: Instant) -> None:
        self.clock = ManualClock(began_at)
        self.loop = VirtualLoop(self.clock)
        self._file = file
        self._database = InlineSqlite(file)
        self._ids = counted_ids(self.clock)

    def run(self, story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        """Let a story happen, and close the file. Raises what the story raises."""
        process = self._process("story")

        async def tell() -> None:
            await story(self)

        task = process.executor.spawn(tell(), name="story")
        self.loop.set_exception_handler(lambda _, __: None)  # of processes that were killed
        try:
            self.loop.drive(task.done)
            task.result()
        finally:
            self.loop.dispose()
            self._database.close()

    async def start(
        self,
        name: str,
        workflows: Iterable[Workflow[Any, Any]],
        sinks: Iterable[Sink] = (),
        triggers: Iterable[Trigger] = (),
        *,
        alerts: Iterable[Alert] | None = None,
        worker: bool = True,
        lease: str = FOREVER,
    ) -> Machine:
        """Start a machine. Its lease lasts for ever unless it is to die: renewals would take most of the time."""
        process = self._process(name)
        settings = WorkerSettings(name=name, lease=lease, sweep_every=FOREVER).completed()
        engine = Engine(
            self._database.open(process.environment, self.clock),
            workflows=workflows,
            worker=worker,
            settings=settings,
            environment=process.environment,
            sinks=sinks,
            triggers=triggers,
            alerts=alerts,
            offload="database",
        )
        await process.executor.spawn(engine.open(), name=f"{name} opens")
        return Machine(process, engine)

    async def pass_time(self, duration: str) -> None:
        """Let time pass, and what happens meanwhile."""
        await asyncio.sleep(span(duration) / SECOND)

    async def reach(self, moment: Instant) -> None:
        """Let time pass until a moment."""
        await asyncio.sleep(max(0.0, Span(moment - self.clock.now()) / SECOND))

    def damage(self, run_id: str) -> None:
        """Damage what is recorded of a run, as a broken disk does."""
        connection = apsw.Connection(str(self._file))
        connection.execute(_DAMAGE, (run_id,))
        connection.close()

    def _process(self, name: str) -> VirtualProcess:
        lane = self.loop.add_lane(name)
        return VirtualProcess(self.loop, lane, self.clock, self._ids, random.Random(name))
