"""The composition root: an app becomes an engine and its worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from stepwell.addresses import open_store
from stepwell.app import App, Offload, codec_of
from stepwell.clock import Duration, Instant
from stepwell.codec.base import ANY, Codec
from stepwell.config import WorkerSettings
from stepwell.engine.alert_rules import Alert, with_file
from stepwell.engine.alerts import ALERT_DEFINITION, Alerts
from stepwell.engine.backend import Backend
from stepwell.engine.bulks import BULK_DEFINITION, Bulks
from stepwell.engine.dead_letters import DeadLetters
from stepwell.engine.declarations import Declarations
from stepwell.engine.diagnosis import Diagnosis
from stepwell.engine.events import Events
from stepwell.engine.explanations import Explanation, explain_run
from stepwell.engine.figures import read_figures
from stepwell.engine.handles import Handle
from stepwell.engine.histories import Histories
from stepwell.engine.holds import Holds
from stepwell.engine.ledger import Ledger
from stepwell.engine.movements import Movements
from stepwell.engine.outbox import Outbox
from stepwell.engine.overviews import Overviews
from stepwell.engine.repairs import Repairs
from stepwell.engine.results import Results
from stepwell.engine.retention import Retention, Retentions
from stepwell.engine.run_messages import RunMessages
from stepwell.engine.runs import OnStart, Runs
from stepwell.engine.saved_views import SavedViews
from stepwell.engine.schedule_declarations import ScheduleDeclarations
from stepwell.engine.schedule_ticker import Ticker
from stepwell.engine.schedules import Schedules
from stepwell.engine.service_failures import ServiceFailures
from stepwell.engine.signals import Signals
from stepwell.engine.starts import Start, StartManyOptions, StartOptions
from stepwell.engine.streams import Streams
from stepwell.engine.triggers import Trigger, Triggers
from stepwell.engine.versions import Versions
from stepwell.engine.views import RunView
from stepwell.engine.workers import Workers
from stepwell.environment import Affinity, Environment, system_environment
from stepwell.errors import InvalidOptionError, StepwellError, WorkerStoppedError
from stepwell.model.events import Deliver
from stepwell.model.messages import ASK
from stepwell.model.signals import Delivery, IfMissing
from stepwell.model.templates import Template
from stepwell.model.topics import Event
from stepwell.model.transactions import Transaction
from stepwell.replay.registry import Registry
from stepwell.replay.signals import Cancel, Request, Signal
from stepwell.replay.workflows import Workflow
from stepwell.setting_sources import Sources, find_database, read_settings
from stepwell.sinks.base import ALERTS, Sink, wants
from stepwell.sinks.routes import Routes
from stepwell.sinks.topics import TopicSink
from stepwell.stores.base.store import Store
from stepwell.telemetry.metrics import Metric

if TYPE_CHECKING:
    from stepwell.services.service import Service
    from stepwell.worker.observers import Observer
    from stepwell.worker.worker import Worker

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")
R = TypeVar("R")


class Engine:
    """Durable workflows in this process.

        async with Engine(App("sqlite:///shop.db", workflows=[checkout])) as engine:
            run = await engine.start(checkout, order, key="order-42")
            receipt = await run.result()

    `Engine("sqlite:///shop.db", workflows=[checkout])` is the short form. It takes the options of `App`.

    An engine whose app has workflows or sinks has a worker here (unless `worker=False`). Any other engine is a client
    of the same store. In a shell, or wherever a block does not fit, call `open()` and `close()`. If a process exits
    without closing its engine, the runs that it executes stay claimed until its lease expires.

    A verb that writes returns when the store has committed it. How durable that is depends on the store: a database in
    memory ends with its process. Beside the everyday verbs here there is a noun for everything else: `runs`, `signals`,
    `events`, `triggers`, `schedules`, `repairs`, `holds`, `outbox`, `bulks`, `workers`, `versions`, `saved_views`,
    `alerts`, `dead_letters`, `retention`, `diagnosis`, `overviews`, `histories`, `streams` and `movements`.
    """

    def __init__(
        self,
        app: App | str | Store,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        worker: bool | None = None,
        settings: WorkerSettings | None = None,
        environment: Environment | None = None,
        codec: Codec | None = None,
        offload: Offload | None = None,
        sinks: Iterable[Sink] = (),
        lifecycle: bool = False,
        triggers: Iterable[Trigger] = (),
        hooks: Iterable[Observer] = (),
        retention: Retention | None = None,
        alerts: Iterable[Alert] | None = None,
    ) -> None:
        if isinstance(app, App):
            _refuse_options(workflows, settings, codec, offload, sinks, lifecycle, triggers, hooks, retention, alerts)
            described, store = app, None
        else:
            url, store = (app, None) if isinstance(app, str) else (None, app)
            described = App(
                url,
                workflows=workflows,
                codec=codec,
                offload=offload,
                sinks=sinks,
                lifecycle=lifecycle,
                triggers=triggers,
                hooks=hooks,
                retention=retention,
                alerts=alerts,
                settings=settings,
            )
        self._settings = read_settings(described.settings)
        environment = environment or system_environment(threads_max=self._settings.threads_max)
        registry = Registry(described.workflows)
        has_file = store is None  # a store that is given is that of a test
        if store is None:
            store = open_store(find_database(described.url).value, environment)
        self._routes = Routes(described.sinks, lifecycle=described.lifecycle)
        self._hooks = described.hooks
        self._backend = backend = Backend(
            environment, store, registry, codec_of(described, store), self._routes.announce, self._settings.signals_max
        )
        self._results = Results(store)
        self._serves = (
            bool(registry.definitions) or registry.has_patterns or any(self._routes) if worker is None else worker
        )
        self.signals = Signals(backend)
        self.runs = Runs(backend, self.signals, self._results, _on_start(self._hooks))
        self.events = Events(backend)
        self.triggers = Triggers(backend)
        self.schedules = Schedules(backend)
        self._schedule_declarations = ScheduleDeclarations(backend)
        self._declarations = Declarations(backend, described.triggers, may_declare=self._serves)
        self.repairs = Repairs(backend)
        self.holds = Holds(backend)
        self.outbox = Outbox(backend)
        rules = Sources().alerts() if has_file and self._serves else {}
        notifiers = [sink.name for sink in described.sinks if wants(sink, f"{ALERTS}firing")]
        self.alerts = Alerts(backend, with_file(described.alerts, rules), notifiers)
        self.dead_letters = DeadLetters(backend)
        self.bulks = Bulks(backend, self)
        self.workers = Workers(backend, stalls_max=self._settings.stalls_max)
        self.versions = Versions(backend)
        self.saved_views = SavedViews(backend)
        self.diagnosis = Diagnosis(backend)
        self.overviews = Overviews(backend)
        self.histories = Histories(backend)
        self.movements = Movements(backend)
        self.streams = Streams(backend)
        self.retention = Retentions(backend, described.retention, [each.name for each in described.workflows])
        self.ledger = Ledger(backend)
        for sink in self._routes:
            if isinstance(sink, TopicSink):
                sink.bind(self.events.publish)
        self._routes.runs.bind(RunMessages(backend, self.signals, self.events).deliver)
        self._worker: Worker | None = None
        self._is_open = False
        self._gate = asyncio.Lock()  # opening and closing happen one after the other

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
        """Start a run, or get the run that has this key: the active run, or a run that ended within `dedup` ("24h").

        The input is checked against the workflow's annotation before anything is stored.

        `on_conflict` decides what happens if a run has the key: "get" returns that run, "raise" raises
        `AlreadyExistsError`, and "replace" cancels the active run, with compensation, and gives its key to the new run
        in one transaction. `delay` is how long the run waits before it begins. Workers claim due runs of a higher
        `priority` (-100 to 100) first. `tags` are a dict or a set of texts, shown with the run.

        `attributes` are up to 32 named texts, numbers, booleans and times, and `title` is one line: people find and
        sort runs by them (docs/attributes.md). `by` is the person who starts the run; its children inherit it. All of
        this is stored in plain, also if payloads are encrypted: it must not be secret.

        A run that has not ended by its `deadline` (a duration from now, or a moment) fails with `DeadlineExceeded`. A
        run that waits at one place for longer than `max_suspend` fails with `WaitedTooLong`. Both undo the run's steps.

        `retry=Retry(max_attempts=5, initial="1m")` tries the whole run again if it fails, after its steps were undone.
        Each attempt is a run with the same key, and the handle, `result` and `status` by key follow to the last one.

        `transaction` is a connection to the engine's own database with an open transaction (of `apsw` for SQLite, of
        `psycopg` for PostgreSQL). The run is written in that transaction: it begins when the caller commits, and does
        not exist if the caller rolls back.
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
        if_missing: IfMissing | Literal["start"] = "raise",
        start: Workflow[Any, Any] | str | None = None,
        input: Any = None,
    ) -> Delivery: ...
    @overload
    async def signal(
        self,
        target: str,
        name: str | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing | Literal["start"] = "raise",
        start: Workflow[Any, Any] | str | None = None,
        input: Any = None,
    ) -> Delivery: ...
    async def signal(
        self,
        target: str,
        name: str | Signal[Any] | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing | Literal["start"] = "raise",
        start: Workflow[Any, Any] | str | None = None,
        input: Any = None,
    ) -> Delivery:
        """Send a signal to a run (by id or key). The signal is durable when this returns, even if the run does not wait
        for it yet.

        `if_missing` decides what happens without an active run: "raise" raises `NotFoundError` (`RunEndedError` if the
        run has ended), "hold" keeps the signal for the next run of that key, and "drop" drops it. A signal to the id of
        an ended run cannot be held: that raises `RunEndedError`, too. A `dedup_key` that the run has seen returns
        DUPLICATE, also after the run has ended. The payload of a `Signal[...]` is checked first: `InvalidInputError`
        lists all violations, and nothing is stored. A `Cancel` cancels the run.

        "start" starts a run of the workflow `start` with this key and `input`, and the signal in its mailbox, in one
        transaction; see `runs.signal_or_start`, which returns a handle.
        """
        if if_missing == "start" and start is not None and not isinstance(name, Cancel):
            return await self.runs.send_or_start(target, name, payload, dedup_key=dedup_key, start=start, input=input)
        if if_missing == "start" or start is not None:
            raise InvalidOptionError(
                'if_missing="start" and start= belong together, and a Cancel has neither',
                fix='write: engine.signal("order-42", "paid", 7, if_missing="start", start=checkout, input=order)',
            )
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

        The question is durable before the wait begins, and the reply is durable before this returns. Raises
        `AskRefused` if the run refuses, `Unanswered` if it ends or is paused without a reply, and `ResultTimeout` if
        the answer does not come in time; the run may still answer later. A question with the same `dedup_key` is stored
        once, and every caller gets the same answer.
        """
        return await self.signals.ask(target, name, payload, timeout=timeout, dedup_key=dedup_key)

    @overload
    async def ask_or_start(
        self,
        workflow: Workflow[In, Any],
        input: In,
        request: Request[T, R],
        payload: T,
        *,
        key: str,
        timeout: Duration | None = None,
    ) -> R: ...
    @overload
    async def ask_or_start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any,
        request: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
        timeout: Duration | None = None,
    ) -> Any: ...
    async def ask_or_start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any,
        request: str | Signal[Any],
        payload: Any = None,
        *,
        key: str,
        timeout: Duration | None = None,
    ) -> Any:
        """Ask the active run of a key, or start that run with the question in its mailbox, and wait for the answer.

        The question is sent in one transaction with the start: of many concurrent callers, one starts the run, and
        every question reaches it. The rest is as in `ask`.
        """
        return await self.runs.ask_or_start(workflow, input, request, payload, key=key, timeout=timeout)

    async def publish(
        self,
        topic: str | Event | type[Event],
        payload: Any = None,
        *,
        deliver: Deliver = "all",
        retain: Duration | bool | None = None,
        event_id: str | None = None,
    ) -> int:
        """Publish an event, as in `publish(Shipped(order="42"))` or `publish("shipped", {...})`. Returns how many runs
        received it.

        "all" delivers it to every run that waits for it now, "one" to the run that has waited longest. With `retain`
        ("1h"; True is 7 days) the topic also keeps the event for later waits, with "one" only if no run received it.
        A full topic raises `TopicFullError`. Publishing the same `event_id` again does nothing for at least 7 days.
        Triggers of the topic start their runs in the same transaction.
        """
        return await self.events.publish(topic, payload, deliver=deliver, retain=retain, event_id=event_id)

    async def on(
        self,
        topic: str | type[Event],
        *,
        start: Workflow[Any, Any],
        key: str | None = None,
        input: Template = None,
        dedup: Duration = "24h",
        name: str | None = None,
    ) -> None:
        """Start a run of a workflow for each event on a topic, whichever process publishes it; see `Trigger`.

        The trigger is stored: every publish that begins after this returns honours it. It lasts while a worker
        declares it, and a day longer, so put it into the `triggers` of the app if many processes serve the workflow.
        Raises `InvalidOptionError` in an engine without a worker.
        """
        await self._declarations.declare(Trigger(topic, start=start, key=key, input=input, dedup=dedup, name=name))

    async def status(self, target: str) -> RunView | None:
        """The run with this id, or of this key (the active one, or the latest); None if there is none."""
        return (await self.runs.find_many([target]))[0]

    async def result(self, target: str, *, timeout: Duration | None = None, output_hint: Any = None) -> Any:
        """Wait for a run, and for the runs that continue it, and return the result. See `Handle.result`."""
        return await self.runs.result(target, timeout=timeout, output_hint=output_hint)

    @overload
    async def state(self, target: str, name: str = "", *, wait: Duration | None = None) -> Any: ...
    @overload
    async def state(
        self, target: str, name: str = "", *, as_type: type[T], wait: Duration | None = None
    ) -> T | None: ...
    async def state(self, target: str, name: str = "", *, as_type: Any = ANY, wait: Duration | None = None) -> Any:
        """What a run has published under a name, read as `as_type`; None if nothing.

        With `wait`, it waits that long until the run publishes it. Then None means that the run has ended without, and
        `ResultTimeout` is raised if it is still silent.
        """
        return await self.runs.state(target, name, as_type=as_type, wait=wait)

    async def watch(self, target: str) -> AsyncGenerator[RunView, None]:
        """A run as it is now, and again after each change. Ends with the run."""
        watch = self.runs.watch(target)
        try:
            async for view in watch:
                yield view
        finally:
            await watch.aclose()

    async def cancel(self, target: str, reason: str = "", *, compensate: bool = True, by: str = "") -> bool:
        """Cancel a run, the children that it waits for, and their children. A spawned run is cancelled only if it was
        started with `on_parent_close="cancel"`. Completed steps are undone unless `compensate` is false.

        Returns true if this call cancelled the run, and false if the run had ended, or was being cancelled or rolled
        back already. If the run has continued as new, the latest run of the chain is cancelled.
        """
        return await self.runs.cancel(target, reason, compensate=compensate, by=by)

    async def compensate(self, target: str, *, by: str = "", reason: str = "") -> Handle[None]:
        """Undo a completed run: start a run that runs its compensations, last in, first out.

        That run is linked to this one (`forked_from`) and ends `compensated`. A second call starts nothing, and returns
        the same run. Compensations are found by name. Raises `InvalidMoveError` if the run has not completed or has
        nothing to undo, and `InvalidOptionError` if a compensation has no name by which it can be found.
        """
        return await self.runs.compensate(target, by=by, reason=reason)

    async def explain(self, target: str) -> Explanation:
        """Why a run does not proceed: one sentence, the data behind it, and the chain of causes."""
        return await explain_run(self._backend, target)

    async def transact(self, work: Callable[[Transaction], T]) -> T:
        """Use your own tables in the engine's database, in one transaction: create, fill or read them.

        If `work` raises, nothing is written.
        """
        return await self._backend.store.transactions.run(work)

    # --- opening and closing ---

    async def open(self) -> Self:
        """Open the store, and start the worker if this engine has one. `async with` calls it.

        Does nothing if the engine is open already. Raises `WrongLoopError` if it was opened in another event loop, or
        before this process was forked.
        """
        async with self._gate:
            if self._is_open:
                self._backend.check_home()
            else:
                await self._open()
                self._is_open = True
        return self

    async def close(self) -> None:
        """Shut down with the usual grace time. Does nothing if the engine is not open, and may be called again.

        A closed engine can be opened again.
        """
        async with self._gate:
            if self._is_open:
                await self.shutdown()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._gate:
            if self._is_open:
                # A second Ctrl-C may also interrupt the calling code itself.
                await (self.shutdown(0.0) if isinstance(error, KeyboardInterrupt) else self.shutdown())

    async def shutdown(self, grace: float = 10.0) -> None:
        """Stop claiming, let running bodies end within the grace time (seconds), release the other runs, and close.

        If this call is cancelled, as by Ctrl-C, it stops waiting for bodies and still closes everything. If the calling
        task was cancelled more than once before, as by a second Ctrl-C, it does not wait for bodies.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 1:
            grace = 0.0
        backend = self._backend
        store = backend.store  # raises in another event loop or process
        self._is_open = False
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

    async def _open(self) -> None:
        backend = self._backend
        backend.affinity = Affinity(asyncio.get_running_loop())
        await backend.store.open()
        try:
            if self._serves:
                await self._declarations.declare_all()
                await self._schedule_declarations.declare_all()
                await self.alerts.declare()
                await self._work(backend.registry)
        except BaseException:
            # The caller will not close an engine that did not open.
            self._worker = backend.worker = None
            await backend.store.close()
            backend.environment.executor.close()
            raise

    async def serve_bulks(self) -> None:
        """Let a client execute acts on many runs, and nothing else, from now on. A worker always does."""
        if self._worker is None:
            await self._work(Registry())

    async def wait_failed(self) -> StepwellError:
        """Wait until the worker of this engine has failed, and return the reason.

        It waits for as long as the worker runs, and permanently if the engine has no worker.
        """
        if self._worker is None:
            await asyncio.Event().wait()
        assert self._worker is not None
        await self._worker.has_failed.wait()
        return self._worker.lost or WorkerStoppedError(
            f"the worker has ended: {self._worker.failure}",
            where="worker",
            why="a worker that has failed releases its runs",
            fix="read its log, and start it again; other workers continue its runs",
        )

    async def probe(self) -> None:
        """Send the store one small query. Raises `StoreUnavailableError` if it does not answer in time."""
        await self._backend.store.views.find_by_prefix("0", limit=1)

    async def figures(self) -> list[Metric]:
        """The metrics for Prometheus: those of the store, and those of the worker if the app has a `Metrics` hook."""
        found = await read_figures(self._backend)
        if self._hooks:
            from stepwell.worker.metrics import Metrics

            found += [metric for each in self._hooks if isinstance(each, Metrics) for metric in each.read()]
        return found

    def now(self) -> Instant:
        """The store's time."""
        return self._backend.opened.now()

    async def _work(self, registry: Registry) -> None:
        # Imported here: most commands only read, and would pay for an import that they do not use.
        from stepwell.services.loop import ServiceLoop
        from stepwell.worker.worker import Worker

        backend = self._backend
        registry.serve(BULK_DEFINITION, self._make_bulk)
        if self.alerts.declared is not None:
            registry.serve(ALERT_DEFINITION, self._make_alert)
        registry.serve(f"{ASK}@1", self._make_ask)
        services = ServiceLoop(backend, self._services(), self._settings)
        self._worker = Worker(
            backend.environment,
            backend.store,
            registry,
            self._settings,
            backend.codec,
            self._routes,
            self._hooks,
            on_over=self._results.over,
            companions=[services],
        )
        self._results.is_at_work = self._worker.is_executing
        backend.worker = self._worker
        await self._worker.start()

    def _services(self) -> list[Service]:
        """What every worker does when records are due."""
        from stepwell.services.failure_keeper import FailureKeeper
        from stepwell.services.pruner import Pruner
        from stepwell.services.scheduler import Scheduler
        from stepwell.services.trigger_keeper import TriggerKeeper

        found: list[Service] = [
            Scheduler(Ticker(self._backend)),
            TriggerKeeper(self._declarations, since=self.now()),
            FailureKeeper(ServiceFailures(self._backend)),
        ]
        if self.alerts.declared is not None:
            from stepwell.services.alerter import Alerter

            found.append(Alerter(self.alerts))
        if self.retention.policy is not None:
            found.append(Pruner(self.retention, self._is_busy))
        if self._backend.store.upkeep() is not None:
            from stepwell.services.tidier import Tidier

            found.append(Tidier(self.retention.tidy))
        return found

    def _is_busy(self) -> bool:
        return self._worker is not None and self._worker.active > 0

    def _make_alert(self) -> Workflow[Any, Any]:
        from stepwell.engine.alert_workflow import alert_workflow

        return alert_workflow()

    def _make_bulk(self) -> Workflow[Any, Any]:
        from stepwell.engine.bulk_workflow import bulk_workflow

        return bulk_workflow(self)

    def _make_ask(self) -> Workflow[Any, Any]:
        from stepwell.engine.ask_workflow import ask_workflow

        return ask_workflow(self._backend)


def _refuse_options(*options: object) -> None:
    """Raise if an engine of an app is given options that belong into the app."""
    if any(options):
        raise InvalidOptionError(
            "an engine of an App takes only `worker` and `environment` beside it",
            why="the app describes everything else, so that every process uses the same",
            fix="Engine(App(url, workflows=[...], codec=...)), or dataclasses.replace(app, codec=...)",
        )


def _on_start(hooks: tuple[Observer, ...]) -> OnStart | None:
    if not hooks:
        return None
    from stepwell.worker.observers import Observers

    return Observers(hooks).starting
