"""Wait for signals, one or many, with a deadline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stepwell.clock import Instant, Span, to_datetime
from stepwell.errors import WaitTimeout
from stepwell.model.entries import Entry
from stepwell.model.failures import encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.signals import Signal
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.packing import pack, unpack
from stepwell.replay.recorded import decode_value
from stepwell.replay.scopes import Scope


@dataclass(frozen=True, slots=True)
class Message:
    """A signal that was received."""

    name: str
    payload: Any
    sent_at: datetime


async def run_receive(
    scope: Scope, location: Location, entry: Entry | None, names: tuple[str, ...], timeout: Span | None
) -> Message:
    """The oldest pending signal of these names. Raises `WaitTimeout` at the deadline."""
    turn = scope.turn
    if entry is None:
        signals = await _arrivals(scope, location, names, timeout, limit=1)
        if signals:
            entry = _record(scope, location, EntryKind.RECEIVE, signals)
        else:
            failure = encode_failure(record_failure(WaitTimeout(turn.journal.names.text(location))))
            entry = turn.journal.record(location, EntryKind.RECEIVE, EntryStatus.FAILED, failure, turn.now)
    else:
        await turn.in_order(entry)
    scope.saw(entry)
    if entry.status is EntryStatus.FAILED:
        raise WaitTimeout(turn.journal.names.text(location))
    return read_messages(scope, location, entry.value)[0]


async def run_receive_many(
    scope: Scope, location: Location, entry: Entry | None, names: tuple[str, ...], count: int, timeout: Span | None
) -> list[Message]:
    """As many pending signals as there are, at least one and at most `count`; none at the deadline."""
    turn = scope.turn
    if entry is None:
        signals = await _arrivals(scope, location, names, timeout, limit=count)
        entry = _record(scope, location, EntryKind.RECEIVE_MANY, signals)
    else:
        await turn.in_order(entry)
    scope.saw(entry)
    return read_messages(scope, location, entry.value)


async def _arrivals(
    scope: Scope, location: Location, names: tuple[str, ...], timeout: Span | None, *, limit: int
) -> list[Signal]:
    turn = scope.turn
    stored = turn.stored_wait(location, WaitKind.SIGNAL)
    if stored is not None:
        due_at = stored.due_at
    else:
        due_at = None if timeout is None else Instant(turn.now + timeout)
    first = await turn.wait(location, WaitKind.SIGNAL, due_at, names)
    if not isinstance(first, Signal):
        return []
    return [first, *turn.take_signals(names, limit - 1)]


def _record(scope: Scope, location: Location, kind: EntryKind, signals: list[Signal]) -> Entry:
    value = write_messages(scope, signals)
    return scope.turn.journal.record(location, kind, EntryStatus.DONE, value, scope.turn.now)


def write_messages(scope: Scope, signals: list[Signal]) -> bytes:
    """What is stored of received signals; they are consumed in the commit that carries it."""
    for signal in signals:
        scope.turn.journal.consume(signal.number)
    header = [[signal.name, signal.sent_at, len(signal.payload)] for signal in signals]
    return pack(header, b"".join(signal.payload for signal in signals))


def read_messages(scope: Scope, location: Location, value: bytes) -> list[Message]:
    """The messages that `write_messages` stored."""
    header, payloads = unpack(value)
    messages, at = [], 0
    for name, sent_at, size in header:
        payload = decode_value(scope.turn, location, payloads[at : at + size], Any, "the signal")
        messages.append(Message(name, payload, to_datetime(Instant(sent_at))))
        at += size
    return messages
