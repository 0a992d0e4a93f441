"""Open a record, and wait for the answer of the change that closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwell.clock import Instant
from stepwell.codec.base import ANY
from stepwell.ids import derived_run_id
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.records import NewRecord, NewRecordEvent, RecordClosing, RecordOpening, answer_name, awaited_record
from stepwell.model.signals import Signal
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.headers import unpack
from stepwell.replay.primitives.receive import write_messages
from stepwell.replay.recorded_values import decode_value
from stepwell.replay.scopes import Scope


@dataclass(frozen=True, slots=True)
class RecordAwaited:
    """A record that a run opens at a place, and that people or services close.

    It needs an `end_state`: it is closed with its run, and with the code that waits for it. There is no timeout here. A
    record that must not stay open for ever has a due time, and the service of its kind closes it then, with an answer
    that says so. So the first change decides: what a person was told is what the code gets.
    """

    kind: str
    make: Callable[[str, Instant], NewRecord]  # the record, of its id and the time
    opened: NewRecordEvent
    withdrawn: NewRecordEvent  # when the code no longer waits for it
    withdrawn_state: str


async def run_record(
    scope: Scope, location: Location, entry: Entry | None, awaited: RecordAwaited, hint: Any = ANY
) -> Any:
    """The answer of the change that closed the record. Cancelling this closes the record."""
    turn = scope.turn
    if entry is None:
        answer = await _answer(scope, location, awaited)
        value = write_messages(scope, location, [answer])
        entry = turn.journal.record(location, EntryKind.RECORD, EntryStatus.DONE, value, turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    _, payload = unpack(entry.value)
    return decode_value(turn, location, payload, hint, "the answer", field="signal 0")


async def _answer(scope: Scope, location: Location, awaited: RecordAwaited) -> Signal:
    turn = scope.turn
    stored = turn.journal.find_wait(location, WaitKind.SIGNAL)
    record_id = None if stored is None else awaited_record(stored.names)
    if record_id is None:
        record_id = _new_id(scope, location)
        record = awaited.make(record_id, turn.now)
        turn.journal.open_record(RecordOpening(location, record, (awaited.opened,)))
    try:
        arrival = await turn.wait(location, WaitKind.SIGNAL, None, (answer_name(record_id),))
    except asyncio.CancelledError:
        if not turn.is_closed and turn.problem is None:
            closing = RecordClosing(awaited.kind, record_id, awaited.withdrawn_state, awaited.withdrawn)
            turn.journal.close_record(closing)
        raise
    assert isinstance(arrival, Signal)
    return arrival


def _new_id(scope: Scope, location: Location) -> str:
    """The id of the record that this claim opens here.

    A later claim opens another one here only if this one was not stored, or was closed with a failure or a rewind.
    """
    turn = scope.turn
    return derived_run_id(turn.run.run_id, f"{turn.journal.names.key(location)}/~record{turn.run.epoch}")
