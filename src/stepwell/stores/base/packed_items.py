"""What a transfer moves from one store to another, as plain data, and how it is cut into batches.

`msgspec.json` writes and reads every type here, bytes in base64. Numbers (of signals, events, receipts, open waits and
outbox rows) are kept, because histories name signals by number. The creation order of runs is kept. The internal number
of a run or of an audit line is not: each store assigns its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Final, NamedTuple, assert_never

import msgspec

from stepwell.clock import Instant
from stepwell.ids import EventId, RunId, SignalId
from stepwell.model.events import Deliver
from stepwell.model.holds import HoldAct, WorkflowHold
from stepwell.model.ledger import Act, ChainHead, Reservation
from stepwell.model.live import ChunkKind, Published
from stepwell.model.locations import Location
from stepwell.model.outbox import Owed
from stepwell.model.records import Record, RecordEvent
from stepwell.model.runs import History, Run
from stepwell.model.signals import ReplyStatus
from stepwell.stores.base.views import Audit

BATCH_BYTES: Final = 1 << 20  # a batch of this size is complete


class PackedReply(NamedTuple):
    """The reply to a signal that asked for one."""

    status: ReplyStatus
    value: bytes
    at: Instant


class PackedSignal(NamedTuple):
    """A signal in a mailbox or held, in any state.

    Pending: a payload and no `refused`. Refused: a payload and a reason. Consumed, discarded or dropped: no payload;
    only its ids are remembered, so that a repetition does nothing.
    """

    number: int
    signal_id: SignalId
    run_id: RunId | None  # whose mailbox it is in
    key: str | None  # of a held signal, which is in no mailbox
    name: str
    dedup_key: str | None  # None also if it no longer deduplicates
    payload: bytes | None
    sent_at: Instant
    asks: bool
    refused: str | None
    refused_by: str  # the incarnation of the worker that refused it
    reply: PackedReply | None


class PackedReceipt(NamedTuple):
    """An event that a run received."""

    number: int
    event_id: EventId
    locations: tuple[Location, ...]  # of the waits that it was delivered to
    is_read: bool  # received, and remembered because the topic may still keep the event


class OpenWait(NamedTuple):
    """A topic wait that has not been given an event."""

    position: int  # in `History.waits`, from 0
    number: int  # orders the open waits of all runs: the lowest has been open longest


class PackedRun(NamedTuple):
    """A run with its recorded history: the only format of a run outside a store, for moves, exports, imports and golden
    histories. Its signals, outbox rows and stream lines are packed separately.
    """

    run: Run  # without an owner
    applied: int = 0  # the number of the last commit that was applied in `run.epoch`
    discards: bool = False  # as in `NewRun`
    history: History = History()  # as `RunStore.load` gives it
    open_waits: tuple[OpenWait, ...] = ()  # by position; a topic wait that is not listed is closed
    receipts: tuple[PackedReceipt, ...] = ()  # by number; their events are packed earlier
    published: tuple[Published, ...] = ()  # by name
    audit: tuple[Audit, ...] = ()  # oldest first


class PackedChunk(NamedTuple):
    """A line of a stream."""

    run_id: RunId
    stream: str
    offset: int
    kind: ChunkKind
    source: str
    part: int  # which attempt at the step `source` wrote it
    value: bytes


class PackedEvent(NamedTuple):
    """A known event: kept by its topic, in inboxes, or only remembered by its id."""

    number: int
    event_id: EventId
    topic: str
    payload: bytes | None  # None if neither the topic nor an inbox needs it any more
    facets: tuple[str, ...]
    deliver: Deliver
    published_at: Instant
    kept_until: Instant | None  # None: the topic does not keep it
    is_taken: bool  # deliver "one", and a run has it
    reached: int  # how many runs got it when it was published
    forget_at: Instant  # its id is known at least until then


class PackedBlob(NamedTuple):
    """A large payload."""

    name: str  # the SHA-256 of the content in hexadecimal
    content: bytes


class PackedRecordEvent(NamedTuple):
    """A line of a record's history."""

    record: int  # the number of the record
    event: RecordEvent
    change_id: str | None  # if it is the first event of a change


Item = (
    PackedBlob
    | PackedEvent
    | PackedRun
    | PackedChunk
    | PackedSignal
    | Owed
    | Record
    | PackedRecordEvent
    | Reservation
    | Act
)


