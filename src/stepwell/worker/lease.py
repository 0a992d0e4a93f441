"""The worker's right to its runs, kept by its own monotonic clock."""

from __future__ import annotations

from stepwell.clock import SECOND, Clock, Span
from stepwell.ids import Incarnation


class Lease:
    """One incarnation's lease.

    The deadline is counted from *before* the request was sent, so it is never later than the store's.
    """

    MARGIN = 0.1  # of the lease: time for a body that is about to start

    def __init__(self, clock: Clock, incarnation: Incarnation, lease: Span) -> None:
        self._clock = clock
        self._seconds = lease / SECOND
        self.incarnation = incarnation
        self._deadline = float("-inf")

    def before_request(self) -> float:
        """Note the time before a register or renew request is sent."""
        return self._clock.monotonic()

    def granted(self, requested: float) -> None:
        """The store granted the request that was sent at `requested`."""
        self._deadline = max(self._deadline, requested + self._seconds * (1 - self.MARGIN))

    @property
    def is_granted(self) -> bool:
        """Whether the store has ever granted it."""
        return self._deadline != float("-inf")

    def is_live(self) -> bool:
        """Whether a body may start now."""
        return self._clock.monotonic() < self._deadline
