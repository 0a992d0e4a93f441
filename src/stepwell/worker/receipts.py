"""Receipts of signals wait a short time for a commit that they can share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_SECONDS = 0.02
_EARLY_SECONDS = 0.005  # one wake-up handles all receipts that are due this soon


class Receipts:
    """One timer for all runs of a worker: nearly every receipt is committed before its time."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._is_timed = False

    def wait(self, record: Callable[[], None]) -> None:
        """Call `record` soon."""
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
