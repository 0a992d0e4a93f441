"""A clock that only moves when it is told to."""

from __future__ import annotations

from stepwell.clock import Duration, Instant, span

_START = Instant(1_700_000_000_000_000)


class ManualClock:
    """Wall and monotonic time by hand."""

    def __init__(self, start: Instant = _START) -> None:
        self._now = int(start)
        self._monotonic = 0
        self.boot = "by hand"

    def now(self) -> Instant:
        return Instant(self._now)

    def monotonic(self) -> float:
        return self._monotonic / 1_000_000

    def uptime(self) -> int:
        return self._monotonic

    def advance(self, duration: Duration) -> Instant:
        """Let time pass; the wall clock's new reading."""
        passed = span(duration)
        self._now += passed
        self._monotonic += passed
        return self.now()

    def jump_back(self, duration: Duration) -> Instant:
        """Set the wall clock back, as an administrator or a bad time server does; monotonic time is not touched."""
        self._now -= span(duration)
        return self.now()
