"""Waiting for runs to end: woken by hints, and by reading again in case a hint was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from stepwell.advice import Advice, Verb
from stepwell.clock import SECOND, Span
from stepwell.engine.changes import ChangeFlag, Changes
from stepwell.engine.lookups import Finder, SharedLookup
from stepwell.errors import (
    NotFoundError,
    ResultTimeout,
    RollbackIncomplete,
    RunCancelled,
    RunFailed,
    RunPaused,
    StoreError,
    Unanswered,
)
from stepwell.ids import RunId, SignalId
from stepwell.model.failures import decode_failure
from stepwell.model.runs import Run
from stepwell.model.signals import Question, Reply
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.model.undos import left_to_undo
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import ViewStore
from stepwell.stores.base.wakeups import HintKind

PAUSE = 0.05  # before the store is read again
_SETTLES = frozenset({HintKind.ENDED, HintKind.REPLIED})
_STANDS_STILL = TERMINAL | {RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED}


class Answers:
    """Hands replies to the callers that asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes = Changes(store, _SETTLES)

    async def wait(self, signal_id: SignalId, name: str, timeout: Span | None) -> Reply | None:
        """The reply to a question; None if no such question is known. Raises `Unanswered` and `ResultTimeout`."""
        timer = asyncio.timeout(None if timeout is None else timeout / SECOND)
        try:
            async with timer:
                return await self._wait(signal_id, name)
        except TimeoutError:
            if not timer.expired():
                raise
            raise ResultTimeout(
                f"{name!r} was not answered after {(timeout or 0) / SECOND:g} s; the run may still answer it",
                fix="ask again with the same dedup_key to get that answer",
            ) from None

    async def _wait(self, signal_id: SignalId, name: str) -> Reply | None:
        changed, listens_to = ChangeFlag(), None
        try:
            while True:
                changed.clear()
                try:
                    question = await self._store.views.find_question(signal_id)
                except StoreError as error:
                    if is_final(error):
                        raise
                    await asyncio.sleep(PAUSE)
                    continue
                if question is None or question.reply is not None:
                    return None if question is None else question.reply
                _check_awaited(question, name)
                if question.run_id != listens_to:
                    # Listen first, then read once more: nothing that happened in between is missed.
                    listens_to = self._move(listens_to, question.run_id, changed)
                    continue
                await changed.heard()
        finally:
            self._move(listens_to, None, changed)

    def _move(self, before: RunId | None, after: RunId | None, changed: ChangeFlag) -> RunId | None:
        if before is not None:
            self._changes.unlisten(before, changed)
        if after is not None:
            self._changes.listen(after, changed)
        return after


def _check_awaited(question: Question, name: str) -> None:
    """Raise `Unanswered` if the run will not reply by itself."""
    status = question.run_status
    if status is None or question.run_id is None or status not in _STANDS_STILL:
        return
    is_over = status in TERMINAL
    raise Unanswered(
        f"run {question.run_id} is {status.value} and has not answered {name!r}",
        where=f"run {question.run_id}",
        why="it had read the question" if question.is_read else "it has not read the question",
        fix="ask a run that is active" if is_over else Advice(Verb.WHY, question.run_id),
    )


class Results:
    """Hands ended runs to the callers that wait for them."""

    def __init__(self, store: Store) -> None:
        self.finder = Finder(store)
        self._store = store
        self._changes = Changes(store, _SETTLES)
        # The worker of this process reports the runs that it has executed, and whether it executes a run now.
        self.over = self._changes.over
        self.is_at_work: Callable[[RunId], bool] = lambda _: False

    async def wait(self, run: Run, timeout: Span | None) -> Run:
        """The completed run at the end of the chain. Raises what `Handle.result` promises.

        A run that has already ended is returned, however short the timeout is.
        """
        run = await self._last_of_chain(run)
        if await self._is_settled(run):
            return run
        return await self.wait_for(run.run_id, timeout)

    def wait_for(self, run_id: RunId, timeout: Span | None, *, is_at_work: bool = False) -> Coroutine[Any, Any, Run]:
        """`wait`, for a run that has not ended as far as the caller knows. A run that the worker of this process
        executes is not read before the worker reports its end.
        """
        waiting = self._wait(run_id, is_at_work=is_at_work)
        return waiting if timeout is None else self._in_time(waiting, run_id, timeout)

    async def _in_time(self, waiting: Coroutine[Any, Any, Run], run_id: RunId, timeout: Span) -> Run:
        timer = asyncio.timeout(timeout / SECOND)
        try:
            async with timer:
                return await waiting
        except TimeoutError:
            if not timer.expired():
                raise
            raise ResultTimeout(
                f"run {run_id} had not ended after {timeout / SECOND:g} s; it continues",
                fix=Advice(Verb.WHY, run_id),
            ) from None

    async def _last_of_chain(self, run: Run) -> Run:
        while run.status is RunStatus.CONTINUED and run.successor is not None:
            following = await self._look(run.successor, self.finder)
            if following is None:
                break
            run = following
        return run

    async def _wait(self, run_id: RunId, *, is_at_work: bool) -> Run:
        changed = ChangeFlag()
        self._changes.listen(run_id, changed)
        try:
            if is_at_work:
                await changed.heard()
            while True:
                if changed.is_set() and changed.completed is None and self.is_at_work(run_id):
                    # The hint arrived before the answer to the commit that caused it.
                    changed.clear()
                    await changed.heard()
                if changed.completed is not None:
                    return changed.completed
                # A run that a hint names is read at once; without a hint, many waiters may share one read.
                views = self._store.views if changed.is_set() else self.finder
                lookup, changed.lookup = changed.lookup, None
                changed.clear()
                run = await self._look(run_id, lookup or views)
                if run is not None and run.status is RunStatus.CONTINUED and run.successor is not None:
                    self._changes.unlisten(run_id, changed)
                    # A hint or a shared lookup from before is about the previous run.
                    run_id, changed = run.successor, ChangeFlag()
                    self._changes.listen(run_id, changed)
                    continue
                if run is not None and await self._is_settled(run):
                    return run
                await changed.heard()
        finally:
            self._changes.unlisten(run_id, changed)

    async def _look(self, run_id: RunId, views: ViewStore | SharedLookup | Finder) -> Run | None:
        try:
            run = await views.find(run_id)
        except StoreError as error:
            if is_final(error):
                raise
            return None
        if run is None:
            raise NotFoundError("run", run_id)
        return run

    async def _is_settled(self, run: Run) -> bool:
        """Whether the run has completed. Raises if it ended otherwise, or does not continue by itself."""
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
        return 0 if detail is None else len(left_to_undo(detail.history.entries, run.undo_floor))
