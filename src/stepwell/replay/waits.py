"""What the code of a turn waits for, and until when."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable

from stepwell.clock import Instant, Span
from stepwell.model.events import IncomingEvent
from stepwell.model.locations import Location
from stepwell.model.runs import ChildOutcome
from stepwell.model.signals import Signal
from stepwell.model.states import WaitKind
from stepwell.model.waits import Wait
from stepwell.replay.event_loop import TurnLoop

Arrival = Signal | ChildOutcome | IncomingEvent | None  # None: the deadline passed

_TIMED = (WaitKind.TIMER, WaitKind.RETRY)


class Armed:
    """A wait of the code, and the future that it awaits.

    The deadline of a `derived` one is a function of recorded results, so it need not be stored before the run is
    released.
    """

    __slots__ = ("future", "is_derived", "wait")

    def __init__(self, wait: Wait, future: asyncio.Future[Arrival], *, is_derived: bool = False) -> None:
        self.wait = wait
        self.future = future
        self.is_derived = is_derived


class Waits:
    """The waits of a turn: armed at their locations until something arrives or their deadline passes.

    `max_suspend` limits how long each of them may last.
    """

    __slots__ = ("_last", "_loop", "_max_suspend", "_tokens", "armed", "deadlines", "stored")

    def __init__(self, loop: TurnLoop, stored: Iterable[Wait], max_suspend: Span | None) -> None:
        self._loop = loop
        self._max_suspend = max_suspend
        self._tokens = 0
        self._last: Wait | None = None  # the wait that ended last
        self.armed: dict[Location, Armed] = {}
        self.deadlines: list[tuple[Instant, int, Armed]] = []
        self.stored = frozenset(stored)

    # --- waiting ---

    async def arrive(self, wait: Wait) -> Arrival:
        """Wait until something arrives, or the deadline passes."""
        armed = self.arm(wait)
        try:
            arrival = await armed.future
        finally:
            self.end(armed)
        self._last = wait
        return arrival

    def arm(self, wait: Wait, *, is_derived: bool = False) -> Armed:
        """Begin to wait. The caller calls `end` once the future is done."""
        armed = Armed(wait, self._loop.own_future(), is_derived=is_derived)
        self.armed[wait.location] = armed
        if wait.due_at is not None:
            self._tokens += 1
            heapq.heappush(self.deadlines, (wait.due_at, self._tokens, armed))
        return armed

    def end(self, armed: Armed) -> None:
        """The code no longer waits for this."""
        if self.armed.get(armed.wait.location) is armed:
            del self.armed[armed.wait.location]

    def take_repeated(self, location: Location) -> Wait | None:
        """The wait here whose arrival did not fit: the code continues to wait, with the same limit."""
        last, self._last = self._last, None
        return last if last is not None and last.location == location else None

    def new_token(self, epoch: int) -> int:
        """A token that no other wait of the run has."""
        self._tokens += 1
        return epoch << 20 | self._tokens

    def limit(self, now: Instant, due_at: Instant | None) -> Instant | None:
        """When a wait that begins now has lasted too long; None if its own deadline comes first."""
        if self._max_suspend is None:
            return None
        limit = Instant(now + self._max_suspend)
        return limit if due_at is None or due_at > limit else None

    def disarm(self, location: Location) -> None:
        """The code no longer waits here, even if its task has not been cancelled yet."""
        self.armed.pop(location, None)

    # --- deadlines ---

    def pass_deadline(self, now: Instant) -> bool:
        """Let the earliest deadline pass if it is due; whether it was."""
        due = self._next_due()
        if due is None or due > now:
            return False
        _, _, armed = heapq.heappop(self.deadlines)
        armed.future.set_result(None)
        return True

    @property
    def next_deadline(self) -> Instant | None:
        """The earliest deadline, including the limits of `max_suspend`."""
        due = self._next_due()
        if self._max_suspend is None:
            return due
        limits = [limit for armed in self.armed.values() if (limit := armed.wait.limit_at) is not None]
        return min(limits if due is None else [due, *limits], default=None)

    @property
    def has_deadlines(self) -> bool:
        """Whether there may be a deadline."""
        return bool(self.deadlines) or self._max_suspend is not None

    def find_overdue(self, now: Instant) -> Wait | None:
        """A wait that has lasted longer than `max_suspend`."""
        if self._max_suspend is None:
            return None
        waits = (armed.wait for armed in self.armed.values())
        return next((wait for wait in waits if wait.limit_at is not None and wait.limit_at <= now), None)

    def _next_due(self) -> Instant | None:
        while self.deadlines and self.deadlines[0][2].future.done():
            heapq.heappop(self.deadlines)
        return self.deadlines[0][0] if self.deadlines else None

    # --- the set of waits ---

    @property
    def all(self) -> list[Wait]:
        """What the code waits for now."""
        return [armed.wait for armed in self.armed.values()]

    @property
    def are_timed(self) -> bool:
        """Whether only time can end all of them."""
        return all(armed.wait.kind in _TIMED for armed in self.armed.values())

    @property
    def has_new(self) -> bool:
        """Whether the code waits for something that is not stored yet: storing a wait fixes its deadline."""
        return bool(self.armed) and any(
            armed.wait not in self.stored and not armed.is_derived for armed in self.armed.values()
        )

    def take_changed(self) -> tuple[Wait, ...] | None:
        """All waits, if they differ from the stored ones; None otherwise. They count as stored from now on."""
        waits = tuple(armed.wait for armed in self.armed.values())
        stored = frozenset(waits)
        if stored == self.stored:
            return None
        self.stored = stored
        return waits
