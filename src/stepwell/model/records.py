"""Records: small documents that people keep, such as saved views and triggers. A store does not know what they mean."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.locations import Location, why_not_text
from stepwell.model.runs import Claimed, NewRun
from stepwell.model.signals import RESERVED, Delivered, NewSignal

KIND_MAX: Final = 40  # characters
ID_MAX: Final = 200
STATE_MAX: Final = 40
VERB_MAX: Final = 40
AUTHOR_MAX: Final = 200
LABEL_MAX: Final = 200
LABELS_MAX: Final = 64  # of one record
DUE_MAX: Final = Instant(253_402_300_799_999_999)  # the last microsecond of the year 9999

RecordOrder = Literal["newest", "oldest", "due"]


class NewRecord(NamedTuple):
    """A record as it is to be: all of it except what the store adds.

    A record is open until it is closed. A closed record is never due, is not closed again with its run, and may be
    pruned. A change may open it again.
    """

    kind: str
    record_id: str  # unique within the kind
    state: str
    body: bytes
    labels: tuple[str, ...] = ()  # sorted, without repetitions
    due_at: Instant | None = None  # when a service looks at it
    is_open: bool = True
    # The state in which it is closed when its run ends or no longer needs it. None: it stays as it is.
    end_state: str | None = None


class Record(NamedTuple):
    """A stored record."""

    number: int  # orders all records by their creation; never used twice
    kind: str
    record_id: str
    version: int  # 1 when it is created, +1 with every change
    state: str
    labels: tuple[str, ...]
    due_at: Instant | None  # None also if it is closed
    is_open: bool
    end_state: str | None
    run_id: RunId | None  # the run that opened it
    location: Location | None  # the place in that run
    body: bytes
    created_at: Instant
    updated_at: Instant

    @property
    def damage(self) -> str:
        """Why the row cannot be read; empty if it can."""
        return ""


class DamagedRecord(Record):
    """The readable part of a listed record whose row is damaged. It is shown, and never stored."""

    trouble: str = ""

    @property
    def damage(self) -> str:
        """Why the row cannot be read."""
        return self.trouble


class NewRecordEvent(NamedTuple):
    """A line of a record's history, to append."""

    verb: str
    by: str = ""
    data: bytes = b""
    # The earlier events of the record with this verb are removed: for what happens again and again for years.
    replaces: bool = False


class RecordEvent(NamedTuple):
    """A line of a record's history. It never changes."""

    number: int  # 1, 2, 3 … within the record
    at: Instant
    by: str
    verb: str
    version: int  # of the record after the change
    data: bytes


class RecordChange(NamedTuple):
    """A change of one record, made from a version of it. It happens as a whole, with its consequences, or not at all.

    Its first event carries `change_id`, by which a repeated change is recognised; so it has at least one event.
    """

    change_id: str  # used for this change only
    expected: int  # the version that it was made from; 0: there is no such record yet
    record: NewRecord
    events: tuple[NewRecordEvent, ...]
    # The consequences: the runs are started, then the signals are delivered. No signal is lost: if its target has no
    # active run, the ended run with that id (the last of its chain), or the ended run with that key that was created
    # last, keeps it as a refused signal, for the reason `AFTER_END`. Without such a run it is held under the target.
    signals: tuple[NewSignal, ...] = ()
    starts: tuple[NewRun, ...] = ()


class ChangeOutcome(StrEnum):
    """What became of a change."""

    CHANGED = "changed"
    STALE = "stale"  # the record has another version: nothing was written


class Changed(NamedTuple):
    """The answer to one change."""

    outcome: ChangeOutcome
    version: int  # of the record now; 0: there is no such record
    # Of the signals; empty if the change is repeated. MISSING with a run: that run has ended, and keeps it.
    delivered: tuple[Delivered, ...] = ()
    started: tuple[RunId, ...] = ()  # the runs that this change created; empty if it is repeated
    claimed: tuple[Claimed, ...] = ()  # runs claimed for the claimant in the same transaction


