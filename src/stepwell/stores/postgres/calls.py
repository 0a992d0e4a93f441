"""The functions of the database, as Python calls them: their parameters and results."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Generic, NamedTuple, NewType, TypeAlias, TypeVar, assert_never

import msgspec

from stepwell.clock import Instant
from stepwell.errors import CorruptRecordError
from stepwell.ids import Incarnation, RunId
from stepwell.model.amendments import Amended
from stepwell.model.attributes import AttributeKind
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release
from stepwell.model.entries import Entry
from stepwell.model.events import KeptEvent
from stepwell.model.events import Published as Publication
from stepwell.model.failures import key_taken
from stepwell.model.holds import HoldAct, WorkflowHold
from stepwell.model.ledger import Act, ChainHead, Reserved
from stepwell.model.live import Page, Published
from stepwell.model.outbox import Owed
from stepwell.model.records import Changed, ChangeOutcome, Record, RecordEvent, check_closing, check_opening
from stepwell.model.retention import RunFacts, Swept
from stepwell.model.runs import Claimed, Created, Debounced, History, Inbox, NewRun, Run
from stepwell.model.signals import Delivered, Question, Signal
from stepwell.model.states import RunStatus
from stepwell.model.workers import Renewed, Worker
from stepwell.stores.base.damage import (
    FIX,
    UNREADABLE,
    cause_of,
    corrupt,
    corrupt_record,
    salvage,
    salvage_claimed,
    salvage_record,
)
from stepwell.stores.base.overviews import (
    Histogram,
    Movement,
    Outline,
    Passage,
    PastEvent,
    SinkUse,
    Standing,
    Summary,
    TopicUse,
    WaitGroup,
)
from stepwell.stores.base.packed_items import TransferBatch
from stepwell.stores.base.transfers import Manifest, Seal
from stepwell.stores.base.views import (
    Audit,
    Detail,
    HeldSignal,
    StepProgress,
    Tally,
    UnfinishedCounts,
    UnreadSignal,
    UpcomingWork,
)
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.postgres.texts import SQL
from stepwell.stores.sql.shapes import BEHIND_ENTRIES

T = TypeVar("T")

Value = bytes | None
RunNumber = NewType("RunNumber", bytes)  # of a row in `runs`, as the driver sends it
Hints = tuple[tuple[HintKind, RunId], ...]

encode = msgspec.json.Encoder().encode


def base64(value: bytes) -> str:
    """Bytes in the encoding that the functions read."""
    return b64encode(value).decode()


def _json(value: Any) -> Value:
    return None if value is None else encode(value)


def _bigint(value: int | None) -> Value:
    return None if value is None else b"%d" % value


def _text(value: str | None) -> Value:
    return None if value is None else value.encode()


def _boolean(value: bool | None) -> Value:
    return None if value is None else b"t" if value else b"f"


_ENCODERS: dict[str, Callable[[Any], Value]] = {
    "jsonb": _json,
    "bigint": _bigint,
    "text": _text,
    "boolean": _boolean,
}


class Call(Generic[T]):
    """One function of the database. Every call also passes the time; see `values`."""

    __slots__ = ("_encoders", "_encrypted", "decode", "formats", "is_kept", "name", "placeholders", "text")

    def __init__(self, name: str, parameters: str, decode: Callable[[bytes], T]) -> None:
        types = parameters.split()
        self.name = name
        self.text: str | None = None  # of a statement that is not a function
        self.formats: list[int] | None = None  # of its parameters
        self.is_kept = True  # prepared in the server's session, because it is called again
        self.decode = decode
        self._encrypted: Call[T] | None = None
        self._encoders = tuple(_ENCODERS[one] for one in types)
        self.placeholders = ", ".join(f"${n}::{one}" for n, one in enumerate(("bigint", "bigint", *types), 1))

    @property
    def encrypted(self) -> Call[T]:
        """The same call for a handle whose values are encrypted."""
        if self.text is not None:
            return self  # it does not use `enter`, or it passes no values
        if self._encrypted is None:
            self._encrypted = copy(self)
            self._encrypted.name = f"{self.name} encrypted"
            self._encrypted.text = self.with_value_kind("encrypted")
        return self._encrypted

    def with_value_kind(self, values: str) -> str:
        """The statement that also declares the kind of the values, which `enter` reads."""
        declared = f"select set_config('stepwell.values', '{values}', true)"
        return f"with declared as materialized ({declared}) select {{f}}.{self.name}({self.placeholders}) from declared"

    def values(self, test_now: Instant | None, seen: Instant, arguments: Sequence[Any]) -> list[Value]:
        """The parameters for the driver: the time that a test sets, the latest instant seen, and the arguments."""
        return [
            _bigint(test_now),
            b"%d" % seen,
            *[encoder(argument) for encoder, argument in zip(self._encoders, arguments, strict=True)],
        ]


Transition: TypeAlias = Call[tuple[Instant, T, Hints]]


class Statement(Call[T]):
    """A single statement, where a function would cost too much. Its values are encoded already."""

    def __init__(self, name: str, formats: list[int], decode: Callable[[bytes], T]) -> None:
        super().__init__(name, "", decode)
        self.text = SQL[f"commits.{name}"]
        self.formats = formats


class Opening(NamedTuple):
    """What a store reads when it is opened."""

    now: Instant
    version: int  # of the tables
    identity: int  # of the database; it never changes


class OpeningQuery(Call[Opening]):
    """The query of `Opening`. It runs once, so it is not prepared."""

    def __init__(self) -> None:
        super().__init__("read_opening", "", msgspec.json.Decoder(Opening).decode)
        self.text = SQL["opening.read_opening"]
        self.is_kept = False


def _revision(answer: bytes) -> int | None:
    return int(answer) if answer else None


def _found(answer: bytes) -> tuple[int, RunNumber] | None:
    if not answer:
        return None
    revision, number = answer.split()
    return int(revision), RunNumber(number)


def transition(name: str, parameters: str, result: Any) -> Transition[Any]:
    """A function that writes. Its answer contains the time and the hints."""
    return Call(name, parameters, msgspec.json.Decoder(tuple[Instant, result, Hints]).decode)


def claiming(name: str, parameters: str, result: Any, salvaged: Any) -> Transition[Any]:
    """A transition whose answer contains claims. If a row cannot be read, the other claims are still returned:
    `salvaged` is `result` with undecoded claims, and the worker gets the readable fields of the damaged ones.
    """
    decode = msgspec.json.Decoder(tuple[Instant, result, Hints]).decode
    decode_rows = msgspec.json.Decoder(tuple[Instant, salvaged, Hints]).decode

    def read(answer: bytes) -> tuple[Instant, Any, Hints]:
        try:
            return decode(answer)
        except UNREADABLE:
            now, found, hints = decode_rows(answer)
        if isinstance(found, tuple):
            return now, (*found[:-1], [_claimed_one(row) for row in found[-1]]), hints
        return now, [_claimed_one(row) for row in found], hints

    return Call(name, parameters, read)


def _claimed_one(row: msgspec.Raw) -> Claimed:
    try:
        return _decode_claimed(row)
    except UNREADABLE as error:
        values = msgspec.json.decode(row)[0]
        sure = dict(zip(Run._fields, values, strict=False))
        return salvage_claimed(values, sure["epoch"], sure["owner"], error)


def valueless(name: str, parameters: str, result: Any) -> Transition[Any]:
    """A function that writes no value of a run, so a process without the encryption key may call it."""
    call = transition(name, parameters, result)
    call.text = call.with_value_kind("none")
    return call


def reading(name: str, parameters: str, result: Any) -> Call[Any]:
    """A function that only reads. It raises `CorruptRecordError` if a row holds invalid values."""
    decode = msgspec.json.Decoder(result).decode

    def read(answer: bytes) -> Any:
        try:
            return decode(answer)
        except UNREADABLE as error:
            raise CorruptRecordError("a stored row cannot be read", where=name, why=cause_of(error), fix=FIX) from error

    return Call(name, parameters, read)


_decode_runs = msgspec.json.Decoder(list[Run]).decode
_decode_claimed = msgspec.json.Decoder(Claimed).decode
_decode_found = msgspec.json.Decoder(list[Run | None]).decode
_decode_run = msgspec.json.Decoder(Run).decode
_decode_detail: Callable[[bytes], Detail | None] = msgspec.json.Decoder(Detail | None).decode
_decode_parts = msgspec.json.Decoder(
    tuple[msgspec.Raw, msgspec.Raw, msgspec.Raw, list[msgspec.Raw], msgspec.Raw]
).decode
_decode_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _listed(answer: bytes) -> list[Run]:
    """Runs; a row that cannot be read gives its readable fields."""
    try:
        return _decode_runs(answer)
    except UNREADABLE:
        return [_listed_one(row) for row in _decode_rows(answer)]


_decode_summaries = msgspec.json.Decoder(list[Summary]).decode
_decode_summary = msgspec.json.Decoder(Summary).decode


def _summaries(answer: bytes) -> list[Summary]:
    """Summaries; a row that cannot be read is left out."""
    try:
        return _decode_summaries(answer)
    except UNREADABLE:
        return [found for row in _decode_rows(answer) if (found := _summary(row)) is not None]


def _summary(row: msgspec.Raw) -> Summary | None:
    try:
        return _decode_summary(row)
    except UNREADABLE:
        return None


def _listed_one(row: msgspec.Raw) -> Run:
    try:
        return _decode_run(row)
    except UNREADABLE as error:
        return salvage(msgspec.json.decode(row), error)


def _found_runs(answer: bytes) -> list[Run | None]:
    """The requested runs. Raises `CorruptRecordError` for the first that cannot be read."""
    try:
        return _decode_found(answer)
    except UNREADABLE:
        for row in _decode_rows(answer):
            try:
                _decode_found(b"[%b]" % bytes(row))
            except UNREADABLE as error:
                raise corrupt(msgspec.json.decode(row)[0], error) from error
        raise


def _detail(answer: bytes) -> Detail | None:
    """A run with its complete record. A child whose row cannot be read gives its readable fields."""
    try:
        return _decode_detail(answer)
    except UNREADABLE as error:
        run, history, signals, children, events = _decode_parts(answer)
        trouble: Exception = error
        try:
            _decode_run(run)
            rest = _decode_detail(b"[%b,%b,%b,[],%b]" % tuple(map(bytes, (run, history, signals, events))))
        except UNREADABLE as own:
            trouble = own
        else:
            assert rest is not None
            return rest._replace(children=tuple(map(_listed_one, children)))
        raise corrupt(msgspec.json.decode(run)[0], trouble) from trouble


_decode_records = msgspec.json.Decoder(list[Record]).decode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_found_record: Callable[[bytes], Record | None] = msgspec.json.Decoder(Record | None).decode


def _listed_records(answer: bytes) -> list[Record]:
    """Records; a row that cannot be read gives its readable fields."""
    try:
        return _decode_records(answer)
    except UNREADABLE:
        return [_listed_record(row) for row in _decode_rows(answer)]


def _listed_record(row: msgspec.Raw) -> Record:
    try:
        return _decode_record(row)
    except UNREADABLE as error:
        number, kind, record_id, version, state, _, due_at, is_open, *_, created_at, updated_at = msgspec.json.decode(
            row
        )
        return salvage_record((number, kind, record_id, version, state, due_at, is_open, created_at, updated_at), error)


def _found_record(answer: bytes) -> Record | None:
    """The requested record. Raises `CorruptRecordError` if it cannot be read."""
    try:
        return _decode_found_record(answer)
    except UNREADABLE as error:
        found = _listed_record(msgspec.Raw(answer))
        raise corrupt_record(found.kind, found.record_id, found.damage) from error


_ChangedRows: TypeAlias = tuple[ChangeOutcome, int, tuple[Delivered, ...], tuple[RunId, ...], list[msgspec.Raw]]
_decode_changes = msgspec.json.Decoder(tuple[Instant, list[Changed], Hints]).decode
_decode_change_rows = msgspec.json.Decoder(tuple[Instant, list[_ChangedRows], Hints]).decode


def _changed(answer: bytes) -> tuple[Instant, list[Changed], Hints]:
    """The outcomes of changes. If a claimed row cannot be read, the worker gets its readable fields."""
    try:
        return _decode_changes(answer)
    except UNREADABLE:
        now, changed, hints = _decode_change_rows(answer)
        return now, [Changed(*one[:-1], tuple(map(_claimed_one, one[-1]))) for one in changed], hints


# The key for which a signal is held, or its run with its status and the reason of a refusal.
Undelivered: TypeAlias = tuple[str | None, RunId | None, RunStatus | None, str, Signal]
# A run that `rescue` could not free: id, epoch, stalls, latest place, and the failure that it rolls back for.
Poisoned: TypeAlias = tuple[RunId, int, int, str, bytes | None]
Revisions: TypeAlias = list[tuple[RunId, int]]
Moved: TypeAlias = list[tuple[RunId, int, bool]]  # with the revision, and whether the run is due already
AppliedAll: TypeAlias = tuple[Revisions, Moved, list[Applied]]
Rescued: TypeAlias = tuple[list[RunId], list[Poisoned]]
Rows: TypeAlias = list[msgspec.Raw]
DeliverResult: TypeAlias = tuple[list[Delivered], list[Claimed]]
DeliverOrCreateResult: TypeAlias = tuple[Created, Delivered, list[Claimed]]
PublishResult: TypeAlias = tuple[list[Publication], list[Claimed]]

# A time as the result: all runs are new, and were claimed at that time.
CREATE: Transition[list[Created] | Instant] = transition("create_runs", "jsonb jsonb", list[Created] | Instant)
CREATE_SINGLE: Transition[list[Created] | Instant] = transition("create_single", "jsonb jsonb", list[Created] | Instant)
DEBOUNCE: Transition[Debounced] = transition("debounce", "jsonb bigint bigint", Debounced)
CLAIM: Transition[list[Claimed]] = claiming("claim", "jsonb", list[Claimed], Rows)
APPLY: Transition[AppliedAll] = transition("apply", "jsonb jsonb jsonb jsonb jsonb", AppliedAll)
FINISH: Transition[AppliedAll] = transition("finish", "jsonb", AppliedAll)
ADVANCE: Call[Revisions] = reading("advance", "jsonb", Revisions)
# Location, value, undo and fingerprint are sent as bytes, everything else as text.
_ENTRY = [0, 1, 0, 0, 1, 0, 0, 0, 1, 1]
ADVANCE_ONE = Statement("advance_one", [0, 0, 0, 0, *_ENTRY], _found)
ADVANCE_KNOWN = Statement("advance_known", [0, 0, 0, *_ENTRY], _revision)
FIND_REFUSAL: Transition[Applied | None] = transition("find_refusal", "jsonb", Applied | None)
CANCEL: Transition[Cancelled] = valueless("cancel", "text boolean text text jsonb text", Cancelled)
PAUSE: Transition[bool] = valueless("pause", "text text text text", bool)
RESUME: Transition[bool] = valueless("resume", "text text boolean text", bool)
RESUME_ROLLBACK: Transition[bool] = valueless("resume_rollback", "text text text text text", bool)
RETRY: Transition[bool] = valueless("retry", "text text text", bool)
PAUSE_WORKFLOW: Transition[bool] = valueless("pause_workflow", "text text text text", bool)
RESUME_WORKFLOW: Transition[bool] = valueless("resume_workflow", "text text text", bool)
RESERVE: Transition[Reserved] = valueless("reserve", "text text text text bigint", Reserved)
SETTLE_REQUEST: Transition[None] = valueless("settle_request", "text text text", None)
NOTE_ACT: Transition[Act] = valueless("note_act", "text text text text text text text", Act)
AMEND: Transition[Amended] = transition("amend", "jsonb", Amended)
FORK: Transition[Created | None] = transition("fork", "jsonb", Created | None)
RESCUE: Transition[Rescued] = valueless("rescue", "bigint", Rescued)
QUARANTINE: Transition[bool] = valueless("quarantine", "text bigint bigint text", bool)
RELINQUISH: Transition[list[RunId]] = valueless("relinquish", "text jsonb", list[RunId])
REGISTER: Transition[Worker] = transition("register", "jsonb", Worker)
RENEW: Transition[Renewed] = transition("renew", "text bigint", Renewed)
RETIRE: Transition[None] = valueless("retire", "text", None)
DELIVER: Transition[DeliverResult] = claiming("deliver", "jsonb jsonb", DeliverResult, tuple[list[Delivered], Rows])
DELIVER_OR_CREATE: Transition[DeliverOrCreateResult] = claiming(
    "deliver_or_create", "jsonb jsonb jsonb", DeliverOrCreateResult, tuple[Created, Delivered, Rows]
)
REDELIVER: Transition[DeliverResult] = claiming("redeliver", "jsonb jsonb", DeliverResult, tuple[list[Delivered], Rows])
PUBLISH: Transition[PublishResult] = claiming("publish", "jsonb jsonb", PublishResult, tuple[list[Publication], Rows])
CHANGE_RECORDS: Transition[list[Changed]] = Call("change_records", "jsonb jsonb", _changed)
PRUNE_RECORDS: Transition[int] = valueless("prune_records", "text bigint bigint", int)
PRUNE_RUNS: Transition[list[bool]] = valueless("prune_runs", "jsonb boolean text text", list[bool])
SWEEP: Transition[Swept] = valueless("sweep", "text bigint bigint bigint", Swept)
DROP_BLOBS: Transition[int] = valueless("drop_blobs", "jsonb bigint bigint", int)
TAKE: Transition[list[tuple[Owed, ...]]] = transition("take", "text text bigint bigint jsonb", list[tuple[Owed, ...]])
SETTLE: Transition[list[bool]] = transition("settle", "text jsonb", list[bool])
REPLAY: Transition[int] = valueless("replay", "text text text text", int)
REPLAY_EDITED: Transition[int] = transition("replay", "text text text text", int)
DROP: Transition[int] = valueless("drop_event", "text text text text", int)
DROP_SIGNAL: Transition[bool] = valueless("drop_signal", "bigint text text", bool)
NOTIFY: Call[None] = reading("notify", "text jsonb", None)
STORE_BLOBS: Transition[None] = transition("store_blobs", "jsonb", None)
BEGIN_WORK: Transition[None] = transition("begin_work", "", None)
SEAL: Transition[Seal] = valueless("seal", "text text text bigint", Seal)
RELEASE: Transition[Seal] = valueless("release", "text", Seal)
UNSEAL: Transition[None] = valueless("unseal", "text text boolean", None)
RESTORE: Transition[bool] = transition("restore", "jsonb", bool)
UNPACK: Transition[None] = valueless("unpack", "text jsonb", None)

LOAD: Call[list[History]] = reading("load", "jsonb", list[History])
INBOX: Call[Inbox] = reading("inbox", "text", Inbox)
LIST_HOLDS: Call[list[WorkflowHold]] = reading("list_holds", "", list[WorkflowHold])
LIST_HOLD_ACTS: Call[list[HoldAct]] = reading("list_hold_acts", "bigint", list[HoldAct])
LIST_ACTS: Call[list[Act]] = reading("list_acts", "bigint bigint", list[Act])
FIND_HEAD: Call[ChainHead] = reading("find_head", "", ChainHead)
NEXT_DUE: Call[Instant | None] = reading("next_due", "text", Instant | None)
LIST_OWED: Call[list[Owed]] = reading("list_owed", "boolean bigint bigint", list[Owed])
DUE_RECORDS: Call[list[Record]] = Call("due_records", "jsonb bigint", _listed_records)
NEXT_DUE_RECORD: Call[Instant | None] = reading("next_due_record", "jsonb", Instant | None)
FIND_RECORD: Call[Record | None] = Call("find_record", "text text", _found_record)
LIST_RECORDS: Call[list[Record]] = Call("list_records", "jsonb bigint bigint bigint", _listed_records)
COUNT_RECORDS: Call[int] = reading("count_records", "jsonb bigint", int)
LIST_RECORD_EVENTS: Call[list[RecordEvent]] = reading(
    "list_record_events", "text text bigint bigint", list[RecordEvent]
)
LIST_ENDED: Call[list[RunFacts]] = reading("list_ended", "bigint bigint bigint text", list[RunFacts])
LIST_RELATIVES: Call[list[RunFacts]] = reading("list_relatives", "jsonb jsonb", list[RunFacts])
HAS_OLD_BLOBS: Call[bool] = reading("has_old_blobs", "bigint", bool)
LIST_UNUSED_BLOBS: Call[list[str]] = reading("list_unused_blobs", "bigint", list[str])
READ_BLOB: Call[bytes | None] = reading("read_blob", "text", bytes | None)
OPENING = OpeningQuery()
FIND_MANY: Call[list[Run | None]] = Call("find_many", "jsonb", _found_runs)
FIND_BY_PREFIX: Call[list[RunId]] = reading("find_by_prefix", "text bigint", list[RunId])
DETAIL: Call[Detail | None] = Call("detail", "text", _detail)
LIST_PUBLISHED: Call[list[Published]] = reading("list_published", "text", list[Published])
LIST_STREAMS: Call[list[str]] = reading("list_streams", "text", list[str])
READ_STREAM: Call[Page] = reading("read_stream", "text text bigint bigint", Page)
LIST_PROGRESS: Call[list[list[StepProgress]]] = reading("list_progress", "jsonb", list[list[StepProgress]])
LIST_RUNS: Call[list[Run]] = Call("list_runs", "jsonb bigint text", _listed)
COUNT_RUNS: Call[int] = reading("count_runs", "jsonb bigint", int)
LIST_WORKERS: Call[list[Worker]] = reading("list_workers", "", list[Worker])
LIST_HELD: Call[list[HeldSignal]] = reading("list_held", "bigint text", list[HeldSignal])
LIST_UNREAD: Call[list[UnreadSignal]] = reading("list_unread", "bigint text bigint boolean", list[UnreadSignal])
FIND_QUESTION: Call[Question | None] = reading("find_question", "text", Question | None)
LIST_KEPT: Call[list[KeptEvent]] = reading("list_kept", "bigint text", list[KeptEvent])
LIST_AUDIT: Call[list[Audit]] = reading("list_audit", "text", list[Audit])
LIST_DEFINITIONS: Call[list[str]] = reading("list_definitions", "", list[str])
LIST_ATTRIBUTE_KINDS: Call[list[AttributeKind]] = reading("list_attribute_kinds", "text", list[AttributeKind])
TALLY_RUNS: Call[list[Tally]] = reading("tally_runs", "", list[Tally])
COUNT_UNFINISHED: Call[UnfinishedCounts] = reading("count_unfinished", "", UnfinishedCounts)
NEXT_WAKE: Call[Instant | None] = reading("next_wake", "jsonb", Instant | None)
HAS_STRANDED: Call[bool] = reading("has_stranded", "", bool)
UPCOMING_WORK: Call[UpcomingWork] = reading("upcoming_work", "jsonb", UpcomingWork)
LIST_SUMMARIES: Call[list[Summary]] = Call("list_summaries", "jsonb bigint text", _summaries)
COUNT_CREATED: Call[Histogram] = reading("count_created", "jsonb bigint bigint bigint bigint", Histogram)
LIST_STANDINGS: Call[list[Standing]] = reading("list_standings", "jsonb bigint", list[Standing])
LIST_MOVEMENT: Call[Movement] = reading("list_movement", "bigint jsonb bigint", Movement)
LIST_TOPICS: Call[list[TopicUse]] = reading("list_topics", "bigint", list[TopicUse])
LIST_PAST_EVENTS: Call[list[PastEvent]] = reading("list_past_events", "text bigint bigint", list[PastEvent])
TALLY_OWED: Call[list[SinkUse]] = reading("tally_owed", "bigint", list[SinkUse])
TALLY_WAITS: Call[list[WaitGroup]] = reading("tally_waits", "bigint", list[WaitGroup])
FIND_UNDELIVERED: Call[Undelivered | None] = reading("find_undelivered", "bigint", Undelivered | None)
READ_OUTLINE: Call[Outline | None] = reading("read_outline", "text", Outline | None)
LIST_ENTRIES: Call[Passage] = reading("list_entries", "text bigint bigint", Passage)
FIND_ENTRIES: Call[Passage] = reading("find_entries", "text jsonb", Passage)
FIND_SEAL: Call[Seal | None] = reading("find_seal", "", Seal | None)
MANIFEST: Call[Manifest] = reading("manifest", "", Manifest)
PACK: Call[TransferBatch] = reading("pack", "text bigint bigint", TransferBatch)
ORPHANS: Call[list[RunId]] = reading("orphans", "", list[RunId])


def created_claimed(new: NewRun, owner: Incarnation, at: Instant) -> Created:
    """The answer for a run that is claimed at its creation."""
    run = Run(
        new.run_id,
        new.workflow,
        new.version,
        RunStatus.RUNNING,
        key=None,
        epoch=1,
        owner=owner,
        revision=0,
        last_seq=0,
        created_at=at,
        started_at=at,
        ended_at=None,
        wake_at=None,
        input=new.input,
        tags=new.tags,
        deadline_at=new.deadline_at,
        max_suspend=new.max_suspend,
        title=new.title,
        started_by=new.started_by,
        headers=new.headers,
        retry=new.retry,
        attributes=new.attributes,
    )
    return Created(new.run_id, is_new=True, claimed=Claimed(run, Inbox(), is_fresh=True))


def plain_out(commit: Commit) -> tuple[Any, ...]:
    """A plain commit as `advance` reads it: only the fields up to its entries."""
    return commit[:BEHIND_ENTRIES]


def one_out(commit: Commit) -> list[Value]:
    """A plain commit with one entry, as `ADVANCE_ONE` reads it."""
    run_id, (incarnation, epoch), number = commit[:3]
    return [run_id.encode(), incarnation.encode(), b"%d" % epoch, b"%d" % number, *_entry_out(commit.entries[0])]


def known_out(commit: Commit, run: RunNumber) -> list[Value]:
    """The same for a run whose number is known, as `ADVANCE_KNOWN` reads it."""
    return [run, b"%d" % commit.fence.epoch, b"%d" % commit.number, *_entry_out(commit.entries[0])]


def _entry_out(entry: Entry) -> tuple[Value, ...]:
    seq, location, kind, status, value, at, took, attempts, undo, fingerprint = entry
    return (
        b"%d" % seq,
        location,
        kind.encode(),
        status.encode(),
        value,
        b"%d" % at,
        b"%d" % took,
        b"%d" % attempts,
        undo,
        fingerprint,
    )


def commit_out(commit: Commit) -> tuple[Any, ...]:
    """A commit as `apply` reads it. Raises `ValueError` for records that no store takes."""
    if commit.move is None and commit.waits is None and not any(commit[BEHIND_ENTRIES:]):
        return commit[:BEHIND_ENTRIES]
    for opening in commit.opened:
        check_opening(opening.record, opening.events)
    for closing in commit.closed:
        check_closing(closing)
    children = tuple(map(_child_out, commit.children))
    return commit._replace(move=_move_out(commit.move), children=children)  # type: ignore[arg-type]


def _move_out(move: Move | None) -> tuple[Any, ...] | None:
    match move:
        case None:
            return None
        case Park():
            return ("park", *move)
        case Release():
            return ("release",)
        case Pause():
            return ("pause", *move)
        case BeginRollback():
            return ("rollback", *move)
        case End():
            return ("end", *move)
        case _:
            assert_never(move)


def _child_out(new: NewRun) -> tuple[Any, ...]:
    """A child, with its failure in case another run has its key; `start_child` adds which run and where."""
    return new if new.key is None else (*new, key_taken(new.key))
