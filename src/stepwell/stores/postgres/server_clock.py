"""The server's time, as far as this process knows it."""

from __future__ import annotations

from stepwell.clock import SECOND, Instant

# An answer that waited for a busy loop shows a time that is too early. So the answer with the latest time counts, for
# this many seconds; after that the clocks may have drifted apart, and a newer answer replaces it.
_BEST_SECONDS = 10.0


class ServerClock:
    """What is known of the server's clock: the latest instants that it showed to us and that we showed to others."""

    def __init__(self) -> None:
        self.seen = Instant(0)
        self.shown = Instant(0)
        self._best = Instant(0)
        self._best_at = float("-inf")  # when it arrived, by our monotonic clock

    def note(self, now: Instant, at: float) -> None:
        """Note an answer with this time, received at `at`. An answer that is not later than others is ignored."""
        if now > self.seen:
            self.seen = now
            if at - self._best_at > _BEST_SECONDS or now > self.estimate(at):
                self._best, self._best_at = now, at

    def show(self, now: Instant) -> Instant:
        """A time to show to others: it never goes back."""
        self.shown = max(self.shown, self.seen, now)
        return self.shown

    def estimate(self, at: float) -> Instant:
        """The estimated time of the server."""
        return Instant(self._best + int((at - self._best_at) * SECOND)) if self._best else Instant(0)
