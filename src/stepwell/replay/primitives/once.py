"""A local value that is computed once and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.codec.signatures import hints_of
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.recorded_values import decode_recorded, settle_value
from stepwell.replay.scopes import Scope


async def run_once(scope: Scope, location: Location, entry: Entry | None, producer: Callable[[], Any]) -> Any:
    """The recorded value; if there is none, the value that the producer returns now."""
    turn = scope.turn
    hint = hints_of(producer).returns
    if entry is None:
        await turn.order.reach_end()
        turn.loop.is_recording = True
        try:
            value = producer()
        finally:
            turn.loop.is_recording = False
        stored, _ = settle_value(turn, value, hint, lambda: turn.place(location, "the value"))
        entry = turn.journal.record(location, EntryKind.ONCE, EntryStatus.DONE, stored, turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    return decode_recorded(turn, entry, hint)
