"""Clocks that move only when the caller moves them."""

from __future__ import annotations

import math

from stepwell.clock import SECOND, Clock, Duration, Instant, span

_START = Instant(1_700_000_000_000_000)


class ManualClock:
    """Wall and monotonic time, set by hand."""

    boot = "virtual"
    resolution = 0.5e-6  # seconds: timers this close together are due at the same moment

    def __init__(self, start: Instant = _START) -> None:
        self._origin = int(start)  # the wall time at which the monotonic time is 0
        self._seconds = 0.0

    def now(self) -> Instant:
        return Instant(self._origin + round(self._seconds * 1_000_000))

    def monotonic(self) -> float:
        return self._seconds

    def uptime(self) -> int:
        return round(self._seconds * 1_000_000)

    def go_to(self, seconds: float) -> None:
        """Let time pass up to this reading of `monotonic`."""
        # In whole microseconds, so that ten times 0.1 s is a second; rounded up, so that no timer fires early.
        self._seconds = max(self._seconds, math.ceil(seconds * 1_000_000 - 0.001) / 1_000_000)

    def advance(self, duration: Duration) -> Instant:
        """Let time pass; returns the new wall time."""
        self._seconds = (self.uptime() + span(duration)) / SECOND
        return self.now()

    def jump(self, seconds: float) -> None:
        """Move the wall clock forwards or back; monotonic time does not change."""
        self._origin += round(seconds * 1_000_000)

    def jump_back(self, duration: Duration) -> Instant:
        """Set the wall clock back, as an administrator or a bad time server does; returns the new wall time."""
        self.jump(-span(duration) / SECOND)
        return self.now()


class ContinuousClock(ManualClock):
    """Time that is not rounded to microseconds: two timers are hardly ever due at the same moment."""

    resolution = 0.0

    def go_to(self, seconds: float) -> None:
        self._seconds = max(self._seconds, seconds)


class ProcessClock:
    """The clock of one process: its wall time may be wrong, and its monotonic time has an origin of its own."""

    def __init__(self, clock: Clock, *, origin: float = 0.0) -> None:
        self._clock = clock
        self._origin = origin
        self.skew = 0  # microseconds

    def now(self) -> Instant:
        return Instant(self._clock.now() + self.skew)

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._origin

    def uptime(self) -> int:
        return self._clock.uptime()

    @property
    def boot(self) -> str:
        return self._clock.boot
