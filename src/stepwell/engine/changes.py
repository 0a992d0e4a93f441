"""Changes of runs: waiters are woken by hints, and once a second in case a hint was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepwell.engine.lookups import SharedLookup
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind

LOOK_AGAIN = 1.0  # seconds without a hint


class ChangeFlag:
    """Set when a run may have changed. It has one waiter at a time.

    `Changes` sets it while it is registered there, and also wakes its waiter regularly without a hint.
    """

    __slots__ = ("_is_set", "_waiter", "completed", "lookup")

    def __init__(self) -> None:
        self.lookup: SharedLookup | None = None
        self.completed: Run | None = None  # known without reading, because it was executed here
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        """Whether a hint arrived since it was cleared."""
        return self._is_set

    def set(self) -> None:
        """A hint arrived."""
        self._is_set = True
        self.wake()

    def wake(self) -> None:
        """Wake the waiter without a hint: a hint may have been lost."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        """Clear the hint, before the run is read."""
        self._is_set = False

    async def heard(self) -> None:
        """Wait for a hint, or until it is time to read without one."""
        if self._is_set:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


class Changes:
    """Sets the flags of waiters when their runs may have changed."""

    def __init__(self, store: Store, kinds: frozenset[HintKind] = frozenset(HintKind)) -> None:
        self._store = store
        self._kinds = kinds  # of hints that count here
        # Ordered, so that waiters for the same run are woken in the same order every time.
        self._waiting: dict[RunId, dict[ChangeFlag, None]] = {}
        self._unlisten: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # whose timer wakes the waiters

    def listen(self, run_id: RunId, changed: ChangeFlag) -> None:
        """Set this flag whenever the run may have changed, from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(LOOK_AGAIN, self._look_again, loop)
            if self._unlisten is None:
                self._unlisten = self._store.wakeups.listen(self._heard)
        self._waiting.setdefault(run_id, {})[changed] = None

    def unlisten(self, run_id: RunId, changed: ChangeFlag) -> None:
        """Stop setting this flag."""
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            waiting.pop(changed, None)
            if not waiting:
                del self._waiting[run_id]

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake all waiters, by one timer. Hints are listened to until it fires and no waiter is left: a waiter for one
        run often waits for the next.
        """
        if loop is not self._loop:
            return
        if not self._waiting:
            self._loop = None
            if self._unlisten is not None:
                self._unlisten()
                self._unlisten = None
            return
        for waiting in self._waiting.values():
            for changed in waiting:
                changed.wake()
        loop.call_later(LOOK_AGAIN, self._look_again, loop)

    def over(self, run: Run) -> None:
        """This process no longer executes a run; if it has completed, that is durable."""
        for flag in self._waiting.get(run.run_id, ()):
            flag.completed = run if run.status is RunStatus.COMPLETED else None
            flag.set()

    def _heard(self, hint: Hint) -> None:
        if hint.kind is HintKind.CHANGED:
            for waiting in self._waiting.values():
                for flag in waiting:
                    flag.set()
        elif hint.kind in self._kinds:
            awaited = [run_id for run_id in hint.runs if run_id in self._waiting]
            lookup = SharedLookup(self._store, list(awaited)) if len(awaited) > 1 else None
            for run_id in awaited:
                for flag in self._waiting[run_id]:
                    flag.lookup = lookup
                    flag.set()
