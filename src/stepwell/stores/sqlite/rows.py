"""Conversions between rows and the model, in one place."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwell.errors import CorruptRecordError
from stepwell.model.attributes import Attributes
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.events import IncomingEvent
from stepwell.model.holds import Hold
from stepwell.model.locations import Location
from stepwell.model.outbox import Owed
from stepwell.model.records import Record
from stepwell.model.runs import ChildOutcome, Parent, Previous, Ranges, Run
from stepwell.model.signals import Question, Reply, ReplyStatus, Signal
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.tags import Tags
from stepwell.model.waits import Wait
from stepwell.model.workers import Worker
from stepwell.stores.base.damage import UNREADABLE, corrupt, salvage
from stepwell.stores.sqlite.transaction import Row

# Dictionaries instead of calls: an enum's constructor costs several times as much, and histories are long.
_STATUSES = {status.value: status for status in RunStatus}
_KINDS = {kind.value: kind for kind in EntryKind}
_ENTRY_STATUSES = {status.value: status for status in EntryStatus}
_WAIT_KINDS = {kind.value: kind for kind in WaitKind}

# Positions of the fields that are stored in another form than in the model.
_STATUS, _PARENT, _PREVIOUS, _TAG_LIST, _HELD, _LOOSE, _ATTRIBUTE_LIST = map(
    Run._fields.index, ("status", "parent", "previous", "tags", "hold", "loose", "attributes")
)
_LABELS, _IS_OPEN = map(Record._fields.index, ("labels", "is_open"))
_END = 1 + len(Run._fields)  # the row's number comes first

_TEXTS = msgspec.json.Decoder(tuple[str, ...])
_TAGS = msgspec.json.Decoder(Tags)
_ATTRIBUTES = msgspec.json.Decoder(Attributes)
_RANGES = msgspec.json.Decoder(Ranges)
_HOLD = msgspec.json.Decoder(Hold)


def encode_texts(texts: tuple[str, ...] | list[str]) -> str:
    """A list of texts as JSON."""
    return msgspec.json.encode(texts).decode() if texts else "[]"


def decode_texts(stored: str) -> tuple[str, ...]:
    """A list of texts from JSON."""
    return _TEXTS.decode(stored) if stored != "[]" else ()


def to_status(stored: str) -> RunStatus:
    """A run's status."""
    return _STATUSES[stored]


def encode_hold(hold: Hold | None) -> str | None:
    """A hold as JSON."""
    return None if hold is None else msgspec.json.encode(hold).decode()


def decode_hold(stored: str | None) -> Hold | None:
    """A hold from JSON."""
    return None if stored is None else _HOLD.decode(stored)


def to_run(row: Row) -> Run:
    """A run from `{Run.* to row}`; further columns are ignored. Raises `CorruptRecordError`."""
    try:
        values = list(row[1:_END])
        values[_STATUS] = _STATUSES[values[_STATUS]]
        if values[_PARENT] is not None:
            location, detached, tied = row[_END : _END + 3]
            values[_PARENT] = Parent(values[_PARENT], location, bool(detached), bool(tied))
        if values[_PREVIOUS] is not None:
            values[_PREVIOUS] = Previous(values[_PREVIOUS], *row[_END + 3 : _END + 5])
        values[_TAG_LIST] = decode_tags(values[_TAG_LIST])
        values[_HELD] = decode_hold(values[_HELD])
        values[_LOOSE] = decode_ranges(values[_LOOSE])
        values[_ATTRIBUTE_LIST] = decode_attributes(values[_ATTRIBUTE_LIST])
        return Run._make(values)
    except UNREADABLE as error:
        raise corrupt(row[1], error) from error


def from_run(run: Run) -> dict[str, Any]:
    """The values of `{:Run.*}`, and those of the run's payloads under their column names."""
    parent = run.parent or (None, None, False, False)
    previous = run.previous or (None, None, None)
    return run._asdict() | {
        "status": run.status.value,
        "hold": encode_hold(run.hold),
        "loose": encode_ranges(run.loose),
        "tags": encode_tags(run.tags),
        "parent": parent[0],
        "parent_location": parent[1],
        "detached": int(parent[2]),
        "tied": int(parent[3]),
        "previous": previous[0],
        "previous_started_at": previous[1],
        "previous_finished_at": previous[2],
    }