class HighestNumbers(NamedTuple):
    """The highest numbers that a store has ever assigned, also to rows that are deleted: none of them is assigned
    again.
    """

    receipts: int = 0
    owed: int = 0
    records: int = 0


class TransferBatch(NamedTuple):
    """A part of what a store holds, with items of one kind."""

    blobs: tuple[PackedBlob, ...] = ()
    events: tuple[PackedEvent, ...] = ()
    runs: tuple[PackedRun, ...] = ()
    chunks: tuple[PackedChunk, ...] = ()
    signals: tuple[PackedSignal, ...] = ()  # including held ones
    owed: tuple[Owed, ...] = ()  # including dead letters; not taken by any worker
    requests: tuple[Reservation, ...] = ()
    acts: tuple[Act, ...] = ()
    highest: HighestNumbers = HighestNumbers()  # by the store that packed it; the same in each batch
    next: str = ""  # where the next batch begins, in a format of the store that packed this one; "" at the end
    # Paused workflows and how they came to be paused. There are few, so each batch has all, and replaces what is there.
    holds: tuple[WorkflowHold, ...] = ()
    hold_acts: tuple[HoldAct, ...] = ()  # oldest first
    head: ChainHead = ChainHead()  # of the audit; it replaces what is there
    is_encrypted: bool = False  # the store takes encrypted values only; see `Store.declare_encrypted`
    records: tuple[Record, ...] = ()
    record_events: tuple[PackedRecordEvent, ...] = ()

    @property
    def items(self) -> tuple[Item, ...]:
        """All items of this batch."""
        runs: tuple[Item, ...] = (*self.runs, *self.chunks, *self.signals, *self.owed)
        records: tuple[Item, ...] = (*self.records, *self.record_events)
        return (*self.blobs, *self.events, *runs, *records, *self.requests, *self.acts)


def name_of(item: Item) -> str:
    """The name of an item in messages."""
    match item:
        case PackedBlob(name=name):
            return f"large payload {name}"
        case PackedEvent(event_id=event_id):
            return f"event {event_id}"
        case PackedRun(run=run):
            return f"run {run.run_id}"
        case PackedChunk(run_id=run_id, stream=stream, offset=offset):
            return f"line {offset} of stream {stream!r} of run {run_id}"
        case PackedSignal(signal_id=signal_id):
            return f"signal {signal_id}"
        case Owed(event_id=event_id, sink=sink):
            return f"event {event_id} for sink {sink}"
        case Record(kind=kind, record_id=record_id):
            return f"{kind} {record_id!r}"
        case PackedRecordEvent(record=record, event=event):
            return f"line {event.number} of the history of record {record}"
        case Reservation(scope=scope, key=key):
            return f"idempotency key {key!r} of {scope}"
        case Act(number=number):
            return f"line {number} of the audit"
        case _:
            assert_never(item)


# The fields of a batch, in the order of packing.
KINDS: Final = (
    "blobs",
    "events",
    "runs",
    "chunks",
    "signals",
    "owed",
    "records",
    "record_events",
    "requests",
    "acts",
)

# Items of one kind that come after a key, each with its own key. The empty key is before all others.
MarkedItems = Generator[tuple[str, Any], None, None]


def next_batch(after: str, limit: int, list_items: Callable[[str, str], MarkedItems]) -> TransferBatch:
    """The next batch, from the items of each kind. Its `next` is the kind and the key of the last item that it took."""
    kind, _, key = (after or f"{KINDS[0]}:").partition(":")
    for at in KINDS[KINDS.index(kind) :]:
        batch, key = _take_kind(at, key, limit, list_items), ""
        if batch.items:
            return batch
    return TransferBatch()


def _take_kind(kind: str, key: str, limit: int, list_items: Callable[[str, str], MarkedItems]) -> TransferBatch:
    taken: list[Any] = []
    weight = 0
    with closing(list_items(kind, key)) as found:
        for mark, item in found:
            taken.append(item)
            weight += len(msgspec.json.encode(item))
            if len(taken) >= limit or weight >= BATCH_BYTES:
                return _batch_of(kind, taken, f"{kind}:{mark}")
    is_last = kind == KINDS[-1]
    return _batch_of(kind, taken, "" if is_last else f"{KINDS[KINDS.index(kind) + 1]}:")


def _batch_of(kind: str, taken: list[Any], following: str) -> TransferBatch:
    contents: dict[str, Any] = {kind: tuple(taken), "next": following}
    return TransferBatch(**contents)
