"""Hints: our own after each commit, and a look at SQLite's change counter for those of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from stepwell.environment import Executor
from stepwell.errors import StoreError, StoreLostError
from stepwell.stores.base.wakeups import Hint, HintKind, Hub, Listener
from stepwell.stores.sqlite.runners import Runner

_PAUSE_SECONDS_MIN = 0.002
_PAUSE_SECONDS_MAX = 0.1
_GROWTH = 1.25


class SqliteWakeups(Hub):
    """A hub that also hears of other processes, while anybody listens.

    The counter costs microseconds to read. It is read often while others are busy, ten times a second when not.
    """

    def __init__(self, executor: Executor, runner: Runner) -> None:
        super().__init__()
        self._executor = executor
        self._runner = runner
        self._has_listeners = asyncio.Event()
        self._watch: asyncio.Task[Any] | None = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear every hint from now on; call what is returned to stop."""
        stop = super().listen(listener)
        self._has_listeners.set()
        return stop

    def open(self) -> None:
        """The store is open: other processes may be watched."""
        if self._watch is None and not self._runner.is_alone:
            self._watch = self._executor.spawn(self._watch_others(), name="stepwell-sqlite-wakeups")

    async def close(self) -> None:
        """Watch no more."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
            self._watch = None

    async def _watch_others(self) -> None:
        pause = _PAUSE_SECONDS_MIN
        while True:
            await self._has_listeners.wait()
            await asyncio.sleep(pause)
            if not self._listeners:
                self._has_listeners.clear()
            elif self._look():
                pause = _PAUSE_SECONDS_MIN
                self.tell(Hint(HintKind.CHANGED))
            else:
                pause = min(pause * _GROWTH, _PAUSE_SECONDS_MAX)

    def _look(self) -> bool:
        try:
            return self._runner.has_changed()
        except StoreLostError:
            return True  # whoever looks now gets the error
        except StoreError:
            return False  # the next read or write says what is wrong
