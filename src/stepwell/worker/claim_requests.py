"""Requests whose answers may bring claims, and whether such an answer was lost."""

from __future__ import annotations

import asyncio
from types import TracebackType


class ClaimRequests:
    """Entered while such a request is in flight. If its answer is lost, the store may hold unknown claims."""

    def __init__(self, wake: asyncio.Event) -> None:
        self.count = 0  # of requests in flight
        self.in_doubt = False  # the store must release claims that this worker does not know
        self._wake = wake

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self.count -= 1
        if kind is not None:
            self.suspect_lost_claims()

    def suspect_lost_claims(self) -> None:
        """An answer was lost: the store may hold claims for this worker that it does not know."""
        self.in_doubt = True
        self._wake.set()
