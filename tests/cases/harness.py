"""Workers and clients over one database, in virtual time: started, stopped, paused and killed at will."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stepwell import Engine, Handle, WorkerSettings, Workflow
from stepwell.clock import SECOND, Duration, span
from stepwell.environment import Environment
from stepwell.stores.base.store import Store
from stepwell.views import EntryView, RunView
from stepwell.virtual.ids import counted_ids
from stepwell.virtual.loop import VirtualLoop
from stepwell.virtual.processes import VirtualProcess
from tests.cases.wire import Wire

T = TypeVar("T")

OpenStore = Callable[[Environment], Store]


_OUTWARD = ("sinks", "lifecycle", "triggers", "codec", "retention", "alerts")
PATIENCE = 3_600.0  # seconds of virtual time that a test may wait for something without saying so


class NothingWillHappen(AssertionError):
    """The test waits, and nothing in it will ever happen."""


class Node:
    """One process: an engine with its own way to the database. Whatever is asked of it happens inside of it."""

    def __init__(self, name: str, harness: Harness, workflows: tuple[Workflow[Any, Any], ...], **settings: Any) -> None:
        loop, lane = harness.loop, harness.loop.add_lane(name)
        self.process = VirtualProcess(loop, lane, harness.clock, harness.ids, random.Random(name), threads_max=4)
        environment = self.process.environment
        self.wire = Wire(harness.open_store(environment), lane, harness.answers)
        outward = {key: settings.pop(key) for key in _OUTWARD if key in settings}
        chosen = {"mode": harness.mode, "name": name, "lease": "1h", "sweep_every": "10m", **settings}
        self.engine = Engine(
            self.wire.store, workflows=workflows, settings=WorkerSettings(**chosen), environment=environment, **outward
        )

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have this process do something."""
        return await self.process.executor.spawn(work, name=f"{self.process.name} is asked")

    async def open(self) -> None:
        await self.do(self.engine.__aenter__())

    async def shutdown(self, grace: float = 10.0) -> None:
        """Leave in order."""
        await self.do(self.engine.shutdown(grace))

    def pause(self) -> None:
        """Stop the process without killing it: a long garbage collection, a closed laptop."""
        self.process.pause()

    def resume(self) -> None:
        """Let a paused process go on, as if no time had passed for it."""
        self.process.resume()

    def crash(self) -> None:
        """Stop at once and for ever: no clean-up, no last word to the database."""
        self.process.kill()

    async def start(self, workflow: Workflow[Any, Any] | str, input: Any = None, **options: Any) -> Handle[Any]:
        return await self.do(self.engine.start(workflow, input, **options))

    async def signal(self, target: str, name: Any, payload: Any = None, **options: Any) -> Any:
        return await self.do(self.engine.signal(target, name, payload, **options))

    async def publish(self, topic: Any, payload: Any = None, **options: Any) -> int:
        return await self.do(self.engine.publish(topic, payload, **options))


class Harness:
    """One database, one clock, any number of processes."""

    def __init__(self, open_store: OpenStore, mode: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        assert loop.manual is not None
        loop.on_idle = self._on_idle
        self.loop = loop
        self.clock = loop.manual
        self.ids = counted_ids(self.clock)
        self.mode = mode
        self.open_store = open_store
        self.nodes: list[Node] = []
        self.answers: list[tuple[str, Any, Any]] = []  # every commit of every process, and what became of it
        self._until = loop.time() + PATIENCE  # how far time may go without the test
        self._quiet: asyncio.Future[None] | None = None  # done when nothing is left to do until then

    async def client(self) -> Node:
        """A process that only asks."""
        return await self._add((), worker_name="client")

    async def worker(self, *workflows: Workflow[Any, Any], **settings: Any) -> Node:
        """A process that serves these workflows."""
        return await self._add(workflows, worker_name="worker", **settings)

    async def _add(self, workflows: tuple[Workflow[Any, Any], ...], worker_name: str, **settings: Any) -> Node:
        node = Node(f"{worker_name}-{len(self.nodes)}", self, workflows, **settings)
        self.nodes.append(node)
        await node.open()
        return node

    async def deploy(self, worker: Node, *workflows: Workflow[Any, Any], **settings: Any) -> Node:
        """Replace a worker by one with other code."""
        await worker.shutdown()
        self.nodes.remove(worker)
        return await self.worker(*workflows, **settings)

    async def takeover(self, worker: Node, *workflows: Workflow[Any, Any], **settings: Any) -> Node:
        """Kill a worker, and let another one have its runs as soon as the lease is over."""
        worker.crash()
        successor = await self.worker(*workflows, **settings)
        await self.advance("90m")
        return successor

    async def advance(self, duration: Duration) -> None:
        """Let time pass, and everything in it happen."""
        self._until = self.loop.time() + span(duration) / SECOND
        self._quiet = self.loop.create_future()
        try:
            await self._quiet
        finally:
            self._quiet = None
            self._until = self.loop.time() + PATIENCE

    async def drain(self) -> None:
        """Let everything happen that needs no time."""
        await self.advance(0)

    def _on_idle(self, when: float | None) -> float:
        if when is not None and when <= self._until:
            return when
        if self._quiet is None:
            raise NothingWillHappen(f"nothing happens for {PATIENCE:g} s, and the test still waits")
        if not self._quiet.done():
            self._quiet.set_result(None)
        return self._until

    # --- looking, past all processes ---

    @property
    def _any(self) -> Engine:
        return next(node.engine for node in self.nodes if not node.process.is_stopped)

    async def status(self, run: Handle[Any] | str) -> RunView:
        view = await self._any.status(_id(run))
        assert view is not None
        return view

    async def history(self, run: Handle[Any] | str) -> list[EntryView]:
        return await self._any.runs.history(_id(run))

    async def paths(self, run: Handle[Any] | str) -> list[str]:
        """The recorded places of a run, in the order of their commits."""
        return [entry.path for entry in await self.history(run)]

    async def result(self, run: Handle[Any] | str) -> Any:
        """The result of a run that has ended, or what it raises."""
        return await self._any.result(_id(run), timeout="2m")

    async def orphans(self) -> list[str]:
        return list(await self.nodes[0].wire.behind.views.orphans())

    async def close(self) -> None:
        """Nothing may be left without a cause to go on; then all processes leave."""
        orphans = await self.orphans()
        for node in self.nodes:
            if node.process.is_alive:
                node.resume()
                node.wire.mend()
                await node.shutdown(grace=0.0)
        self.loop.end_processes()
        for node in self.nodes:
            node.process.kill()
            node.process.executor.close()
        assert orphans == []


def _id(run: Handle[Any] | str) -> str:
    return run if isinstance(run, str) else run.run_id
