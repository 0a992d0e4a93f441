"""Waiting for runs to end: by hint where there is one, by looking again where there is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepwell.clock import SECOND, Span
from stepwell.errors import (
    NotFoundError,
    ResultTimeout,
    RollbackIncomplete,
    RunCancelled,
    RunFailed,
    RunPaused,
    StoreUnavailableError,
)
from stepwell.ids import RunId
from stepwell.model.failures import decode_failure
from stepwell.model.locations import undo
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind

LOOK_AGAIN = 1.0  # seconds, without any hint


class Results:
    """Hands ended runs to those who wait for them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[RunId, set[asyncio.Event]] = {}
        self._unlisten: Callable[[], None] | None = None

    async def wait(self, run: Run, timeout: Span | None) -> Run:
        """The run that ended the chain, completed. Raises what `Handle.result` promises.

        What has ended already is told, however short the timeout is.
        """
        run = await self._last_of_chain(run)
        if await self._is_settled(run):
            return run
        run_id = run.run_id
        timer = asyncio.timeout(None if timeout is None else timeout / SECOND)
        try:
            async with timer:
                return await self._wait(run_id)
        except TimeoutError:
            if not timer.expired():
                raise
            raise ResultTimeout(
                f"run {run_id} had not ended after {(timeout or 0) / SECOND:g} s; it goes on",
                fix=f"stepwell why {run_id}",
            ) from None

    async def _last_of_chain(self, run: Run) -> Run:
        while run.status is RunStatus.CONTINUED and run.successor is not None:
            following = await self._look(run.successor)
            if following is None:
                break
            run = following
        return run

    async def _wait(self, run_id: RunId) -> Run:
        changed = asyncio.Event()
        self._listen(run_id, changed)
        try:
            while True:
                changed.clear()
                run = await self._look(run_id)
                if run is not None and run.status is RunStatus.CONTINUED and run.successor is not None:
                    self._unlisten_run(run_id, changed)
                    run_id = run.successor
                    self._listen(run_id, changed)
                    continue
                if run is not None and await self._is_settled(run):
                    return run
                try:
                    await asyncio.wait_for(changed.wait(), LOOK_AGAIN)
                except TimeoutError:
                    continue
        finally:
            self._unlisten_run(run_id, changed)

    async def _look(self, run_id: RunId) -> Run | None:
        try:
            run = await self._store.views.find(run_id)
        except StoreUnavailableError:
            return None
        if run is None:
            raise NotFoundError("run", run_id)
        return run

    async def _is_settled(self, run: Run) -> bool:
        """Whether the run has completed. Raises for every other way of not moving on."""
        failure = decode_failure(run.failure) if run.failure else None
        match run.status:
            case RunStatus.COMPLETED:
                return True
            case RunStatus.FAILED | RunStatus.COMPENSATED:
                raise RunFailed(run.run_id, run.status.value, failure)
            case RunStatus.CANCELLED:
                raise RunCancelled(run.run_id, run.reason)
            case RunStatus.PAUSED:
                raise RunPaused(run.run_id, failure)
            case RunStatus.COMPENSATION_FAILED:
                raise RollbackIncomplete(run.run_id, failure, await self._count_left(run))
            case _:
                return False

    async def _count_left(self, run: Run) -> int:
        detail = await self._store.views.detail(run.run_id)
        entries = detail.history.entries if detail is not None else ()
        done = {entry.location for entry in entries}
        return sum(e.undo is not None and e.seq > run.undo_floor and undo(e.location) not in done for e in entries)

    # --- hints ---

    def _listen(self, run_id: RunId, changed: asyncio.Event) -> None:
        if self._unlisten is None:
            self._unlisten = self._store.wakeups.listen(self._heard)
        self._waiting.setdefault(run_id, set()).add(changed)

    def _unlisten_run(self, run_id: RunId, changed: asyncio.Event) -> None:
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            waiting.discard(changed)
            if not waiting:
                del self._waiting[run_id]
        if not self._waiting and self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _heard(self, hint: Hint) -> None:
        if hint.kind is HintKind.CHANGED:
            for waiting in self._waiting.values():
                for event in waiting:
                    event.set()
        elif hint.kind is HintKind.ENDED:
            for run_id in hint.runs:
                for event in self._waiting.get(run_id, ()):
                    event.set()
