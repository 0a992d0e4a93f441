"""Wait for signals, one or many, with a deadline."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from stepwell.clock import Duration, Instant, Span, span, to_datetime, to_instant
from stepwell.codec.addressed import rebind_signal
from stepwell.errors import InvalidInputError, InvalidOptionError, StoreError, WaitTimeout
from stepwell.ids import CONTINUED, RunId, derived_run_id
from stepwell.model.entries import Entry
from stepwell.model.failures import encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.runs import Run
from stepwell.model.signals import Reply, ReplyStatus, Signal
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.redaction import redact
from stepwell.replay.headers import pack, unpack
from stepwell.replay.operations import Operation
from stepwell.replay.primitives.reply import Asked, check_answered, refusal, send_reply
from stepwell.replay.recorded_values import decode_value, stopped
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import SignalSelection
from stepwell.replay.turn import Turn

T = TypeVar("T", covariant=True)

NO_DEFAULT: Final = object()
_ANY: Final = SignalSelection()


@dataclass(frozen=True, slots=True)
class Message(Generic[T]):
    """A signal that was received or seen. If its sender waits for an answer, call `reply` or `refuse`."""

    name: str
    payload: T
    sent_at: datetime
    _asked: Asked | None = field(default=None, repr=False, compare=False)

    @property
    def wants_reply(self) -> bool:
        """Whether its sender waits for an answer (`engine.ask`)."""
        return self._asked is not None

    def reply(self, value: Any = None) -> Operation[None]:
        """Answer the sender; durable with the run's next commit. If no sender waits, nothing happens.

        Raises `ReplyTwiceError` if the message has been answered or refused already.
        """
        return _nothing() if self._asked is None else self._asked.reply(value)

    def refuse(self, reason: str) -> Operation[None]:
        """Answer the sender with a refusal: `engine.ask` raises `AskRefused` with this reason."""
        return _nothing() if self._asked is None else self._asked.refuse(reason)


class Due(NamedTuple):
    """When a wait times out: after a span from its first visit, at an instant, or never."""

    within: Span | None = None
    until: Instant | None = None

    def at(self, now: Instant) -> Instant | None:
        """The deadline of a wait that begins now."""
        return self.until if self.within is None else Instant(now + self.within)


_NEVER = Due()


def due_of(timeout: Duration | None, until: datetime | None) -> Due:
    """The deadline of a receive. Raises `InvalidOptionError` if both are given."""
    if timeout is not None and until is not None:
        raise InvalidOptionError(
            "a receive has both timeout and until", why="each of them is a deadline", fix="leave out one of them"
        )
    if until is not None:
        return Due(until=to_instant(until, what="until"))
    return Due(None if timeout is None else span(timeout, what="timeout"))


def check_default(default: object, due: Due) -> None:
    """Reject a default that could never be used."""
    if default is not NO_DEFAULT and due == _NEVER:
        raise InvalidOptionError(
            "a receive has a default and no deadline",
            why="the default is used at the deadline, and without one the receive waits until a signal arrives",
            fix="add timeout= or until=",
        )


async def run_receive(
    scope: Scope, location: Location, entry: Entry | None, wanted: SignalSelection, due: Due, default: Any = NO_DEFAULT
) -> Any:
    """The oldest pending signal of these names; at the deadline the default, or `WaitTimeout`."""
    turn = scope.turn
    check_answered(scope)
    if entry is None:
        signals = await _arrivals(scope, location, wanted, due, limit=1)
        if signals:
            entry = _record_one(scope, location, signals[0], due)
        else:
            failure = encode_failure(record_failure(WaitTimeout(turn.journal.names.text(location))))
            entry = turn.journal.record(location, EntryKind.RECEIVE, EntryStatus.FAILED, failure, turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    if entry.status is EntryStatus.FAILED:
        if default is not NO_DEFAULT:
            return default
        raise WaitTimeout(turn.journal.names.text(location))
    return read_messages(scope, location, entry.value, wanted)[0]


async def receive_unchecked(
    scope: Scope, location: Location, entry: Entry | None, wanted: SignalSelection
) -> Message[Any]:
    """The same without a deadline, for code that may receive while other messages are not answered yet."""
    turn = scope.turn
    if entry is None:
        [signal] = await _arrivals(scope, location, wanted, _NEVER, limit=1)
        entry = _record_one(scope, location, signal, _NEVER)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    return read_messages(scope, location, entry.value, wanted)[0]


async def run_receive_many(
    scope: Scope, location: Location, entry: Entry | None, wanted: SignalSelection, count: int, due: Due
) -> list[Message[Any]]:
    """As many pending signals as there are, at least one and at most `count`; none at the deadline."""
    turn = scope.turn
    check_answered(scope)
    if entry is None:
        signals = await _arrivals(scope, location, wanted, due, limit=count)
        entry = _record(scope, location, EntryKind.RECEIVE_MANY, signals)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    return read_messages(scope, location, entry.value, wanted, are_many=True)


async def _arrivals(scope: Scope, location: Location, wanted: SignalSelection, due: Due, *, limit: int) -> list[Signal]:
    turn, names = scope.turn, wanted.names
    stored = turn.journal.find_wait(location, WaitKind.SIGNAL)
    due_at = due.at(turn.now) if stored is None else stored.due_at
    while True:
        first = await turn.wait(location, WaitKind.SIGNAL, due_at, names)
        if not isinstance(first, Signal):
            return []
        arrived = [first, *turn.mailbox.take_signals(names, limit - 1, location)]
        fitting = [signal for signal in arrived if fits(scope, location, signal, wanted)]
        if fitting:
            return fitting


def fits(scope: Scope, location: Location, signal: Signal, wanted: SignalSelection) -> bool:
    """Whether the payload of a signal fits the type that the receiver declares.

    A signal that does not fit never reaches the code: it is rejected and kept for an operator, and a sender that waits
    for an answer gets a refusal.
    """
    typed, turn = wanted.typed.get(signal.name), scope.turn
    if typed is None:
        return True
    payload = _own_copy(turn, location, 0, signal)
    try:
        value = turn.codec.decode(
            payload, typed.hint, place=lambda: turn.place(location, "the signal", field=_field(0))
        )
        reason = typed.find_problem(value)
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error
    except InvalidInputError as error:
        reason = f"{error.title}: {error.why}"
    if reason is None:
        return True
    reason = redact(reason)
    turn.mailbox.drop_signal(signal)
    turn.journal.refuse(signal.number, reason)
    if signal.ask_id is not None:
        send_reply(turn, signal.ask_id, Reply(signal.number, ReplyStatus.REFUSED, refusal(signal.name, reason)))
    return False


async def _done() -> None:
    return None


def _nothing() -> Any:
    """What `reply` returns if no sender waits for an answer."""
    return _done()


def _record(scope: Scope, location: Location, kind: EntryKind, signals: list[Signal]) -> Entry:
    value = write_messages(scope, location, signals)
    return scope.turn.journal.record(location, kind, EntryStatus.DONE, value, scope.turn.now)


def _record_one(scope: Scope, location: Location, signal: Signal, due: Due) -> Entry:
    """Record the receipt of one signal.

    If nothing else could have arrived, a replay receives the same signal: it is the oldest pending one, and new ones
    are younger. Not with a deadline, which could pass first, nor for a question, whose sender learns that it was read.
    """
    turn = scope.turn
    if due != _NEVER or signal.ask_id is not None or turn.has_rivals:
        return _record(scope, location, EntryKind.RECEIVE, [signal])
    return turn.journal.record_receipt(location, write_messages(scope, location, [signal]), turn.now)


def write_messages(scope: Scope, location: Location, signals: list[Signal]) -> bytes:
    """Received signals as they are stored. The commit that carries them consumes the signals."""
    for signal in signals:
        scope.turn.journal.consume(signal.number)
    return copy_messages(scope, location, signals)


def copy_messages(scope: Scope, location: Location, signals: list[Signal]) -> bytes:
    """Seen signals as they are stored."""
    payloads = [_own_copy(scope.turn, location, number, signal) for number, signal in enumerate(signals)]
    header = [_heading(signal, len(payload)) for signal, payload in zip(signals, payloads, strict=True)]
    return pack(header, b"".join(payloads))


def _heading(signal: Signal, size: int) -> list[Any]:
    asked = [] if signal.ask_id is None else [signal.number, signal.ask_id]
    return [signal.name, signal.sent_at, *asked, size]


def _own_copy(turn: Turn, location: Location, number: int, signal: Signal) -> bytes:
    """A signal's payload as it is stored in this run's history."""
    try:
        return rebind_signal(
            turn.codec,
            signal.payload,
            name=signal.name,
            targets=lambda target: is_meant(target, turn.run),
            to=lambda: turn.place(location, "the signal", field=_field(number)),
        )
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error


def _field(number: int) -> str:
    return f"signal {number}"


def is_meant(target: str, run: Run) -> bool:
    """Whether a target means this run, or a run that it continues."""
    if target in (run.run_id, run.key):
        return True
    following = RunId(target)
    for _ in range(run.generation - 1):
        following = derived_run_id(following, CONTINUED)
        if following == run.run_id:
            return True
    return False


def read_messages(
    scope: Scope, location: Location, value: bytes, wanted: SignalSelection = _ANY, *, are_many: bool = False
) -> list[Message[Any]]:
    """The messages that `write_messages` stored, typed as the receiver declares."""
    header, payloads = unpack(value)
    messages, at = [], 0
    for number, (name, sent_at, *asked, size) in enumerate(header):
        stored, typed = payloads[at : at + size], wanted.typed.get(name)
        hint = Any if typed is None else typed.hint
        payload = decode_value(scope.turn, location, stored, hint, "the signal", field=_field(number))
        answer = None
        if asked:
            reply_hint = Any if typed is None else typed.reply_hint
            index = number if are_many else None
            answer = Asked(scope, location, index, name, asked[0], asked[1], reply_hint)
        messages.append(Message(name, payload, to_datetime(Instant(sent_at)), answer))
        at += size
    return messages
