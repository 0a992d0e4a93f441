"""Changes of runs: those who wait for something hear of it by hint, and look again where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepwell.engine.lookups import SharedLookup
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind

LOOK_AGAIN = 1.0  # seconds, without any hint


class ChangeFlag:
    """Something may have happened to a run; to others too, if they ended with it. One at a time waits for it.

    Whoever waits has told `Changes` to set it: from there it is also woken now and then without a hint.
    """

    __slots__ = ("_is_set", "_waiter", "completed", "together")

    def __init__(self) -> None:
        self.together: SharedLookup | None = None
        self.completed: Run | None = None  # known without looking, because it was done here
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def is_set(self) -> bool:
        """Whether there was a hint since it was cleared."""
        return self._is_set

    def set(self) -> None:
        """There is a hint."""
        self._is_set = True
        self.wake()

    def wake(self) -> None:
        """There may have been one that was lost."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        """What was told is known."""
        self._is_set = False

    async def heard(self) -> None:
        """Wait for a hint, but not for ever."""
        if self._is_set:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


class Changes:
    """Tells those who wait for something to happen to a run that it may have happened."""

    def __init__(self, store: Store, kinds: frozenset[HintKind] = frozenset(HintKind)) -> None:
        self._store = store
        self._kinds = kinds  # of hints that are changes here
        # Ordered, so that those who wait for the same run hear of it in the same order every time.
        self._waiting: dict[RunId, dict[ChangeFlag, None]] = {}
        self._unlisten: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # that will wake those who wait

    def listen(self, run_id: RunId, changed: ChangeFlag) -> None:
        """From now on it is set when something may have happened to the run."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(LOOK_AGAIN, self._look_again, loop)
            if self._unlisten is None:
                self._unlisten = self._store.wakeups.listen(self._heard)
        self._waiting.setdefault(run_id, {})[changed] = None

    def unlisten(self, run_id: RunId, changed: ChangeFlag) -> None:
        """It is set no more."""
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            waiting.pop(changed, None)
            if not waiting:
                del self._waiting[run_id]

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all who wait. Hints are heard until nobody waits when it is over: who waited for one run often
        waits for the next.
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
        """A run is not executed in this process any more; if it has completed, that is durable."""
        for event in self._waiting.get(run.run_id, ()):
            event.completed = run if run.status is RunStatus.COMPLETED else None
            event.set()

    def _heard(self, hint: Hint) -> None:
        if hint.kind is HintKind.CHANGED:
            for waiting in self._waiting.values():
                for event in waiting:
                    event.set()
        elif hint.kind in self._kinds:
            awaited = [run_id for run_id in hint.runs if run_id in self._waiting]
            together = SharedLookup(self._store, list(awaited)) if len(awaited) > 1 else None
            for run_id in awaited:
                for event in self._waiting[run_id]:
                    event.together = together
                    event.set()
