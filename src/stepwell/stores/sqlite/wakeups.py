"""Hints: our own after each commit, and those of other processes by polling SQLite's change counter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from stepwell.environment import Executor
from stepwell.errors import StoreError, StoreLostError
from stepwell.stores.base.wakeups import Hint, HintHub, HintKind, Listener
from stepwell.stores.sqlite.runners import Runner

_PAUSE_SECONDS_MIN = 0.002
_PAUSE_SECONDS_MAX = 0.1
_GROWTH = 1.25


class SqliteWakeups(HintHub):
    """A hub that also polls for changes by other processes while it has listeners.

    Reading the counter costs microseconds. It is read often while other processes are busy, else ten times a second.
    """

    def __init__(self, executor: Executor, runner: Runner) -> None:
        super().__init__()
        self._executor = executor
        self._runner = runner
        self._has_listeners = asyncio.Event()
        self._watch: asyncio.Task[Any] | None = None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for every hint from now on. Call the returned function to stop."""
        stop = super().listen(listener)
        self._has_listeners.set()
        return stop

    def open(self) -> None:
        """Start to poll for other processes' changes; the store is open."""
        if self._watch is None and not self._runner.is_exclusive:
            self._watch = self._executor.spawn(self._watch_others(), name="stepwell-sqlite-wakeups")

    async def close(self) -> None:
        """Stop polling."""
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
            elif self._has_changed():
                pause = _PAUSE_SECONDS_MIN
                self.notify(Hint(HintKind.CHANGED))
            else:
                pause = min(pause * _GROWTH, _PAUSE_SECONDS_MAX)

    def _has_changed(self) -> bool:
        try:
            return self._runner.has_changed()
        except StoreLostError:
            return True  # the listeners' next read raises the error
        except StoreError:
            return False  # the next read or write reports the error
