"""What is moved from one store to another, as plain data, and how it is cut into parcels.

`msgspec.json` writes and reads every type here, bytes in base64. Numbers (of signals, events, receipts, open waits and
what is owed) are kept as they are, because histories name signals by number. The order in which runs were created is
kept; whatever number a store gives to a run, or to a line of the audit, is its own affair.
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
from stepwell.model.runs import History, Run
from stepwell.model.signals import ReplyStatus
from stepwell.stores.base.views import Audit

PARCEL_BYTES: Final = 1 << 20  # a parcel that weighs so much takes nothing more


class PackedReply(NamedTuple):
    """What was answered to a signal that asked."""

    status: ReplyStatus
    value: bytes
    at: Instant  # when


class PackedSignal(NamedTuple):
    """A signal in a mailbox or held, whatever became of it.

    Pending: a payload and no `refused`. Refused: a payload and a reason. Consumed, discarded or dropped: no payload; it
    is only known, so that a repetition does nothing.
    """

    number: int
    signal_id: SignalId
    run_id: RunId | None  # whose mailbox it is in
    key: str | None  # of one that is held, and in no mailbox: for whom
    name: str
    dedup_key: str | None  # None also if it does not count as known by it any more
    payload: bytes | None
    sent_at: Instant
    asks: bool
    refused: str | None
    reply: PackedReply | None


class PackedReceipt(NamedTuple):
    """An event that a run got."""

    number: int
    event_id: EventId
    locations: tuple[Location, ...]  # of the waits that it was delivered to
    is_read: bool  # received, and remembered because the topic may still keep the event


class OpenWait(NamedTuple):
    """A topic wait that has not been given an event."""

    position: int  # in `History.waits`, from 0
    number: int  # orders the open waits of all runs: the lowest has been open longest


class PackedRun(NamedTuple):
    """A run with what is recorded of it: the one format of a run outside a store, for moves, exports, imports and
    golden histories. Its signals, what it owes and the lines of its streams are packed apart.
    """

    run: Run  # nobody owns it
    applied: int = 0  # the number of the last commit that was applied in `run.epoch`
    discards: bool = False  # as in `NewRun`
    history: History = History()  # as `RunStore.load` gives it
    open_waits: tuple[OpenWait, ...] = ()  # by position; a topic wait that is not named here is closed
    receipts: tuple[PackedReceipt, ...] = ()  # by number; their events are packed before
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
    """An event that is known: kept by its topic, in inboxes, or only remembered by its id."""

    number: int
    event_id: EventId
    topic: str
    payload: bytes | None  # None if neither the topic nor an inbox needs it any more
    facets: tuple[str, ...]
    deliver: Deliver
    published_at: Instant
    kept_until: Instant | None  # None: the topic does not keep it
    is_taken: bool  # for one run, and a run has it
    reached: int  # how many runs got it when it was published
    forget_at: Instant  # its id is known until then at least


class PackedBlob(NamedTuple):
    """A large payload."""

    name: str  # the SHA-256 of the content in hexadecimal
    content: bytes


Item = PackedBlob | PackedEvent | PackedRun | PackedChunk | PackedSignal | Owed | Reservation | Act


class Given(NamedTuple):
    """The highest numbers that a store has ever given, also to what is gone: none of them is given again."""

    receipts: int = 0
    owed: int = 0


class Parcel(NamedTuple):
    """A part of what a store holds, of one kind at a time."""

    blobs: tuple[PackedBlob, ...] = ()
    events: tuple[PackedEvent, ...] = ()
    runs: tuple[PackedRun, ...] = ()
    chunks: tuple[PackedChunk, ...] = ()
    signals: tuple[PackedSignal, ...] = ()  # held ones too
    owed: tuple[Owed, ...] = ()  # dead letters too; nobody has taken any
    requests: tuple[Reservation, ...] = ()
    acts: tuple[Act, ...] = ()
    given: Given = Given()  # by the store that packed it; the same in each of its parcels
    next: str = ""  # where the next parcel begins, which only the store that packed this one understands; "" at the end
    # Which workflows are paused, and how that came: few, so all of it is in each parcel, and replaces what is there.
    holds: tuple[WorkflowHold, ...] = ()
    hold_acts: tuple[HoldAct, ...] = ()  # oldest first
    head: ChainHead = ChainHead()  # of the audit; it replaces what is there
    is_encrypted: bool = False  # the store takes encrypted values only; see `Store.declare_encrypted`

    @property
    def items(self) -> tuple[Item, ...]:
        """What is in it."""
        runs: tuple[Item, ...] = (*self.runs, *self.chunks, *self.signals, *self.owed)
        return (*self.blobs, *self.events, *runs, *self.requests, *self.acts)


def name_of(item: Item) -> str:
    """What something is called when people are told of it."""
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
        case Reservation(scope=scope, key=key):
            return f"idempotency key {key!r} of {scope}"
        case Act(number=number):
            return f"line {number} of the audit"
        case _:
            assert_never(item)


# The fields of a parcel, in the order of packing.
KINDS: Final = ("blobs", "events", "runs", "chunks", "signals", "owed", "requests", "acts")

# Things of one kind that come after a key, each with its own key. The empty key is before all.
Shelf = Generator[tuple[str, Any], None, None]


def fill(after: str, limit: int, shelf: Callable[[str, str], Shelf]) -> Parcel:
    """The next parcel, from shelves of each kind. Its mark is the kind and the key of the last thing that it took."""
    kind, _, key = (after or f"{KINDS[0]}:").partition(":")
    for at in KINDS[KINDS.index(kind) :]:
        parcel, key = _fill_with(at, key, limit, shelf), ""
        if parcel.items:
            return parcel
    return Parcel()


def _fill_with(kind: str, key: str, limit: int, shelf: Callable[[str, str], Shelf]) -> Parcel:
    taken: list[Any] = []
    weight = 0
    with closing(shelf(kind, key)) as things:
        for mark, thing in things:
            taken.append(thing)
            weight += len(msgspec.json.encode(thing))
            if len(taken) >= limit or weight >= PARCEL_BYTES:
                return _labelled(kind, taken, f"{kind}:{mark}")
    is_last = kind == KINDS[-1]
    return _labelled(kind, taken, "" if is_last else f"{KINDS[KINDS.index(kind) + 1]}:")


def _labelled(kind: str, taken: list[Any], following: str) -> Parcel:
    contents: dict[str, Any] = {kind: tuple(taken), "next": following}
    return Parcel(**contents)
