"""The clock of a test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from stepwell.clock import SECOND, Duration, span, to_datetime, to_instant
from stepwell.errors import InvalidOptionError
from stepwell.testing.scripts import Act, advance
from stepwell.testing.world import World


class ClockBase:
    """Reads the time, and lets it pass."""

    def __init__(self, world: World, note: Callable[[Act], None]) -> None:
        self._world = world
        self._note = note

    def now(self) -> datetime:
        """The time of the test, in UTC."""
        return to_datetime(self._world.clock.now())

    def next_timer(self) -> datetime | None:
        """When the next waiting run is due, by a timer, a timeout, a retry or its deadline, or the next schedule. None
        if nothing is.
        """
        due = self._world.next_due()
        return None if due is None else to_datetime(due)

    def _advance(self, duration: Duration | None, parts: dict[str, float]) -> datetime:
        passes = span(duration) if duration is not None else span(timedelta(**parts))
        return self._advance_by(passes / SECOND)

    def _advance_to(self, when: datetime) -> datetime:
        left = (to_instant(when) - self._world.clock.now()) / SECOND
        if left < 0:
            raise InvalidOptionError(f"{when} has passed", where="clock.advance_to", why=f"it is {self.now()}")
        return self._advance_by(left)

    def _advance_by(self, seconds: float) -> datetime:
        if self._world.loop.manual is None:
            raise InvalidOptionError("the real clock cannot be advanced", where="clock", fix="leave out clock='real'")
        self._note(advance(seconds))
        self._world.drive(lambda: False, until=self._world.loop.time() + seconds, only_if=lambda: True)
        return self.now()


class KitClock(ClockBase):
    """`stepwell.clock` in an `async def` test."""

    async def advance(
        self,
        duration: Duration | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> datetime:
        """Let time pass and everything that is due happen; returns the new time: `advance("3d")`, `advance(days=3)`."""
        parts = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
        return self._advance(duration, parts)

    async def advance_to(self, when: datetime) -> datetime:
        """Let time pass up to a moment in the future."""
        return self._advance_to(when)
