"""Receipts that wait for a commit which they can share, but not for long: people look at what a run has read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_SECONDS = 0.02
_EARLY_SECONDS = 0.005  # one wake-up serves all that are due so soon


class Receipts:
    """One timer for all runs of a worker: nearly every receipt has gone with a commit when its time comes."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._is_timed = False

    def wait(self, record: Callable[[], None]) -> None:
        """Call this before long."""
        loop = asyncio.get_running_loop()
        self._waiting.append((loop.time() + _SECONDS, record))
        if not self._is_timed:
            self._is_timed = True
            loop.call_later(_SECONDS, self._record_due)

    def _record_due(self) -> None:
        self._is_timed = False
        loop, waiting = asyncio.get_running_loop(), self._waiting
        until = loop.time() + _EARLY_SECONDS
        while waiting and waiting[0][0] <= until:
            waiting.popleft()[1]()
        if waiting and not self._is_timed:
            self._is_timed = True
            loop.call_at(waiting[0][0], self._record_due)