class RecordOpening(NamedTuple):
    """A record that a run opens with its commit. A record with this kind and id that exists already stays as it is."""

    location: Location
    record: NewRecord
    events: tuple[NewRecordEvent, ...]


class RecordClosing(NamedTuple):
    """A record that a run closes with its commit. A record that is closed already, or is not the run's, stays as it
    is.
    """

    kind: str
    record_id: str
    state: str
    event: NewRecordEvent


class RecordFilter(NamedTuple):
    """Which records to list or count."""

    kind: str
    states: tuple[str, ...] = ()  # empty: any
    labels: tuple[str, ...] = ()  # it has all of them; put the rarest first, because its records are read
    is_open: bool | None = None  # None: either
    run_id: RunId | None = None
    due_before: Instant | None = None
    order: RecordOrder = "newest"  # "due" lists only records that have a due time, the earliest first


class RecordsSeen(NamedTuple):
    """What a decision was made from: the open records of a kind that have a label, with their versions."""

    kind: str
    label: str
    versions: tuple[tuple[str, int], ...] = ()  # ids and versions, sorted


# The event that the store appends when it closes a record with its run. It has no author and no data.
CLOSED_WITH_RUN: Final = NewRecordEvent("closed_with_run")

# Why an ended run keeps a signal that a change sent to it.
AFTER_END: Final = "it came after the end of the run"

_ANSWER: Final = f"{RESERVED}record "


def answer_name(record_id: str) -> str:
    """The name of the signal for which a run waits that has opened a record: only the change that closes it sends it.

    The id must be unique among the records of the run, whatever their kinds.
    """
    return _ANSWER + record_id


def awaited_record(names: Collection[str]) -> str | None:
    """The id of the record whose answer a wait for these signals waits for; None if it waits for other signals."""
    return next((name.removeprefix(_ANSWER) for name in names if name.startswith(_ANSWER)), None)


def check_change(change: RecordChange) -> None:
    """Raise `ValueError` for a change that no store takes."""
    if not change.change_id or not change.events:
        raise ValueError(f"a change of {change.record.kind} {change.record.record_id!r} needs an id and an event")
    for signal in change.signals:
        if signal.hold or signal.asks:
            raise ValueError(f"signal {signal.signal_id} of a change cannot have `hold` or `asks`")
    _check_text("the id of a change", change.change_id, ID_MAX)
    check_opening(change.record, change.events)


def check_opening(record: NewRecord, events: tuple[NewRecordEvent, ...]) -> None:
    """Raise `ValueError` for a record or an event that no store takes."""
    _check_text("a kind", record.kind, KIND_MAX)
    _check_text("an id", record.record_id, ID_MAX)
    for state in (record.state,) if record.end_state is None else (record.state, record.end_state):
        _check_text("a state", state, STATE_MAX)
    labels = record.labels
    if labels:
        if len(labels) > LABELS_MAX or tuple(sorted(set(labels))) != labels:
            raise ValueError(f"a record has at most {LABELS_MAX} labels, sorted and without repetitions")
        for label in labels:
            _check_text("a label", label, LABEL_MAX)
    if record.due_at is not None and not 0 <= record.due_at <= DUE_MAX:
        raise ValueError(f"{record.due_at} is no due time")
    for event in events:
        _check_event(event)


def check_closing(closing: RecordClosing) -> None:
    """Raise `ValueError` for the end of a record that no store takes."""
    _check_text("a state", closing.state, STATE_MAX)
    _check_event(closing.event)


def _check_event(event: NewRecordEvent) -> None:
    _check_text("a verb", event.verb, VERB_MAX)
    if event.by:
        _check_text("an author", event.by, AUTHOR_MAX)


def _check_text(what: str, text: str, length_max: int) -> None:
    if 0 < len(text) <= length_max and "\x00" not in text and (text.isascii() or why_not_text(text) is None):
        return
    raise ValueError(f"{what} has 1 to {length_max} characters, and none is NUL or half of a pair: {text!r:.80}")
