"""Wait for signals, one or many, with a deadline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stepwell.clock import Instant, Span, to_datetime
from stepwell.codec.addressed import rebind_signal
from stepwell.errors import StoreError, WaitTimeout
from stepwell.ids import CONTINUED, RunId, derived_run_id
from stepwell.model.entries import Entry
from stepwell.model.failures import encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.runs import Run
from stepwell.model.signals import Signal
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.packing import pack, unpack
from stepwell.replay.recorded import decode_value, stopped
from stepwell.replay.scopes import Scope
from stepwell.replay.turn import Turn


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
    value = write_messages(scope, location, signals)
    return scope.turn.journal.record(location, kind, EntryStatus.DONE, value, scope.turn.now)


def write_messages(scope: Scope, location: Location, signals: list[Signal]) -> bytes:
    """What is stored of received signals; they are consumed in the commit that carries it."""
    payloads = [_own_copy(scope.turn, location, number, signal) for number, signal in enumerate(signals)]
    for signal in signals:
        scope.turn.journal.consume(signal.number)
    header = [[signal.name, signal.sent_at, len(payload)] for signal, payload in zip(signals, payloads, strict=True)]
    return pack(header, b"".join(payloads))


def _own_copy(turn: Turn, location: Location, number: int, signal: Signal) -> bytes:
    """A signal's payload as it is stored in this run's history."""
    try:
        return rebind_signal(
            turn.codec,
            signal.payload,
            name=signal.name,
            targets=lambda target: _means(target, turn.run),
            to=lambda: turn.place(location, "the signal", field=_field(number)),
        )
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error


def _field(number: int) -> str:
    return f"signal {number}"


def _means(target: str, run: Run) -> bool:
    """Whether a sender who named this target meant this run, or one that it continues."""
    if target in (run.run_id, run.key):
        return True
    following = RunId(target)
    for _ in range(run.generation - 1):
        following = derived_run_id(following, CONTINUED)
        if following == run.run_id:
            return True
    return False


def read_messages(scope: Scope, location: Location, value: bytes) -> list[Message]:
    """The messages that `write_messages` stored."""
    header, payloads = unpack(value)
    messages, at = [], 0
    for number, (name, sent_at, size) in enumerate(header):
        stored = payloads[at : at + size]
        payload = decode_value(scope.turn, location, stored, Any, "the signal", field=_field(number))
        messages.append(Message(name, payload, to_datetime(Instant(sent_at))))
        at += size
    return messages
