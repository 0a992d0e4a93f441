"""The timers of asyncio in workflow code: durable, at `timer`, `timer#2`, … of the scope that made them.

The deadline is a function of the results that reached the scope, so it is not stored before the run is released. An
entry is recorded only for a timer that fires; a replay passes it in the same order.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stepwell.clock import Instant
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.event_loop import Timer
from stepwell.replay.headers import pack

if TYPE_CHECKING:
    from stepwell.replay.scopes import Scope

NAME = "timer"


def arm_timer(scope: Scope, timer: Timer, due_at: Instant) -> None:
    """Call the callback of a timer when it is due, or where it was called the first time."""
    location, entry = scope.place_note(NAME, EntryKind.SLEEP)
    if entry is None:
        _arm(scope, timer, location, due_at)
    else:
        _expect(scope, timer, entry)


def _arm(scope: Scope, timer: Timer, location: Location, due_at: Instant) -> None:
    turn, armed_at = scope.turn, scope.time
    stored = turn.journal.find_wait(location, WaitKind.TIMER)
    if stored is not None and stored.due_at is not None:
        due_at = stored.due_at  # a person may have moved it
    armed = turn.arm(location, WaitKind.TIMER, due_at)

    def fire(future: asyncio.Future[Any]) -> None:
        turn.waits.end(armed)
        if _is_wanted(timer, future):
            took = max(0, turn.now - armed_at)
            value = pack([due_at], b"")
            entry = turn.journal.record(location, EntryKind.SLEEP, EntryStatus.DONE, value, turn.now, took)
            _call(scope, timer, entry)

    def disarm() -> None:
        turn.waits.end(armed)
        armed.future.cancel()

    timer.disarm = disarm
    armed.future.add_done_callback(fire, context=timer.context)


def _expect(scope: Scope, timer: Timer, entry: Entry) -> None:
    order = scope.turn.order
    reached = order.expect(entry)

    def fire(future: asyncio.Future[Any]) -> None:
        if _is_wanted(timer, future):
            order.pass_result(entry)
            _call(scope, timer, entry)

    def disarm() -> None:
        reached.cancel()

    timer.disarm = disarm
    reached.add_done_callback(fire, context=timer.context)


def _is_wanted(timer: Timer, future: asyncio.Future[Any]) -> bool:
    """Whether it is neither cancelled nor torn down with its turn."""
    return not (timer.is_cancelled or future.cancelled() or future.exception() is not None)


def _call(scope: Scope, timer: Timer, entry: Entry) -> None:
    timer.disarm = None
    scope.note_result(entry, uses_signals=False)
    timer.callback(*timer.args)
