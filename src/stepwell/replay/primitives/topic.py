"""Wait for an event of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from stepwell.clock import Instant, Span
from stepwell.codec.facets import facets_wanted
from stepwell.codec.published import rebind_event
from stepwell.errors import InvalidOptionError, StoreError, WaitTimeout
from stepwell.model.entries import Entry
from stepwell.model.events import IncomingEvent
from stepwell.model.failures import encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.model.topics import Event, topic_of
from stepwell.model.waits import Since
from stepwell.replay.headers import pack, unpack
from stepwell.replay.recorded_values import decode_value, stopped
from stepwell.replay.scopes import Scope
from stepwell.replay.waits import Arrival

E = TypeVar("E")
T = TypeVar("T", bound=Event)


@dataclass(frozen=True, slots=True)
class EventAwaited(Generic[E]):
    """An event of a topic."""

    topic: str
    hint: Any
    where: Mapping[str, Any] | None
    since: Since


@overload
def topic(topic: type[T], *, where: Mapping[str, Any] | None = None, since: Since = "wait") -> EventAwaited[T]: ...
@overload
def topic(topic: str, *, where: Mapping[str, Any] | None = None, since: Since = "wait") -> EventAwaited[Any]: ...
def topic(topic: Any, *, where: Mapping[str, Any] | None = None, since: Since = "wait") -> EventAwaited[Any]:
    """For `ctx.wait_any`: an event of this topic; see `Context.topic`."""
    name, hint = topic_of(topic)
    if since not in ("wait", "start", "all"):
        raise InvalidOptionError(f"since is {since!r}", where=f"topic {name}", fix='use "wait", "start" or "all"')
    return EventAwaited(name, hint, where, since)


async def run_topic(
    scope: Scope, location: Location, entry: Entry | None, awaited: EventAwaited[E], timeout: Span | None
) -> E:
    """The event. Raises `WaitTimeout` at the deadline."""
    turn = scope.turn
    if entry is None:
        stored = turn.journal.find_wait(location, WaitKind.TOPIC)
        if stored is not None:
            due_at = stored.due_at
        else:
            due_at = None if timeout is None else Instant(turn.now + timeout)
        arrival = await await_event(scope, location, awaited, due_at)
        if isinstance(arrival, IncomingEvent):
            value = write_event(scope, location, arrival)
            entry = turn.journal.record(location, EntryKind.TOPIC, EntryStatus.DONE, value, turn.now)
        else:
            failure = encode_failure(record_failure(WaitTimeout(turn.journal.names.text(location))))
            entry = turn.journal.record(location, EntryKind.TOPIC, EntryStatus.FAILED, failure, turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    if entry.status is EntryStatus.FAILED:
        raise WaitTimeout(turn.journal.names.text(location))
    event: E = read_event(scope, location, entry.value, awaited.hint)
    return event


async def await_event(scope: Scope, location: Location, awaited: EventAwaited[Any], due_at: Instant | None) -> Arrival:
    """Wait for the event, without recording it."""
    turn = scope.turn
    facets = facets_wanted(turn.codec, awaited.topic, awaited.where, awaited.hint)
    return await turn.wait(location, WaitKind.TOPIC, due_at, (awaited.topic,), facets, awaited.since)


def write_event(scope: Scope, location: Location, event: IncomingEvent) -> bytes:
    """A received event as it is stored. The commit that carries it removes the event from the inbox."""
    turn = scope.turn
    try:
        payload = rebind_event(
            turn.codec,
            event.payload,
            topic=event.topic,
            event_id=event.event_id,
            to=lambda: turn.place(location, "the event", field="event"),
        )
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error
    turn.mailbox.share(event)
    turn.journal.receive_event(event.number)
    return pack([event.topic, event.event_id], payload)


def read_event(scope: Scope, location: Location, value: bytes, hint: Any) -> Any:
    """The event that `write_event` stored."""
    _, payload = unpack(value)
    return decode_value(scope.turn, location, payload, hint, "the event", field="event")
