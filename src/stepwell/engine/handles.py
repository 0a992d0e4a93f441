"""Handles: a run as its starter sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from stepwell.clock import Duration
from stepwell.codec.base import ANY
from stepwell.ids import RunId

if TYPE_CHECKING:
    from datetime import datetime

    from stepwell.engine.live import Items
    from stepwell.engine.reschedules import Rescheduled
    from stepwell.engine.runs import Runs
    from stepwell.engine.signals import Signals
    from stepwell.engine.views import RunView
    from stepwell.replay.signals import Cancel, Request, Signal

Result = TypeVar("Result", covariant=True)
T = TypeVar("T")
R = TypeVar("R")


class Handle(Generic[Result]):
    """A run that was started, or found.

    `is_new` is false if the start returned an earlier run of the same key. Then `same_input` tells whether that run
    has the same input, and `found` is that run as the start found it: it may have ended, and have failed. `found` is
    None for a new run, and for a start inside a transaction of the caller. `replaced` is the run whose key this one
    took over, with `on_conflict="replace"`.
    """

    def __init__(
        self,
        runs: Runs,
        signals: Signals,
        run_id: RunId,
        *,
        is_new: bool,
        same_input: bool,
        output_hint: Any = Any,
        replaced: RunId | None = None,
        found: RunView | None = None,
    ) -> None:
        self._runs = runs
        self._signals = signals
        self._output_hint = output_hint
        self.run_id = run_id
        self.is_new = is_new
        self.same_input = same_input
        self.replaced = replaced
        self.found = found

    async def result(self, timeout: Duration | None = None) -> Result:
        """Wait for the end of the run, and of the runs that continue it.

        Raises `RunFailed`, `RunCancelled`, `RollbackIncomplete` or `RunPaused` when it does not complete, and
        `ResultTimeout` when it has not ended in time; the run itself continues.
        """
        return cast("Result", await self._runs.result(self.run_id, timeout=timeout, output_hint=self._output_hint))

    async def status(self) -> RunView:
        """The run as it is now. Raises `NotFoundError` while the transaction that started it is not committed."""
        return await self._runs.get(self.run_id)

    @overload
    async def signal(self, name: Signal[T], payload: T, *, dedup_key: str | None = None) -> None: ...
    @overload
    async def signal(self, name: str | Cancel, payload: Any = None, *, dedup_key: str | None = None) -> None: ...
    async def signal(
        self, name: str | Signal[Any] | Cancel, payload: Any = None, *, dedup_key: str | None = None
    ) -> None:
        """Send a signal to this run."""
        await self._signals.send(self.run_id, name, payload, dedup_key=dedup_key)

    @overload
    async def ask(
        self, name: Request[T, R], payload: T, *, timeout: Duration | None = None, dedup_key: str | None = None
    ) -> R: ...
    @overload
    async def ask(
        self,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> Any: ...
    async def ask(
        self,
        name: str | Signal[Any],
        payload: Any = None,
        *,
        timeout: Duration | None = None,
        dedup_key: str | None = None,
    ) -> Any:
        """Ask this run, and wait for its answer; see `Engine.ask`."""
        return await self._signals.ask(self.run_id, name, payload, timeout=timeout, dedup_key=dedup_key)

    @overload
    async def state(self, name: str = "", *, wait: Duration | None = None) -> Any: ...
    @overload
    async def state(self, name: str = "", *, as_type: type[T], wait: Duration | None = None) -> T | None: ...
    async def state(self, name: str = "", *, as_type: Any = ANY, wait: Duration | None = None) -> Any:
        """What this run has published; with `wait`, as soon as it has; see `Runs.state`."""
        return await self._runs.state(self.run_id, name, as_type=as_type, wait=wait)

    @overload
    def stream(self, name: str, *, after: int = 0) -> Items[Any]: ...
    @overload
    def stream(self, name: str, *, after: int = 0, as_type: type[T]) -> Items[T]: ...
    def stream(self, name: str, *, after: int = 0, as_type: Any = ANY) -> Items[Any]:
        """Follow a stream of this run; see `Runs.stream`."""
        return self._runs.stream(self.run_id, name, after=after, as_type=as_type)

    async def cancel(self, reason: str = "", *, compensate: bool = True) -> bool:
        """Cancel this run."""
        return await self._runs.cancel(self.run_id, reason, compensate=compensate)

    async def wake(self) -> bool:
        """Let a worker look at this run now; see `Runs.wake`."""
        return await self._runs.wake(self.run_id)

    async def reschedule(
        self, path: str | None = None, *, delay: Duration | None = None, until: datetime | None = None
    ) -> Rescheduled:
        """Move a deadline of this run, or its begin; see `Runs.reschedule`."""
        return await self._runs.reschedule(self.run_id, path, delay=delay, until=until)

    def __repr__(self) -> str:
        found = "" if self.is_new else " (found)" if self.found is None else f" (found: {self.found.status})"
        return f"<run {self.run_id}{found}>"
