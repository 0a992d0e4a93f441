"""One process of a test: an engine and a worker on their own lane. It can be killed and disconnected."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from stepwell.clock import SECOND, Clock
from stepwell.codec.base import Codec
from stepwell.config import WorkerSettings
from stepwell.engine.triggers import Trigger
from stepwell.errors import DuplicateNameError
from stepwell.ids import Ids, RunId
from stepwell.model.workers import NewWorker
from stepwell.replay.workflows import Workflow
from stepwell.sinks.base import Sink
from stepwell.stores.base.store import Store
from stepwell.testing.wire import Watcher, Wire
from stepwell.virtual.clock import ProcessClock
from stepwell.virtual.executors import BlockingCalls
from stepwell.virtual.loop import VirtualLoop
from stepwell.virtual.processes import VirtualProcess
from stepwell.wiring import Engine

FOREVER = "36500d"


class NodeEngine(Engine):
    """An engine that gives tests access to its worker."""

    @property
    def active(self) -> int:
        """How many runs execute here now."""
        return 0 if self._worker is None else self._worker.active

    @property
    def codec(self) -> Codec:
        """How values are stored."""
        return self._backend.codec

    def evict_now(self, run_id: RunId) -> None:
        """Release a run as soon as none of its bodies runs, and drop its code."""
        if self._worker is not None:
            self._worker.evict(run_id)

    def knows(self, workflow: Workflow[Any, Any]) -> bool:
        """Whether it runs exactly this workflow."""
        found = self._backend.registry.find(workflow.definition)
        return found is not None and found.fn is workflow.fn

    async def serve(self, workflow: Workflow[Any, Any]) -> None:
        """Also run this workflow."""
        registry = self._backend.registry
        registry.add(workflow)
        if self._worker is not None:
            await self._schedule_declarations.declare_all()
            incarnation, settings = self._worker.lease.incarnation, self._settings
            await self._backend.store.workers.register(
                NewWorker(incarnation, settings.name, settings.lease_span, registry.definitions)
            )
            self._worker.suspect_lost_claims()  # it looks at once for runs of this workflow


class Node:
    """A worker of a test. Failures and reports show its `name`."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        *,
        clock: Clock,
        ids: Ids,
        calls: BlockingCalls,
        on_body: Callable[[Node, Any], None],
        watcher: Watcher,
    ) -> None:
        self.name = name
        self.lane = loop.add_lane(name)
        self.clock = ProcessClock(clock)
        self._process = VirtualProcess(
            loop,
            self.lane,
            self.clock,
            ids,
            random.Random(name),
            calls=calls,
            on_body=lambda body, _: on_body(self, body),
        )
        self.executor = self._process.executor
        self.environment = self._process.environment
        self.wire = Wire(self.lane, watcher)
        self._lease_seconds = 0.0
        self.engine: NodeEngine

    def equip(
        self,
        store: Store,
        workflows: Iterable[Workflow[Any, Any]],
        *,
        settings: WorkerSettings,
        codec: Codec | None,
        is_offloading: bool,
        sinks: Iterable[Sink],
        lifecycle: bool,
        triggers: Iterable[Trigger],
    ) -> None:
        """Connect it to the store, and give it its workflows."""
        self._lease_seconds = settings.lease_span / SECOND
        self.engine = NodeEngine(
            self.wire.reach(store),
            workflows=workflows,
            worker=True,
            settings=settings,
            environment=self.environment,
            codec=codec,
            offload="database" if is_offloading else None,
            sinks=sinks,
            lifecycle=lifecycle,
            triggers=triggers,
        )

    @property
    def is_alive(self) -> bool:
        """Whether it is alive: not killed."""
        return self._process.is_alive

    @property
    def lease_seconds(self) -> float:
        """How long its lease lasts."""
        return self._lease_seconds

    def kill(self) -> None:
        """Stop at once and permanently."""
        self._process.kill()

    def __repr__(self) -> str:
        return f"<worker {self.name}{'' if self.is_alive else ', dead'}>"


def add_known(found: dict[str, Workflow[Any, Any]], workflow: Workflow[Any, Any], *, is_asked: bool) -> bool:
    """Add a workflow that workers run; whether it is new. Unless `is_asked`, a known workflow of that name stays."""
    known = found.get(workflow.definition)
    if known is None:
        found[workflow.definition] = workflow
        return True
    if known.fn is not workflow.fn and is_asked:
        raise DuplicateNameError(
            f"two workflows of this test are called {workflow.definition}",
            where=f"{known.fn.__module__} and {workflow.fn.__module__}",
            fix="give one of them another name or version: @workflow(name=..., version=...)",
        )
    return False
