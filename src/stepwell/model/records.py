"""Records: small documents that people keep, such as saved views and triggers. A store does not know what they mean."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.locations import Location
from stepwell.model.runs import Claimed, NewRun
from stepwell.model.signals import Delivered, NewSignal

KIND_MAX: Final = 40  # characters
ID_MAX: Final = 200
STATE_MAX: Final = 40
VERB_MAX: Final = 40
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


class NewRecordEvent(NamedTuple):
    """A line of a record's history, to append."""

    verb: str
    by: str = ""
    data: bytes = b""


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
    # The consequences. A signal whose target has no active run is kept as a refused signal of the ended run with that
    # id (or the newest run with that key), and without such a run it is held under the target.
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
    delivered: tuple[Delivered, ...] = ()  # of the signals; empty if the change is repeated
    started: tuple[RunId, ...] = ()  # the new runs among `starts`; empty if the change is repeated
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


# The event that the store appends when it closes a record with its run. It has no author and no data.
CLOSED_WITH_RUN: Final = NewRecordEvent("closed_with_run")
