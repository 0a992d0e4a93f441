"""The timer of one claim: while a run is owned, only its owner watches its deadlines."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from stepwell.clock import SECOND, Instant
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.resources import Resources


class TimerOwner(Protocol):
    """What a timer needs from its execution."""

    def pump(self) -> None: ...


class DeadlineTimer:
    """Continues the code at the next deadline of its waits, or at the deadline of the run.

    It references its execution while it is set, so it is stopped when the claim ends.
    """

    __slots__ = ("_claim", "_resources", "handle")

    def __init__(self, claim: ClaimState, resources: Resources) -> None:
        self._claim = claim
        self._resources = resources
        self.handle: asyncio.TimerHandle | None = None  # None while it is not set

    def set(self, next_deadline: Instant | None, owner: TimerOwner) -> None:
        """Wait for this deadline or the deadline of the run, whichever is first."""
        self.stop()
        deadline, end = next_deadline, self._claim.end_at
        if end is not None:
            deadline = end if deadline is None else min(deadline, end)
        if deadline is not None:
            delay = max(0.001, (deadline - self._resources.now()) / SECOND)
            is_watched = self._resources.observers is not None
            call = partial(self._expire, deadline, owner) if is_watched else owner.pump
            self.handle = asyncio.get_running_loop().call_later(delay, call)

    def stop(self) -> None:
        """Stop the timer."""
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def _expire(self, deadline: Instant, owner: TimerOwner) -> None:
        if not self._claim.is_over:
            self._resources.notices.woken(self._claim.run, deadline)
        owner.pump()
