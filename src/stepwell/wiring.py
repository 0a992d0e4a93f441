"""The composition root: a store and settings become engine and worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from stepwell.addresses import open_store
from stepwell.clock import Duration, Instant
from stepwell.codec.base import Codec
from stepwell.codec.blobs import FolderBlobs
from stepwell.codec.json_codec import JsonCodec
from stepwell.codec.offload import Offloaded
from stepwell.config import WorkerSettings
from stepwell.engine.backend import Backend
from stepwell.engine.bulks import BULK_DEFINITION, Bulks
from stepwell.engine.events import Events
from stepwell.engine.explanations import Explanation, explain_run
from stepwell.engine.figures import read_figures
from stepwell.engine.handles import Handle
from stepwell.engine.holds import Holds
from stepwell.engine.ledger import Ledger
from stepwell.engine.outbox import Outbox
from stepwell.engine.repairs import Repairs
from stepwell.engine.results import Results
from stepwell.engine.runs import OnStart, Runs
from stepwell.engine.signals import Signals
from stepwell.engine.starts import Start, StartManyOptions, StartOptions
from stepwell.engine.versions import Versions
from stepwell.engine.views import RunView
from stepwell.engine.workers import Workers
from stepwell.environment import Affinity, Environment, system_environment
from stepwell.errors import InvalidOptionError, StepwellError, WorkerStoppedError
from stepwell.model.events import Deliver
from stepwell.model.signals import Delivery, IfMissing
from stepwell.model.topics import Event
from stepwell.model.transactions import Transaction
from stepwell.replay.registry import Registry
from stepwell.replay.signals import Cancel, Request, Signal
from stepwell.replay.workflows import Workflow
from stepwell.sinks.base import Sink
from stepwell.sinks.routes import Routes
from stepwell.sinks.topics import TopicSink
from stepwell.stores.base.store import Store
from stepwell.telemetry.metrics import Metric

if TYPE_CHECKING:
    from stepwell.worker.observers import Observer
    from stepwell.worker.worker import Worker

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")
R = TypeVar("R")


class Engine:
    """Durable workflows in this process.

        async with Engine("sqlite:///shop.db", workflows=[checkout]) as engine:
            run = await engine.start(checkout, order, key="order-42")
            receipt = await run.result()

    With `workflows` or `sinks` it has a worker here (unless `worker=False`); without, it is a client of the same store.
    `offload` keeps payloads above 100 kB apart, by their hash: in the "database" itself, or in a folder. Whoever reads
    them must say the same. `sinks` get the events that runs emit: the engine that commits an event decides where it
    goes, and any engine with a worker and a sink of that name hands it over. With `lifecycle`, the end of a run is such
    an event. `observers` are told what is executed here: `Metrics`, `Traces`, or one of your own.

    A verb that writes returns when the store has committed it. How durable that is depends on the store: a database in
    memory ends with its process. Beside the everyday verbs here there is a noun for everything else: `runs`, `signals`,
    `events`, `repairs`, `holds`, `outbox`, `bulks`, `workers` and `versions`.
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
        self._settings = settings or WorkerSettings()
        environment = environment or system_environment(threads_max=self._settings.threads_max)
        registry = Registry(workflows)
        store = open_store(url, environment) if isinstance(url, str) else url
        self._routes = Routes(tuple(sinks), lifecycle=lifecycle)
        self._observers = tuple(observers)
        codec = _offloading(codec or JsonCodec(), store, offload)
        self._backend = backend = Backend(environment, store, registry, codec, self._routes.announce)
        self._results = Results(store)
        self.signals = Signals(backend)
        self.runs = Runs(backend, self.signals, self._results, _on_start(self._observers))
        self.events = Events(backend)
        self.repairs = Repairs(backend)
        self.holds = Holds(backend)
        self.outbox = Outbox(backend)
        self.bulks = Bulks(backend, self)
        self.workers = Workers(backend, stalls_max=self._settings.stalls_max)
        self.versions = Versions(backend)
        self.ledger = Ledger(backend)
        for sink in self._routes:
            if isinstance(sink, TopicSink):
                sink.bind(self.events.publish)
        self._serves = bool(registry.definitions) or any(self._routes) if worker is None else worker
        self._worker: Worker | None = None

    # --- everyday verbs ---

    @overload
    async def start(
        self, workflow: Workflow[None, Out], input: None = None, **options: Unpack[StartOptions]
    ) -> Handle[Out]: ...
    @overload
    async def start(self, workflow: Workflow[In, Out], input: In, **options: Unpack[StartOptions]) -> Handle[Out]: ...
    @overload
    async def start(self, workflow: str, input: Any = None, **options: Unpack[StartOptions]) -> Handle[Any]: ...
    async def start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = None,
        *,
        key: str | None = None,
        run_id: str | None = None,
        transaction: Any = None,
        **options: Unpack[StartManyOptions],
    ) -> Handle[Any]:
        """Start a run, or get the one that has this key: an active one, or one that ended within `dedup` ("24h").

        The input is checked against the workflow's annotation before anything is stored. `on_conflict` says what a
        taken key means: "get" that run, "raise" `AlreadyExistsError`, or "replace" it: in one transaction the active
        run is cancelled, with compensation, and the new one has the key. `delay` is how long it waits before it
        begins. Of runs that are due, those of a higher `priority` (-100 to 100) are claimed first. `tags` are a dict or
        a set of texts, shown with the run. A run that has not ended by its `deadline` (a duration from now, or a
        moment) fails with `DeadlineExceeded`; one that waits at one place for longer than `max_suspend` fails with
        `WaitedTooLong`; both undo what it did. `transaction` is a connection to the engine's own database with an open
        transaction (of `apsw` for SQLite, of `psycopg` for PostgreSQL). The run is written through it: it begins once
        the caller commits, and was never there if the caller rolls back.
        """
        start = Start(input, key, run_id)
        if transaction is not None:
            return self.runs.start_within(transaction, workflow, [start], **options)[0]
        return (await self.runs.start_many(workflow, [start], **options))[0]

    @overload
    async def signal(
        self,
        target: str,
        name: Signal[T],
        payload: T,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery: ...
    @overload
    async def signal(
        self,
        target: str,
        name: str | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery: ...
    async def signal(
        self,
        target: str,
        name: str | Signal[Any] | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery:
        """Send a signal to a run (by id or key). It is durable when this returns, whether or not the run waits for it
        yet.

        With no active run: "raise" a `NotFoundError` (`RunEndedError` if the run is there and has ended), "hold" it for
        the next run of that key, or "drop" it. Nothing is held for the id of a run that has ended: that raises
        `RunEndedError`, too. A `dedup_key` that the run knows answers DUPLICATE, also after its end. The payload
        of a `Signal[...]` is checked first: `InvalidInputError` has all violations, and nothing is stored. A `Cancel`
        cancels the run.
        """
        return await self.signals.send(target, name, payload, dedup_key=dedup_key, if_missing=if_missing)

    @overload
    async def ask(
        self,
        target: str,
        name: Request[T, R],
        payload: T,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> R: ...
    @overload
    async def ask(
        self, target: str, name: Signal[T], payload: T, *, timeout: Duration | None = None, dedup_key: str | None = None
    ) -> Any: ...
    @overload
    async def ask(
        self,
        target: str,
        name: str,
        payload: Any = None,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> Any: ...
    async def ask(
        self,
        target: str,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> Any:
        """Send a signal that the run must answer, and wait for the answer.

        The question is durable before the wait begins, and the reply is durable before it is told. Raises `AskRefused`
        if the run refuses, `Unanswered` if it ends (or stands still) without a reply, and `ResultTimeout` when the
        answer has not come in time: the run may still answer then. Asked again with the same `dedup_key`, the question
        is not stored twice, and the one answer is told again.
        """
        return await self.signals.ask(target, name, payload, timeout=timeout, dedup_key=dedup_key)

    async def publish(
        self,
        topic: str | Event | type[Event],
        payload: Any = None,
        *,
        deliver: Deliver = "all",
        retain: Duration | bool | None = None,
        event_id: str | None = None,
    ) -> int:
        """Publish an event, as in `publish(Shipped(order="42"))` or `publish("shipped", {...})`; how many runs got it.

        "all" is for every run that waits for it now, "one" for the one that has waited longest. With `retain` ("1h";
        True is 7 days) the topic also keeps it for waits to come, "one" only if nobody took it. A full topic raises
        `TopicFullError`. Publishing an `event_id` again does nothing for at least 7 days after the first time.
        """
        return await self.events.publish(topic, payload, deliver=deliver, retain=retain, event_id=event_id)

    async def status(self, target: str) -> RunView | None:
        """The run with this id, or of this key (the active one, or the latest); None if there is none."""
        return (await self.runs.find_many([target]))[0]

    async def result(self, target: str, *, timeout: Duration | None = None, output_hint: Any = None) -> Any:
        """The result of a run, once it and those that continue it have ended. See `Handle.result`."""
        return await self.runs.result(target, timeout=timeout, output_hint=output_hint)

    async def cancel(self, target: str, reason: str = "", *, compensate: bool = True, by: str = "") -> bool:
        """Cancel a run and the children that it waits for, and theirs; a spawned run only if it was started with
        `on_parent_close="cancel"`. Completed steps are undone unless `compensate` is false.

        True if this call did it; false if the run had ended, or was being cancelled or undone already. A run that was
        continued stands for the one that continues it.
        """
        return await self.runs.cancel(target, reason, compensate=compensate, by=by)

    async def explain(self, target: str) -> Explanation:
        """Why a run is not moving: one sentence, the data behind it, and the chain of causes."""
        return await explain_run(self._backend, target)

    async def transact(self, work: Callable[[Transaction], T]) -> T:
        """Do something to tables of your own in the engine's database, in one transaction: create them, fill them, read
        them. If `work` raises, nothing was written.
        """
        return await self._backend.store.transactions.run(work)

    # --- opening and closing ---

    async def __aenter__(self) -> Self:
        backend = self._backend
        backend.affinity = Affinity(asyncio.get_running_loop())
        await backend.store.open()
        try:
            if self._serves:
                await self._work(backend.registry)
        except BaseException:
            # Nobody will call `__aexit__`, and what is open would stay so.
            self._worker = backend.worker = None
            await backend.store.close()
            backend.environment.executor.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.shutdown()

    async def shutdown(self, grace: float = 10.0) -> None:
        """Claim nothing more, let running bodies end within the grace time, give the rest back, and close.

        Cancelled while it waits, as by Ctrl-C, it waits for no body any more, and closes all the same.
        """
        backend = self._backend
        store = backend.store  # refused elsewhere
        worker, self._worker, backend.worker = self._worker, None, None
        try:
            if worker is not None:
                await worker.stop(grace)
        finally:
            try:
                await store.close()
            finally:
                backend.environment.executor.close()
                backend.affinity = None

    # --- the worker and the store of this process ---

    async def serve_bulks(self) -> None:
        """Execute acts on many runs here, and nothing else, from now on: for a client. A worker does it anyway."""
        if self._worker is None:
            await self._work(Registry())

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

    async def probe(self) -> None:
        """Ask the store something small, once. Raises `StoreUnavailableError` if it does not answer in its time."""
        await self._backend.store.views.find_by_prefix("0", limit=1)

    async def figures(self) -> list[Metric]:
        """Everything to be read by Prometheus: of the store, and of the worker here if it has a `Metrics`."""
        found = await read_figures(self._backend)
        if self._observers:
            from stepwell.worker.metrics import Metrics

            found += [metric for each in self._observers if isinstance(each, Metrics) for metric in each.read()]
        return found

    def now(self) -> Instant:
        """The store's time."""
        return self._backend.opened.now()

    async def _work(self, registry: Registry) -> None:
        # Here and not above: most commands only look, and would wait for what they do not use.
        from stepwell.worker.worker import Worker

        backend = self._backend
        registry.serve(BULK_DEFINITION, self._make_bulk)
        self._worker = Worker(
            backend.environment,
            backend.store,
            registry,
            self._settings,
            backend.codec,
            self._routes,
            self._observers,
            on_over=self._results.over,
        )
        self._results.is_at_work = self._worker.is_executing
        backend.worker = self._worker
        await self._worker.start()

    def _make_bulk(self) -> Workflow[Any, Any]:
        from stepwell.engine.bulk_workflow import bulk_workflow

        return bulk_workflow(self)


def _on_start(observers: tuple[Observer, ...]) -> OnStart | None:
    if not observers:
        return None
    from stepwell.worker.observers import Observers

    return Observers(observers).starting


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
