"""The composition root: a store and settings become engine and worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from stepwell.addresses import open_store
from stepwell.codec.base import Codec
from stepwell.codec.blobs import FolderBlobs
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.config import WorkerSettings
from stepwell.engine.bulks import BULK_DEFINITION
from stepwell.engine.facade import Facade
from stepwell.engine.starts import Plan, Start, Started
from stepwell.environment import Environment, Home, system_environment
from stepwell.errors import InvalidOptionError, StepwellError, WorkerStoppedError
from stepwell.ids import RunId
from stepwell.model.runs import NewRun
from stepwell.replay.registry import Registry
from stepwell.replay.workflows import Workflow
from stepwell.sinks.base import Sink
from stepwell.sinks.routes import Routes
from stepwell.sinks.topics import TopicSink
from stepwell.stores.base.store import Store
from stepwell.telemetry.metrics import Metric

if TYPE_CHECKING:
    from stepwell.worker.observers import Observer
    from stepwell.worker.worker import Worker


class Engine(Facade):
    """Durable workflows in this process.

        async with Engine("sqlite:///shop.db", workflows=[checkout]) as engine:
            run = await engine.start(checkout, order, key="order-42")
            receipt = await run.result()

    With `workflows` or `sinks` it has a worker here (unless `worker=False`); without, it is a client of the same store.
    `offload` keeps payloads above 100 kB apart, by their hash: in the "database" itself, or in a folder. Whoever reads
    them must say the same. `sinks` get the events that runs emit: the engine that commits an event decides where it
    goes, and any engine with a worker and a sink of that name hands it over. With `lifecycle`, the end of a run is such
    an event. `observers` are told what is executed here: `Metrics`, `Traces`, or one of your own.
    """

    def __init__(
        self,
        url: str | Store,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        worker: bool | None = None,
        settings: WorkerSettings | None = None,
        environment: Environment | None = None,
        codec: Codec | None = None,
        offload: Literal["database"] | Path | None = None,
        sinks: Iterable[Sink] = (),
        lifecycle: bool = False,
        observers: Iterable[Observer] = (),
    ) -> None:
        settings = settings or WorkerSettings()
        environment = environment or system_environment(threads_max=settings.threads_max)
        registry = Registry(workflows)
        store = open_store(url, environment) if isinstance(url, str) else url
        sinks = tuple(sinks)
        self._routes = Routes(sinks, lifecycle=lifecycle)
        for sink in sinks:
            if isinstance(sink, TopicSink):
                sink.bind(self.publish)
        whole = _offloading(codec or JsonCodec(), store, offload)
        super().__init__(environment, store, registry, whole, self._routes.announce)
        self._settings = settings
        self._observers = tuple(observers)
        self._stalls_max = settings.stalls_max
        self._serves = bool(registry.definitions) or any(self._routes) if worker is None else worker
        self._worker: Worker | None = None

    async def __aenter__(self) -> Self:
        self._home = Home(asyncio.get_running_loop())
        await self._store.open()
        try:
            if self._serves:
                await self._work(self._registry)
        except BaseException:
            # Nobody will call `__aexit__`, and what is open would stay so.
            self._worker = self._local = None
            await self._store.close()
            self._environment.executor.close()
            raise
        return self

    async def serve_bulks(self) -> None:
        """Execute acts on many runs here, and nothing else, from now on: for a client. A worker does it anyway."""
        if self._worker is None:
            await self._work(Registry())

    async def _work(self, registry: Registry) -> None:
        # Here and not above: most commands only look, and would wait for what they do not use.
        from stepwell.worker.worker import Worker

        registry.serve(BULK_DEFINITION, self._make_bulk)
        self._worker = Worker(
            self._environment,
            self._store,
            registry,
            self._settings,
            self._codec,
            self._routes,
            self._observers,
            on_over=self._results.over,
        )
        self._results.is_at_work = self._worker.is_executing
        self._local = self._worker
        await self._worker.start()

    def _make_bulk(self) -> Workflow[Any, Any]:
        from stepwell.engine.bulk_work import bulk_workflow

        return bulk_workflow(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    async def shutdown(self, grace: float = 10.0) -> None:
        """Claim nothing more, let running bodies end within the grace time, give the rest back, and close."""
        store = self._store  # refused elsewhere
        worker, self._worker, self._local = self._worker, None, None
        try:
            if worker is not None:
                await worker.stop(grace)
            await store.close()
        finally:
            self._environment.executor.close()
        self._home = None

    async def wait_failed(self) -> StepwellError:
        """Wait until the worker here has given up, and give the reason. While it serves, and where there is no worker,
        this waits.
        """
        if self._worker is None:
            await asyncio.Event().wait()
        assert self._worker is not None
        await self._worker.has_failed.wait()
        return self._worker.lost or WorkerStoppedError(
            f"the worker has ended: {self._worker.failure}",
            where="worker",
            why="a worker that does not work must not keep its runs",
            fix="read its log, and start it again; other workers go on with its runs",
        )

    async def figures(self) -> list[Metric]:
        """Everything to be read by Prometheus: of the store, and of the worker here if it has a `Metrics`."""
        found = await super().figures()
        if self._observers:
            from stepwell.worker.metrics import Metrics

            found += [metric for each in self._observers if isinstance(each, Metrics) for metric in each.read()]
        return found

    def _new_runs(self, started: Started, inputs: Sequence[tuple[RunId, bytes, Start]], plan: Plan) -> list[NewRun]:
        new = super()._new_runs(started, inputs, plan)
        if not self._observers:
            return new
        from stepwell.worker.observers import Observers

        return [*map(Observers(self._observers).starting, new)]


def _offloading(codec: Codec, store: Store, offload: Literal["database"] | Path | None) -> Codec:
    if offload is None:
        return codec
    if isinstance(codec, Offloaded):
        raise InvalidOptionError("the codec offloads already", fix="leave offload out, or give the codec without it")
    if offload == "database":
        return Offloaded(codec, store.blobs)
    if isinstance(offload, Path):
        return Offloaded(codec, FolderBlobs(offload))
    raise InvalidOptionError(f"offload is {offload!r}", fix='"database", or a folder as a pathlib.Path')
