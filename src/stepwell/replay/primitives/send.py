"""Tell another run something: a signal, a cancel, or an event for all that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from stepwell.clock import Duration, Span, span
from stepwell.codec.published import encode_event, event_place
from stepwell.errors import InvalidOptionError, StoreError
from stepwell.ids import EventId
from stepwell.model.entries import Entry
from stepwell.model.events import RETENTION, Deliver
from stepwell.model.locations import Location
from stepwell.model.messages import (
    CancelMessage,
    IfMissing,
    Message,
    PublishMessage,
    SignalMessage,
    encode_message,
    message_name,
)
from stepwell.model.outbox import Emit, derived_event_id
from stepwell.model.runs import check_text, normal_key
from stepwell.model.starts import FOREVER
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.model.topics import Event, topic_of
from stepwell.redaction import redact
from stepwell.replay.headers import pack
from stepwell.replay.recorded_values import stopped
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Signal, encode_payload, name_of
from stepwell.replay.turn import Turn

Make = Callable[[Turn, EventId], Message]


def signal_to(
    target: str, signal: str | Signal[Any], payload: Any, *, dedup_key: str | None, if_missing: IfMissing
) -> tuple[str, Make]:
    """The name of a signal, and how to make its message. Raises for invalid options."""
    name, to = name_of(signal), normal_key(target)
    if if_missing not in get_args(IfMissing):
        raise InvalidOptionError(
            f"if_missing is {if_missing!r}",
            where="ctx.signal",
            why="the code continues when the signal is recorded, before it is delivered",
            fix='use "hold" or "drop"',
        )
    if dedup_key is not None:
        check_text(dedup_key, "dedup_key")

    def make(turn: Turn, _: EventId) -> Message:
        stored = encode_payload(turn.codec, signal, payload, target=to)
        return SignalMessage(to, name, stored, dedup_key, if_missing)

    return name, make


def cancel_of(target: str, reason: str, *, compensate: bool) -> Make:
    """How to make the message of a cancel."""
    message = CancelMessage(normal_key(target), redact(reason), compensate)
    return lambda _, __: message


def publish_on(
    topic: str | Event | type[Event], payload: Any, *, deliver: Deliver, retain: Duration | bool | None
) -> tuple[str, Make]:
    """The topic of an event, and how to make its message. Raises for invalid options."""
    if isinstance(topic, Event):
        if payload is not None:
            raise InvalidOptionError(
                "an event and a payload were given",
                where=f"topic {type(topic).__name__}",
                fix="ctx.publish(Shipped(...)), or ctx.publish(Shipped, {...})",
            )
        payload, (name, hint) = topic, topic_of(type(topic))
    else:
        name, hint = topic_of(topic)
    if deliver not in get_args(Deliver):
        raise InvalidOptionError(f"deliver is {deliver!r}", where=f"topic {name}", fix='"all" or "one"')
    kept = read_retention(retain)

    def make(turn: Turn, event_id: EventId) -> Message:
        value = payload
        if hint is not Any:
            value = turn.codec.validate(payload, hint, place=event_place(name, event_id))
        stored = encode_event(turn.codec, value, hint, topic=name, event_id=event_id)
        return PublishMessage(name, stored, deliver, kept)

    return name, make


def read_retention(retain: Duration | bool | None) -> Span | None:
    """How long a topic keeps an event; None if it does not."""
    if retain is None or retain is False:
        return None
    if retain is True:
        return RETENTION
    kept = min(span(retain, what="retain"), FOREVER)
    if kept == 0:
        raise InvalidOptionError(f"retain: {retain!r} keeps nothing", fix="leave it out, or give a duration above 0")
    return kept


async def run_send(scope: Scope, location: Location, entry: Entry | None, kind: EntryKind, make: Make) -> None:
    """Send a message with the commit that records it, unless it is recorded already. If it cannot be encoded, this
    raises and records nothing.
    """
    turn = scope.turn
    if entry is None:
        path = turn.journal.names.text(location)
        event_id = derived_event_id(turn.run.run_id, turn.journal.names.key(location))
        # First: it must fail at the same point of the code in a replay.
        try:
            message = make(turn, event_id)
        except StoreError as error:
            raise stopped(turn, path, error) from error
        await turn.order.reach_end()
        turn.journal.emit(Emit(event_id, message_name(message), path, encode_message(message), turn.now))
        entry = turn.journal.record(location, kind, EntryStatus.DONE, pack([event_id], b""), turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
