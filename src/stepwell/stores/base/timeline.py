"""The time of a store that has only the machine's clocks: it never goes back and never stops.

It is the wall clock while the wall clock runs normally. When the wall clock is set back, time continues from where it
was, by the clock that counts since the machine was booted. All processes of a boot share that clock, so an *anchor* (an
instant, and what the boot clock showed then) gives all of them the same time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stepwell.clock import SECOND, Clock, Instant, Span

# How old an anchor may become, in microseconds. Storing one costs a page of the log, so not every commit stores one.
# After a boot, time continues above every instant that may have been shown since the stored anchor.
FLOOR_LAG: Final = 10_000
# How far instants that were shown may be ahead of the time that the stored anchor gives.
EXCESS: Final = 1_000
# If time is further ahead of the wall clock than this, it runs at half speed until the wall clock catches up.
AHEAD_MAX: Final = Span(300 * SECOND)


class Anchor(NamedTuple):
    """An instant, and the reading of the boot clock at that instant. `divisor` is 2 while time runs at half speed."""

    floor: Instant = Instant(0)
    uptime: int = 0
    boot: str = ""
    divisor: int = 1

    def at(self, uptime: int) -> Instant:
        """The instant at another reading of the same boot clock."""
        return Instant(self.floor + max(0, uptime - self.uptime) // self.divisor)


class Timeline:
    """What one process knows of the store's time."""

    __slots__ = ("_ahead", "_behind", "_calm_until", "anchor", "shown")

    def __init__(self) -> None:
        self.anchor = Anchor()
        self.shown = Instant(0)  # no earlier instant is shown again
        self._calm_until = 0  # until then the anchor is recent enough to keep
        # The range of (wall clock - boot clock) while both run normally.
        self._behind = self._ahead = 0

    def _follow(self, anchor: Anchor, clock: Clock) -> None:
        self.anchor = anchor
        is_calm = anchor.divisor == 1 and anchor.boot == clock.boot
        self._calm_until = anchor.floor + FLOOR_LAG if is_calm else 0
        lead = anchor.floor - anchor.uptime
        self._behind, self._ahead = lead - EXCESS, lead + EXCESS

    def adopt(self, stored: Anchor, clock: Clock) -> None:
        """Follow the stored anchor. An anchor of another boot or another machine is only a lower limit."""
        uptime = clock.uptime()
        if stored.boot == clock.boot and stored.uptime <= uptime:
            self._follow(stored, clock)
            self.shown = max(self.shown, stored.floor)
            return
        floor = stored.floor
        if clock.now() < floor:
            floor = Instant(floor + FLOOR_LAG + EXCESS)
        if self.anchor.boot == clock.boot:
            floor = max(floor, self.anchor.at(uptime))
        self._follow(Anchor(floor, uptime, "", stored.divisor), clock)

    def now(self, clock: Clock, *, others_wrote: bool = False) -> Instant:
        """The time. If this changes the anchor, the next transaction stores it.

        `others_wrote`: other processes may have written since the last call, so the result is above every instant that
        they may have shown.
        """
        wall, uptime = clock.now(), clock.uptime()
        if self.shown <= wall < self._calm_until and self._behind <= wall - uptime <= self._ahead and not others_wrote:
            self.shown = wall  # both clocks run normally, as in nearly every call
            return wall
        anchor = self.anchor
        due = anchor.at(uptime)
        now = max(wall, due, self.shown)
        if others_wrote and wall < due - EXCESS:
            now = max(now, Instant(due + EXCESS))
        self.shown = now
        divisor = anchor.divisor
        if now - wall > AHEAD_MAX:
            divisor = 2
        elif now == wall:
            divisor = 1
        if divisor != anchor.divisor or now > due + EXCESS or anchor.boot != clock.boot:
            self._follow(Anchor(now, uptime, clock.boot, divisor), clock)
        elif uptime - anchor.uptime > FLOOR_LAG:
            self._follow(Anchor(due, uptime, anchor.boot, divisor), clock)  # the same time, from a later point
        return now

    def raise_floor(self, floor: Instant, clock: Clock) -> None:
        """Show no earlier instant than this from now on. The caller stores the anchor."""
        self.shown = max(self.shown, floor)
        self._follow(Anchor(self.shown, clock.uptime(), clock.boot, self.anchor.divisor), clock)
