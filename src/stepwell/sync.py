"""The engine for code that is not asynchronous: verbs of `Engine` that wait for their answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload

from stepwell.clock import Duration
from stepwell.codec.base import ANY, Codec
from stepwell.config import WorkerSettings
from stepwell.engine.bulks import BulkItem, BulkView
from stepwell.engine.events import Key
from stepwell.engine.explain import Explanation
from stepwell.engine.facade import ALL_RUNS
from stepwell.engine.handles import Handle
from stepwell.engine.live import StreamItem, StreamReset
from stepwell.engine.outbox import OwedEvent
from stepwell.engine.repair_plans import RepairPlan
from stepwell.engine.repairs import ForkOptions, RedriveOptions, RepairOptions
from stepwell.engine.starts import Start, StartManyOptions, StartOptions
from stepwell.engine.supplied import NO_RESULT
from stepwell.engine.views import EntryView, HoldActView, HoldView, RunView, SignalView
from stepwell.environment import LoopThread
from stepwell.model.events import Deliver
from stepwell.model.signals import Delivery, IfMissing
from stepwell.model.topics import Event
from stepwell.model.transactions import Transaction
from stepwell.replay.signals import Cancel, Request, Signal
from stepwell.replay.workflows import Workflow
from stepwell.sinks.base import Sink
from stepwell.stores.base.views import RunFilter
from stepwell.wiring import Engine

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")
R = TypeVar("R")
Result = TypeVar("Result", covariant=True)


class _End:
    """There is no further item."""


_END = _End()


class SyncHandle(Generic[Result]):
    """A started (or found) run, for code that is not asynchronous."""

    def __init__(self, engine: SyncEngine, handle: Handle[Result]) -> None:
        self._engine = engine
        self._handle = handle
        self.run_id = handle.run_id
        self.is_new = handle.is_new
        self.same_input = handle.same_input
        self.replaced = handle.replaced

    def result(self, timeout: Duration | None = None) -> Result:
        """Wait for the end of the run; raises what `Handle.result` raises."""
        return self._engine._wait(self._handle.result(timeout))

    def status(self) -> RunView:
        """The run as it is now."""
        return self._engine._wait(self._handle.status())

    @overload
    def signal(self, name: Signal[T], payload: T, *, dedup_key: str | None = None) -> None: ...
    @overload
    def signal(self, name: str | Cancel, payload: Any = None, *, dedup_key: str | None = None) -> None: ...
    def signal(self, name: Any, payload: Any = None, *, dedup_key: str | None = None) -> None:
        """Send a signal to this run."""
        self._engine._wait(self._handle.signal(name, payload, dedup_key=dedup_key))

    @overload
    def ask(self, name: Request[T, R], payload: T, **options: Any) -> R: ...
    @overload
    def ask(self, name: str | Signal[Any], payload: Any = None, **options: Any) -> Any: ...
    def ask(self, name: Any, payload: Any = None, **options: Any) -> Any:
        """Ask this run, and wait for its answer; see `Engine.ask`."""
        return self._engine._wait(self._handle.ask(name, payload, **options))

    @overload
    def state(self, name: str = "") -> Any: ...
    @overload
    def state(self, name: str = "", *, as_type: type[T]) -> T | None: ...
    def state(self, name: str = "", *, as_type: Any = ANY) -> Any:
        """What this run has published; see `Engine.state`."""
        return self._engine.state(self.run_id, name, as_type=as_type)

    @overload
    def stream(self, name: str, *, after: int = 0) -> Iterator[StreamItem[Any] | StreamReset]: ...
    @overload
    def stream(self, name: str, *, after: int = 0, as_type: type[T]) -> Iterator[StreamItem[T] | StreamReset]: ...
    def stream(self, name: str, *, after: int = 0, as_type: Any = ANY) -> Iterator[StreamItem[Any] | StreamReset]:
        """Follow a stream of this run; see `Engine.stream`."""
        return self._engine.stream(self.run_id, name, after=after, as_type=as_type)

    def cancel(self, reason: str = "", *, compensate: bool = True) -> bool:
        """Cancel this run."""
        return self._engine._wait(self._handle.cancel(reason, compensate=compensate))


class SyncOutbox:
    """What is owed to sinks, for code that is not asynchronous; see `Outbox`."""

    def __init__(self, engine: SyncEngine) -> None:
        self._engine = engine

    def pending(self, *, limit: int = 100, after: int = 0) -> list[OwedEvent]:
        """What is owed to sinks, oldest first."""
        return self._engine._wait(self._engine._engine.outbox.pending(limit=limit, after=after))

    def dead(self, *, limit: int = 100, after: int = 0) -> list[OwedEvent]:
        """Dead letters, oldest first."""
        return self._engine._wait(self._engine._engine.outbox.dead(limit=limit, after=after))

    def replay(self, event_id: str, sink: str | None = None, *, by: str = "") -> int:
        """Try a dead letter again."""
        return self._engine._wait(self._engine._engine.outbox.replay(event_id, sink, by=by))

    def drop(self, event_id: str, sink: str | None = None, *, by: str = "") -> int:
        """Forget what is owed of an event."""
        return self._engine._wait(self._engine._engine.outbox.drop(event_id, sink, by=by))


class SyncBulks:
    """Acts on many runs, for code that is not asynchronous; see `Bulks`."""

    def __init__(self, engine: SyncEngine) -> None:
        self._engine = engine

    def match(self, where: str) -> list[RunView]:
        """All runs that a filter matches now."""
        return self._engine._wait(self._engine._engine.bulks.match(where))

    def start(
        self, verb: str, where: str | None = None, *, runs: Sequence[str] = (), by: str = "", **options: Any
    ) -> BulkView:
        """Do something to all runs that match a filter, or to those that are named."""
        return self._engine._wait(self._engine._engine.bulks.start(verb, where, runs=runs, by=by, **options))

    def latest(self, *, limit: int = 50) -> list[BulkView]:
        """The latest acts on many runs, the last first."""
        return self._engine._wait(self._engine._engine.bulks.latest(limit=limit))

    def get(self, name: str) -> BulkView:
        """One of them, as it is now."""
        return self._engine._wait(self._engine._engine.bulks.get(name))

    def items(self, name: str) -> list[BulkItem]:
        """What became of each run so far."""
        return self._engine._wait(self._engine._engine.bulks.items(name))

    def abort(self, name: str) -> bool:
        """Let it end after the chunk that it is at."""
        return self._engine._wait(self._engine._engine.bulks.abort(name))


class SyncEngine:
    """An `Engine` on an event loop of its own, in a thread of its own: for scripts, web views and shells.

        with SyncEngine("sqlite:///shop.db", workflows=[checkout]) as engine:
            receipt = engine.start(checkout, order).result()

    Any thread may call it, but not the code of a workflow. Without workflows and sinks it is a client only, and
    executes nothing.
    """

    def __init__(
        self,
        url: str,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        worker: bool | None = None,
        settings: WorkerSettings | None = None,
        codec: Codec | None = None,
        offload: Literal["database"] | Path | None = None,
        sinks: Iterable[Sink] = (),
        lifecycle: bool = False,
    ) -> None:
        self._engine = Engine(
            url,
            workflows=workflows,
            worker=worker,
            settings=settings,
            codec=codec,
            offload=offload,
            sinks=sinks,
            lifecycle=lifecycle,
        )
        self.outbox = SyncOutbox(self)
        self.bulks = SyncBulks(self)
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        try:
            self._wait(self._engine.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._thread is None or not self._thread.is_forked:
                self._wait(self._engine.shutdown())
        finally:
            self._stop()

    @overload
    def start(
        self, workflow: Workflow[None, Out], input: None = None, **options: Unpack[StartOptions]
    ) -> SyncHandle[Out]: ...
    @overload
    def start(self, workflow: Workflow[In, Out], input: In, **options: Unpack[StartOptions]) -> SyncHandle[Out]: ...
    def start(
        self, workflow: Workflow[Any, Any], input: Any = None, *, transaction: Any = None, **options: Any
    ) -> SyncHandle[Any]:
        """Start a run, or get the one that has this key; see `Engine.start`."""
        if transaction is not None:  # in the thread that calls: its connection may be used in no other
            start = Start(input, options.pop("key", None), options.pop("run_id", None))
            return SyncHandle(self, self._engine.start_within(transaction, workflow, [start], **options)[0])
        return SyncHandle(self, self._wait(self._engine.start(workflow, input, **options)))

    def start_many(
        self, workflow: Workflow[Any, Out], starts: Sequence[Start], **options: Unpack[StartManyOptions]
    ) -> list[SyncHandle[Out]]:
        """Start many runs in one transaction; see `Engine.start_many`."""
        handles = self._wait(self._engine.start_many(workflow, starts, **options))
        return [SyncHandle(self, handle) for handle in handles]

    def start_debounced(
        self,
        workflow: Workflow[In, Out],
        input: In,
        *,
        key: str,
        quiet: Duration,
        max_wait: Duration | None = None,
    ) -> SyncHandle[Out]:
        """Start a run once it has been quiet for a while; see `Engine.start_debounced`."""
        started = self._engine.start_debounced(workflow, input, key=key, quiet=quiet, max_wait=max_wait)
        return SyncHandle(self, self._wait(started))

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Do something to tables of your own, in one transaction; see `Engine.transact`."""
        return self._wait(self._engine.transact(work))

    def handle(self, workflow: Workflow[Any, Out], target: str) -> SyncHandle[Out]:
        """A handle on a run that exists already, by id or key."""
        return SyncHandle(self, self._wait(self._engine.handle(workflow, target)))

    @overload
    def signal(
        self,
        target: str,
        name: Signal[T],
        payload: T,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery: ...
    @overload
    def signal(
        self,
        target: str,
        name: str | Cancel,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery: ...
    def signal(self, target: str, name: Any, payload: Any = None, **options: Any) -> Delivery:
        """Send a signal; see `Engine.signal`."""
        return self._wait(self._engine.signal(target, name, payload, **options))

    @overload
    def ask(self, target: str, name: Request[T, R], payload: T, **options: Any) -> R: ...
    @overload
    def ask(self, target: str, name: str | Signal[Any], payload: Any = None, **options: Any) -> Any: ...
    def ask(self, target: str, name: Any, payload: Any = None, **options: Any) -> Any:
        """Send a signal that the run must answer, and wait for the answer; see `Engine.ask`."""
        return self._wait(self._engine.ask(target, name, payload, **options))

    def signal_or_start(
        self, workflow: Workflow[In, Out], input: In, name: str | Signal[Any], payload: Any = None, *, key: str
    ) -> SyncHandle[Out]:
        """Send a signal to the active run of a key, or start it; see `Engine.signal_or_start`."""
        return SyncHandle(self, self._wait(self._engine.signal_or_start(workflow, input, name, payload, key=key)))

    def held_signals(self, key: str | None = None, *, limit: int = 100) -> list[SignalView]:
        """Signals that are held for a key without an active run, oldest first."""
        return self._wait(self._engine.held_signals(key, limit=limit))

    def unread_signals(self, target: str | None = None, *, limit: int = 100) -> list[SignalView]:
        """Signals that runs left unread when they ended, and those that did not fit, oldest first."""
        return self._wait(self._engine.unread_signals(target, limit=limit))

    def redeliver(self, signals: SignalView | Sequence[SignalView], *, to: str | None = None) -> list[Delivery]:
        """Deliver held or unread signals by hand; see `Engine.redeliver`."""
        return self._wait(self._engine.redeliver(signals, to=to))

    def publish(
        self,
        topic: str | Event | type[Event],
        payload: Any = None,
        *,
        deliver: Deliver = "all",
        retain: Duration | bool | None = None,
        event_id: str | None = None,
    ) -> int:
        """Publish an event; see `Engine.publish`."""
        return self._wait(self._engine.publish(topic, payload, deliver=deliver, retain=retain, event_id=event_id))

    def on(
        self, topic: str | type[Event], *, start: Workflow[Any, Any], key: Key = None, dedup: Duration = "24h"
    ) -> None:
        """Let events start runs; see `Engine.on`."""
        self._engine.on(topic, start=start, key=key, dedup=dedup)

    def status(self, target: str) -> RunView | None:
        """The run with this id or key, or None."""
        return self._wait(self._engine.status(target))

    def status_many(self, targets: Sequence[str]) -> list[RunView | None]:
        """`status` of many, in a constant number of queries."""
        return self._wait(self._engine.status_many(targets))

    def list_runs(
        self, where: RunFilter | str = ALL_RUNS, *, limit: int = 50, before: str | None = None
    ) -> list[RunView]:
        """Runs, newest first, or as a filter says."""
        return self._wait(self._engine.list_runs(where, limit=limit, before=before))

    def history(self, target: str) -> list[EntryView]:
        """Every line of a run's history, in the order of its commits."""
        return self._wait(self._engine.history(target))

    def explain(self, target: str) -> Explanation:
        """Why a run is not moving."""
        return self._wait(self._engine.explain(target))

    @overload
    def state(self, target: str, name: str = "") -> Any: ...
    @overload
    def state(self, target: str, name: str = "", *, as_type: type[T]) -> T | None: ...
    def state(self, target: str, name: str = "", *, as_type: Any = ANY) -> Any:
        """What a run has published; see `Engine.state`."""
        return self._wait(self._engine.state(target, name, as_type=as_type))

    def states(self, target: str) -> dict[str, Any]:
        """Everything that a run has published, by name."""
        return self._wait(self._engine.states(target))

    @overload
    def stream(self, target: str, name: str, *, after: int = 0) -> Iterator[StreamItem[Any] | StreamReset]: ...
    @overload
    def stream(
        self, target: str, name: str, *, after: int = 0, as_type: type[T]
    ) -> Iterator[StreamItem[T] | StreamReset]: ...
    def stream(
        self, target: str, name: str, *, after: int = 0, as_type: Any = ANY
    ) -> Iterator[StreamItem[Any] | StreamReset]:
        """Follow a stream, waiting for each item in the caller's thread; see `Engine.stream`."""
        items = self._engine.stream(target, name, after=after, as_type=as_type)
        return self._iterate(items)

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T | _End:
            return await anext(items, _END)

        while True:
            item = self._wait(following())
            if isinstance(item, _End):
                return
            yield item

    def cancel(self, target: str, reason: str = "", *, compensate: bool = True, by: str = "") -> bool:
        """Cancel a run and the children that it waits for; see `Engine.cancel`."""
        return self._wait(self._engine.cancel(target, reason, compensate=compensate, by=by))

    def retry(self, target: str, *, by: str = "") -> bool:
        """Let a failed run go on from the step that failed."""
        return self._wait(self._engine.retry(target, by=by))

    def pause(self, target: str, *, by: str = "", reason: str = "") -> bool:
        """Have a run stand still; see `Engine.pause`."""
        return self._wait(self._engine.pause(target, by=by, reason=reason))

    def pause_workflow(self, workflow: str | None, *, by: str = "", reason: str = "") -> bool:
        """Have a workflow, or all, stand still; see `Engine.pause_workflow`."""
        return self._wait(self._engine.pause_workflow(workflow, by=by, reason=reason))

    def resume_workflow(self, workflow: str | None, *, by: str = "") -> bool:
        """Let a workflow, or all, go on; see `Engine.resume_workflow`."""
        return self._wait(self._engine.resume_workflow(workflow, by=by))

    def list_holds(self) -> list[HoldView]:
        """The workflows that are paused."""
        return self._wait(self._engine.list_holds())

    def list_hold_acts(self, *, limit: int = 100) -> list[HoldActView]:
        """Who paused and resumed workflows; see `Engine.list_hold_acts`."""
        return self._wait(self._engine.list_hold_acts(limit=limit))

    def resume(self, target: str, *, by: str = "") -> bool:
        """Let a paused run go on."""
        return self._wait(self._engine.resume(target, by=by))

    def resume_rollback(self, target: str, *, by: str = "") -> bool:
        """Go on with a stalled rollback."""
        return self._wait(self._engine.resume_rollback(target, by=by))

    def rewind(self, target: str, path: str, **options: Unpack[RepairOptions]) -> RepairPlan:
        """Take a run back to a step; see `Engine.rewind`."""
        return self._wait(self._engine.rewind(target, path, **options))

    def skip(self, target: str, path: str, result: Any = NO_RESULT, **options: Unpack[RepairOptions]) -> RepairPlan:
        """Record a result in the place of a step or wait; see `Engine.skip`."""
        return self._wait(self._engine.skip(target, path, result, **options))

    def redrive(self, target: str, **options: Unpack[RedriveOptions]) -> RepairPlan:
        """Let a failed run go on, from its failure or from a place; see `Engine.redrive`."""
        return self._wait(self._engine.redrive(target, **options))

    def fork(self, target: str, start: str, **options: Unpack[ForkOptions]) -> RepairPlan:
        """Start a run that begins with a part of what another one recorded; see `Engine.fork`."""
        return self._wait(self._engine.fork(target, start, **options))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise RuntimeError("the engine is not open; use it in a `with` block")
        return self._thread.wait(work)

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