def to_listed_run(row: Row) -> Run:
    """The same, but a row that cannot be read gives its readable fields."""
    try:
        return to_run(row)
    except CorruptRecordError as error:
        return salvage(row[1:], error)


def readable_values(row: Row) -> list[Any]:
    """The values of a row of `views.find_readable`."""
    return [spelled(row[0]), *row[1:3], spelled(row[3]), *row[4:]]


def spelled(digits: str) -> str:
    """A text from its bytes; invalid bytes are escaped."""
    return bytes.fromhex(digits).decode("utf-8", "backslashreplace")


def encode_tags(tags: Tags) -> str:
    """Tags as JSON; empty text for no tags."""
    return msgspec.json.encode(tags).decode() if tags else ""


def decode_tags(stored: str) -> Tags:
    """Tags from JSON."""
    return _TAGS.decode(stored) if stored else ()


def decode_attributes(stored: str) -> Attributes:
    """Attributes from JSON."""
    return _ATTRIBUTES.decode(stored) if stored != "[]" else ()


def encode_ranges(ranges: Ranges) -> str:
    """Ranges as JSON; empty text for no ranges."""
    return msgspec.json.encode(ranges).decode() if ranges else ""


def decode_ranges(stored: str) -> Ranges:
    """Ranges from JSON."""
    return _RANGES.decode(stored) if stored else ()


def to_entry(row: Row) -> Entry:
    """An entry."""
    seq, location, kind, status, value, at, took, attempts, undo, fingerprint = row
    status = _ENTRY_STATUSES[status]
    return Entry(seq, location, _KINDS[kind], status, value, at, took, attempts, undo, fingerprint)


def to_attempt(row: Row) -> Attempt:
    """An attempt."""
    return Attempt._make(row)


def to_cursor(row: Row) -> Cursor:
    """A cursor."""
    return Cursor._make(row)


def to_progress(row: Row) -> Progress:
    """The progress of a step body."""
    return Progress._make(row)


def to_wait(row: Row) -> Wait:
    """A wait."""
    location, kind, token, due_at, names, since, facets, limit_at = row
    what = (location, _WAIT_KINDS[kind], token, due_at, decode_texts(names))
    return Wait(*what, limit_at=limit_at) if since is None else Wait(*what, decode_texts(facets), since, limit_at)


def to_signal(row: Row) -> Signal:
    """A pending signal."""
    return Signal._make(row)


def to_question(row: Row) -> Question:
    """The state of a signal that asked for a reply."""
    run_id, run_status, is_read, number, status, value = row
    reply = None if number is None else Reply(number, ReplyStatus(status), value)
    return Question(run_id, None if run_status is None else _STATUSES[run_status], bool(is_read), reply)


def encode_locations(locations: tuple[Location, ...]) -> str:
    """A list of locations as JSON."""
    return encode_texts([location.hex() for location in locations])


def to_event(row: Row) -> IncomingEvent:
    """An event in an inbox."""
    number, event_id, topic, payload, facets, published_at, locations = row
    places = tuple(Location(bytes.fromhex(place)) for place in decode_texts(locations))
    return IncomingEvent(number, event_id, topic, payload, decode_texts(facets), published_at, places)


def to_owed(row: Row) -> Owed:
    """An event that a sink has not received yet."""
    return Owed._make(row)


def to_record(row: Row) -> Record:
    """A record from `{Record.*}`."""
    values = list(row)
    values[_LABELS], values[_IS_OPEN] = decode_texts(values[_LABELS]), bool(values[_IS_OPEN])
    return Record._make(values)


def to_outcome(row: Row) -> ChildOutcome:
    """The outcome of a child."""
    location, run_id, status, output, failure = row
    return ChildOutcome(location, run_id, _STATUSES[status], output, failure)


def to_worker(row: Row) -> Worker:
    """A worker, from a row that begins with its number."""
    _, incarnation, name, started_at, lease_until, definitions = row
    return Worker(incarnation, name, started_at, lease_until, decode_texts(definitions))
