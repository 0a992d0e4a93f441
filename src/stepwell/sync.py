"""The engine for code that is not asynchronous: the same verbs, each waiting for its answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from stepwell.clock import Duration
from stepwell.config import WorkerSettings
from stepwell.engine.explain import Explanation
from stepwell.engine.facade import ALL_RUNS
from stepwell.engine.handles import Handle
from stepwell.engine.starts import Start
from stepwell.engine.views import EntryView, RunView
from stepwell.environment import LoopThread
from stepwell.model.runs import OnConflict
from stepwell.model.signals import Delivery, IfMissing
from stepwell.replay.definition import Workflow
from stepwell.stores.base.transactions import Transaction
from stepwell.stores.base.views import RunFilter
from stepwell.wiring import Engine

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")
Result = TypeVar("Result", covariant=True)


class SyncHandle(Generic[Result]):
    """A started (or found) run, for code that is not asynchronous."""

    def __init__(self, engine: SyncEngine, handle: Handle[Result]) -> None:
        self._engine = engine
        self._handle = handle
        self.run_id = handle.run_id
        self.is_new = handle.is_new
        self.same_input = handle.same_input

    def result(self, timeout: Duration | None = None) -> Result:
        """Wait for the end of the run; raises what `Handle.result` raises."""
        return self._engine._wait(self._handle.result(timeout))

    def status(self) -> RunView:
        """The run as it is now."""
        return self._engine._wait(self._handle.status())

    def signal(self, name: str, payload: Any = None, *, dedup_key: str | None = None) -> None:
        """Send a signal to this run."""
        self._engine._wait(self._handle.signal(name, payload, dedup_key=dedup_key))

    def cancel(self, reason: str = "", *, compensate: bool = True) -> bool:
        """Cancel this run."""
        return self._engine._wait(self._handle.cancel(reason, compensate=compensate))


class SyncEngine:
    """An `Engine` on an event loop of its own, in a thread of its own: for scripts, web views and shells.

        with SyncEngine("sqlite:///shop.db", workflows=[checkout]) as engine:
            receipt = engine.start(checkout, order).result()

    Any thread may call it. Without workflows it is a client only, and executes nothing.
    """

    def __init__(
        self,
        url: str,
        *,
        workflows: Iterable[Workflow[Any, Any]] = (),
        worker: bool | None = None,
        settings: WorkerSettings | None = None,
    ) -> None:
        self._engine = Engine(url, workflows=workflows, worker=worker, settings=settings)
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
            self._wait(self._engine.shutdown())
        finally:
            self._stop()

    @overload
    def start(
        self,
        workflow: Workflow[None, Out],
        input: None = None,
        *,
        key: str | None = None,
        run_id: str | None = None,
        on_conflict: OnConflict = "get",
        dedup: Duration = "24h",
        delay: Duration = 0,
        transaction: Any = None,
    ) -> SyncHandle[Out]: ...
    @overload
    def start(
        self,
        workflow: Workflow[In, Out],
        input: In,
        *,
        key: str | None = None,
        run_id: str | None = None,
        on_conflict: OnConflict = "get",
        dedup: Duration = "24h",
        delay: Duration = 0,
        transaction: Any = None,
    ) -> SyncHandle[Out]: ...
    def start(
        self, workflow: Workflow[Any, Any], input: Any = None, *, transaction: Any = None, **options: Any
    ) -> SyncHandle[Any]:
        """Start a run, or get the one that has this key; see `Engine.start`."""
        if transaction is not None:  # in the thread that calls: its connection may be used in no other
            start = Start(input, options.pop("key", None), options.pop("run_id", None))
            return SyncHandle(self, self._engine.start_within(transaction, workflow, [start], **options)[0])
        return SyncHandle(self, self._wait(self._engine.start(workflow, input, **options)))

    def start_many(
        self, workflow: Workflow[Any, Out], starts: Sequence[Start], **options: Any
    ) -> list[SyncHandle[Out]]:
        """Start many runs in one transaction; see `Engine.start_many`."""
        handles = self._wait(self._engine.start_many(workflow, starts, **options))
        return [SyncHandle(self, handle) for handle in handles]

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Do something to tables of your own, in one transaction; see `Engine.transact`."""
        return self._wait(self._engine.transact(work))

    def handle(self, workflow: Workflow[Any, Out], target: str) -> SyncHandle[Out]:
        """A handle on a run that exists already, by id or key."""
        return SyncHandle(self, self._wait(self._engine.handle(workflow, target)))

    def signal(
        self,
        target: str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        if_missing: IfMissing = "raise",
    ) -> Delivery:
        """Send a signal; see `Engine.signal`."""
        return self._wait(self._engine.signal(target, name, payload, dedup_key=dedup_key, if_missing=if_missing))

    def status(self, target: str) -> RunView | None:
        """The run with this id or key, or None."""
        return self._wait(self._engine.status(target))

    def status_many(self, targets: Sequence[str]) -> list[RunView | None]:
        """`status` of many, in a constant number of queries."""
        return self._wait(self._engine.status_many(targets))

    def list_runs(self, where: RunFilter = ALL_RUNS, *, limit: int = 50, before: str | None = None) -> list[RunView]:
        """Runs, newest first."""
        return self._wait(self._engine.list_runs(where, limit=limit, before=before))

    def history(self, target: str) -> list[EntryView]:
        """Every line of a run's history, in the order of its commits."""
        return self._wait(self._engine.history(target))

    def explain(self, target: str) -> Explanation:
        """Why a run is not moving."""
        return self._wait(self._engine.explain(target))

    def cancel(self, target: str, reason: str = "", *, compensate: bool = True) -> bool:
        """Cancel a run and its active children; see `Engine.cancel`."""
        return self._wait(self._engine.cancel(target, reason, compensate=compensate))

    def retry(self, target: str, *, by: str = "") -> bool:
        """Let a failed run go on from the step that failed."""
        return self._wait(self._engine.retry(target, by=by))

    def resume(self, target: str, *, by: str = "") -> bool:
        """Let a paused run go on."""
        return self._wait(self._engine.resume(target, by=by))

    def resume_rollback(self, target: str, *, by: str = "") -> bool:
        """Go on with a stalled rollback."""
        return self._wait(self._engine.resume_rollback(target, by=by))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise RuntimeError("the engine is not open; use it in a `with` block")
        return self._thread.wait(work)

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
