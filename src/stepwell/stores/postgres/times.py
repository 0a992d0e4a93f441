"""What time it is on the server, as far as a process knows it."""

from __future__ import annotations

from stepwell.clock import SECOND, Instant

# An answer is older than it looks when it has waited for a busy loop. So the one that shows the latest time counts for
# so long; then clocks may have drifted apart, and another one does.
_BEST_SECONDS = 10.0


class Times:
    """What is known of the server's clock: the latest instants that it showed us, and that we showed others."""

    def __init__(self) -> None:
        self.seen = Instant(0)
        self.shown = Instant(0)
        self._best = Instant(0)
        self._best_at = float("-inf")  # when that came, by our monotonic clock

    def note(self, now: Instant, at: float) -> None:
        """An answer came that was given then. One that is not later than others says nothing."""
        if now > self.seen:
            self.seen = now
            if at - self._best_at > _BEST_SECONDS or now > self.estimate(at):
                self._best, self._best_at = now, at

    def show(self, now: Instant) -> Instant:
        """A time as others may see it: never going back."""
        self.shown = max(self.shown, self.seen, now)
        return self.shown

    def estimate(self, at: float) -> Instant:
        """What time it is there, as far as answers tell."""
        return Instant(self._best + int((at - self._best_at) * SECOND)) if self._best else Instant(0)
