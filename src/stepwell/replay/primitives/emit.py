"""Emit an event: it is published with the commit that records it, or not at all."""

from __future__ import annotations

from typing import Any

from stepwell.codec.base import Payload
from stepwell.errors import InvalidOptionError, StoreError
from stepwell.ids import EventId
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.outbox import OWN_PREFIX, Emit, check_event_name, derived_event_id
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.model.topics import Event, topic_of
from stepwell.replay.bodies import Body, emit_place
from stepwell.replay.headers import pack, unpack
from stepwell.replay.recorded_values import stopped
from stepwell.replay.scopes import Scope
from stepwell.replay.steps import Step
from stepwell.replay.turn import Turn


def name_and_payload(event: Any, payload: Any, workflow: str) -> tuple[str, Any]:
    """The name and the payload of an event to emit; a typed event has both. Our own workflows emit our own events."""
    if not isinstance(event, Event):
        return (event if workflow.startswith(OWN_PREFIX) else check_event_name(event)), payload
    name, _ = topic_of(type(event))
    if payload is not None:
        raise InvalidOptionError(
            f"ctx.emit got event {name!r}, which has its own payload, and another payload",
            where=name,
            fix='write ctx.emit(Paid(...)), or ctx.emit("paid", payload)',
        )
    return check_event_name(name), event


async def run_emit(scope: Scope, location: Location, entry: Entry | None, name: str, payload: Any) -> EventId:
    """Record the event, unless it is recorded already; returns its id. If the payload cannot be encoded, it raises and
    records nothing.
    """
    turn = scope.turn
    if entry is None:
        path = turn.journal.names.text(location)
        event_id = derived_event_id(turn.run.run_id, turn.journal.names.key(location))
        # First: it must fail at the same point of the code in a replay.
        stored = _encode(turn, path, event_id, payload)
        await turn.order.reach_end()
        turn.journal.emit(Emit(event_id, name, path, stored, turn.now))
        header = pack([name, event_id], b"")
        entry = turn.journal.record(location, EntryKind.EMIT, EntryStatus.DONE, header, turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    return EventId(unpack(entry.value)[0][1])


def _encode(turn: Turn, path: str, event_id: EventId, payload: Any) -> Payload:
    try:
        return turn.codec.encode(payload, place=emit_place(turn.run, path, event_id))
    except StoreError as error:
        raise stopped(turn, path, error) from error


def emits_of(turn: Turn, location: Location, body: Body, step: Step[..., Any], value: Any) -> list[Emit]:
    """The events of a step that has succeeded: those of its body in their order, then its result if it `emits`.

    Raises as `Codec.encode` does.
    """
    run, path, key, emits = turn.run, turn.journal.names.text(location), turn.journal.names.key(location), []
    for number, (name, plain) in enumerate(body.emitted):
        event_id = derived_event_id(run.run_id, key, number)
        sealed = turn.codec.seal(plain, place=emit_place(run, path, event_id))
        emits.append(Emit(event_id, name, path, sealed, turn.now))
    if step.options_.emits is not None:
        event_id = derived_event_id(run.run_id, key, len(emits))
        stored = turn.codec.encode(value, step.signature.returns, place=emit_place(run, path, event_id))
        emits.append(Emit(event_id, step.options_.emits, path, stored, turn.now))
    return emits
