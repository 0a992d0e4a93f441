"""Wait until a deadline, fixed at the first visit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from stepwell.clock import Instant, Span, to_datetime
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.headers import pack, unpack
from stepwell.replay.scopes import Scope


class Slept(NamedTuple):
    """When a sleep was due to end, and when it ended."""

    due_at: datetime
    woke_at: datetime


async def run_sleep(
    scope: Scope,
    location: Location,
    entry: Entry | None,
    due_of: Callable[[Instant], Instant],
    lasts: Span | None = None,
) -> Slept:
    """Sleep until the instant that `due_of` computes from the first visit; a past instant ends the sleep at once."""
    turn = scope.turn
    if entry is not None:
        await turn.order.reach(entry)
    else:
        stored = turn.journal.find_wait(location, WaitKind.TIMER)
        started_at = turn.now
        if stored is not None and stored.due_at is not None:
            due_at = stored.due_at
        else:
            due_at = due_of(turn.now)
        # Also if it is due already: results that were recorded earlier come first, as in a later replay.
        await turn.wait(location, WaitKind.TIMER, due_at)
        if lasts is not None:
            started_at = Instant(due_at - lasts)
        took = max(0, turn.now - started_at)
        entry = turn.journal.record(location, EntryKind.SLEEP, EntryStatus.DONE, pack([due_at], b""), turn.now, took)
    scope.note_result(entry)
    (due,), _ = unpack(entry.value)
    return Slept(to_datetime(Instant(due)), to_datetime(entry.at))
