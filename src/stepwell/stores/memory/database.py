"""The tables: rows that change in place, and the indexes over them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop
from typing import Any, NamedTuple

from stepwell.clock import Instant, Span
from stepwell.ids import EventId, Incarnation, RunId, SignalId
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.events import Deliver, IncomingEvent, KeptEvent
from stepwell.model.holds import Hold, HoldAct, WorkflowHold
from stepwell.model.ledger import Act, ChainHead, Reservation
from stepwell.model.live import Append, Published
from stepwell.model.locations import Location
from stepwell.model.outbox import Owed
from stepwell.model.runs import History, Parent, Previous, Ranges, Run, Tags
from stepwell.model.signals import Reply, Signal
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.model.waits import Wait
from stepwell.model.workers import Worker
from stepwell.stores.base.timeline import Timeline
from stepwell.stores.base.transfers import Seal
from stepwell.stores.base.views import Audit, HeldSignal, UnreadSignal
from stepwell.stores.base.wakeups import Hub

Lane = tuple[str, int]  # a definition and a priority
Mailbox = tuple[str, str]  # ("run", run id), or ("key", key) while the signals are held


@dataclass(slots=True)
class RunRow:
    """One run. Its history is in the tables beside it."""

    run_id: RunId
    workflow: str
    version: int
    definition: str
    input: bytes
    key: str | None
    parent: Parent | None
    created_at: Instant
    status: RunStatus = RunStatus.PENDING
    epoch: int = 0
    applied: int = 0  # number of the last commit applied in this epoch
    owner: Incarnation | None = None
    revision: int = 0
    last_seq: int = 0
    started_at: Instant | None = None
    ended_at: Instant | None = None
    wake_at: Instant | None = None
    generation: int = 1
    previous: Previous | None = None
    successor: RunId | None = None
    cause: str | None = None
    reason: str = ""
    undo_floor: int = 0
    stalls: int = 0
    retried_at: Instant | None = None
    failure: bytes | None = None
    output: bytes | None = None
    names: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    priority: int = 0
    tags: Tags = ()
    deadline_at: Instant | None = None
    max_suspend: Span | None = None
    replaced_by: RunId | None = None
    debounced_until: Instant | None = None
    discards: bool = False
    hold: Hold | None = None
    amendment: str | None = None
    forked_from: RunId | None = None
    loose: Ranges = ()

    @property
    def lane(self) -> Lane:
        """Where it stands in line."""
        return self.definition, self.priority

    def freeze(self) -> Run:
        """What leaves the store."""
        return Run(
            run_id=self.run_id,
            workflow=self.workflow,
            version=self.version,
            status=self.status,
            key=self.key,
            epoch=self.epoch,
            owner=self.owner,
            revision=self.revision,
            last_seq=self.last_seq,
            created_at=self.created_at,
            started_at=self.started_at,
            ended_at=self.ended_at,
            wake_at=self.wake_at,
            input=self.input,
            generation=self.generation,
            parent=self.parent,
            previous=self.previous,
            successor=self.successor,
            cause=self.cause,
            reason=self.reason,
            undo_floor=self.undo_floor,
            stalls=self.stalls,
            retried_at=self.retried_at,
            failure=self.failure,
            output=self.output,
            priority=self.priority,
            tags=self.tags,
            deadline_at=self.deadline_at,
            max_suspend=self.max_suspend,
            replaced_by=self.replaced_by,
            debounced_until=self.debounced_until,
            hold=self.hold,
            amendment=self.amendment,
            forked_from=self.forked_from,
            loose=self.loose,
        )


@dataclass(slots=True)
class SignalRow:
    """One signal, in one mailbox at a time; it stays known after it was consumed."""

    number: int
    signal_id: SignalId
    name: str
    payload: bytes
    sent_at: Instant
    dedup_key: str | None
    mailbox: Mailbox
    asks: bool = False

    def freeze(self) -> Signal:
        """What leaves the store."""
        return Signal(self.number, self.name, self.payload, self.sent_at, self.signal_id if self.asks else None)


@dataclass(slots=True)
class EventRow:
    """One event; it stays known for a while after nobody needs it any more."""

    number: int
    event_id: EventId
    topic: str
    payload: bytes
    facets: tuple[str, ...]
    deliver: Deliver
    published_at: Instant
    kept_until: Instant | None
    is_taken: bool  # for one run, and a run has it
    reached: int
    forget_at: Instant

    def is_kept(self, now: Instant) -> bool:
        """Whether the topic keeps it for waits to come."""
        return self.kept_until is not None and self.kept_until > now and not self.is_taken

    def freeze(self) -> KeptEvent:
        """What leaves the store."""
        assert self.kept_until is not None
        return KeptEvent(self.event_id, self.topic, self.payload, self.deliver, self.published_at, self.kept_until)


@dataclass(slots=True)
class ReceiptRow:
    """An event that a run got."""

    number: int
    run_id: RunId
    event: EventRow
    locations: tuple[Location, ...]
    is_read: bool = False

    def freeze(self) -> IncomingEvent:
        """What leaves the store."""
        event = self.event
        return IncomingEvent(
            self.number,
            event.event_id,
            event.topic,
            event.payload,
            event.facets,
            event.published_at,
            self.locations,
        )


class OpenWait(NamedTuple):
    """A wait for an event, until it is given one; `number` tells which has been open longest."""

    number: int
    run: RunRow
    wait: Wait


class OutboxRow(NamedTuple):
    """One event that one sink has not had yet; the first of a run's may be with a worker."""

    owed: Owed
    owner: Incarnation | None = None

    def is_due(self, now: Instant) -> bool:
        """Whether anybody may take it."""
        return self.owed.next_at is not None and self.owed.next_at <= now


@dataclass(slots=True)
class MemoryDatabase:
    """All data of one store. Several handles, each a process of its own in a simulation, may share it."""

    runs: dict[RunId, RunRow] = field(default_factory=dict)
    entries: defaultdict[RunId, dict[Location, Entry]] = field(default_factory=lambda: defaultdict(dict))
    attempts: defaultdict[RunId, dict[tuple[Location, int], Attempt]] = field(default_factory=lambda: defaultdict(dict))
    cursors: defaultdict[RunId, dict[Location, Cursor]] = field(default_factory=lambda: defaultdict(dict))
    published: defaultdict[RunId, dict[str, Published]] = field(default_factory=lambda: defaultdict(dict))
    chunks: defaultdict[tuple[RunId, str], dict[int, Append]] = field(default_factory=lambda: defaultdict(dict))
    progress: defaultdict[RunId, dict[Location, Progress]] = field(default_factory=lambda: defaultdict(dict))
    signals: dict[SignalId, SignalRow] = field(default_factory=dict)
    mailboxes: defaultdict[Mailbox, dict[int, SignalRow]] = field(default_factory=lambda: defaultdict(dict))
    dedup: dict[tuple[Mailbox, str, str], SignalRow] = field(default_factory=dict)
    refused: dict[int, tuple[SignalRow, str]] = field(default_factory=dict)  # with the reason
    replies: dict[int, Reply] = field(default_factory=dict)
    replied_at: dict[int, Instant] = field(default_factory=dict)
    events: dict[EventId, EventRow] = field(default_factory=dict)
    receipts: defaultdict[RunId, dict[int, ReceiptRow]] = field(default_factory=lambda: defaultdict(dict))
    workers: dict[Incarnation, Worker] = field(default_factory=dict)
    audit: dict[RunId, tuple[Audit, ...]] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)  # by the name of the workflow; see `ALL_WORKFLOWS`
    hold_acts: dict[int, HoldAct] = field(default_factory=dict)
    requests: dict[tuple[str, str], Reservation] = field(default_factory=dict)  # by scope and key
    acts: dict[int, Act] = field(default_factory=dict)
    chain: dict[str, ChainHead] = field(default_factory=dict)  # under the empty name, from the first line on
    # Indexes.
    noted: dict[tuple[str, str], int] = field(default_factory=dict)  # lines of the audit, by request and outcome
    queues: dict[tuple[RunId, str], tuple[int, ...]] = field(default_factory=dict)  # what a run owes a sink, in order
    active_keys: dict[str, RunRow] = field(default_factory=dict)
    debounced: dict[str, RunRow] = field(default_factory=dict)
    runs_of_key: defaultdict[str, dict[RunId, RunRow]] = field(default_factory=lambda: defaultdict(dict))
    children: defaultdict[RunId, dict[RunId, RunRow]] = field(default_factory=lambda: defaultdict(dict))
    owned: defaultdict[Incarnation, dict[RunId, RunRow]] = field(default_factory=lambda: defaultdict(dict))
    topics: defaultdict[str, dict[int, EventRow]] = field(default_factory=lambda: defaultdict(dict))
    receivers: defaultdict[int, dict[RunId, ReceiptRow]] = field(default_factory=lambda: defaultdict(dict))
    open_waits: defaultdict[str, dict[tuple[RunId, Location], OpenWait]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    # A heap per definition and priority. An item counts only while it says what its row says, so none need ever be
    # taken out early.
    ready: defaultdict[str, dict[int, list[tuple[Instant, RunId]]]] = field(default_factory=lambda: defaultdict(dict))
    blobs: dict[str, bytes] = field(default_factory=dict)
    signals_sent: int = 0
    events_published: int = 0
    receipts_given: int = 0
    waits_opened: int = 0
    times: Timeline = field(default_factory=Timeline)
    seal: Seal | None = None  # while it is closed
    is_encrypted: bool = False  # it takes encrypted values only
    hubs: list[Hub] = field(default_factory=list)

    def first_due(self, definition: str, priority: int) -> tuple[Instant, RunId] | None:
        """The run of a definition and priority that is due first, and when."""
        heap = self.ready[definition].get(priority, [])
        while heap:
            wake_at, run_id = heap[0]
            row = self.runs.get(run_id)  # None if the transition that created it failed
            if row is not None and row.wake_at == wake_at and row.lane == (definition, priority):
                return heap[0]
            heappop(heap)
        return None

    def history(self, run_id: RunId) -> History:
        """What is recorded of a run."""
        row = self.runs.get(run_id)
        if row is None:
            return History()
        return History(
            row.names,
            tuple(sorted(self.entries[run_id].values(), key=lambda entry: entry.seq)),
            tuple(sorted(self.attempts[run_id].values(), key=lambda attempt: (attempt.location, attempt.number))),
            tuple(sorted(self.cursors[run_id].values(), key=lambda cursor: cursor.location)),
            row.waits,
            tuple(sorted(self.progress[run_id].values())),
        )

    def list_holds(self) -> list[WorkflowHold]:
        """The workflows that are paused, by name."""
        return [WorkflowHold(name or None, hold) for name, hold in sorted(self.holds.items())]

    def pending(self, mailbox: Mailbox) -> list[SignalRow]:
        """The signals of a mailbox, oldest first."""
        box = self.mailboxes.get(mailbox)
        return sorted(box.values(), key=lambda row: row.number) if box else []

    def held(self) -> list[HeldSignal]:
        """Every signal without a run, oldest first."""
        rows = [row for (kind, _), box in self.mailboxes.items() if kind == "key" for row in box.values()]
        return [HeldSignal(row.mailbox[1], row.freeze()) for row in sorted(rows, key=lambda row: row.number)]

    def unread(self) -> list[UnreadSignal]:
        """What ended runs left in their mailboxes, and what runs refused, oldest first."""
        left = [
            (row, "")
            for (kind, name), box in self.mailboxes.items()
            if box and kind == "run" and self.runs[RunId(name)].status in TERMINAL
            for row in box.values()
        ]
        rows = sorted([*left, *self.refused.values()], key=lambda item: item[0].number)
        owners = [self.runs[RunId(row.mailbox[1])] for row, _ in rows]
        return [
            UnreadSignal(owner.run_id, owner.status, reason, row.freeze())
            for owner, (row, reason) in zip(owners, rows, strict=True)
        ]

    def snapshot(self) -> dict[str, Any]:
        """Everything, in the shape of `stepwell.conformance.snapshot`."""
        runs = {
            run_id: {
                "run": self.runs[run_id].freeze(),
                "history": self.history(run_id),
                "signals": tuple(row.freeze() for row in self.pending(("run", run_id))),
                "events": tuple(
                    row.freeze()
                    for row in sorted(self.receipts.get(run_id, {}).values(), key=lambda one: one.number)
                    if not row.is_read
                ),
                "children": sorted(self.children[run_id]),
                "audit": list(self.audit.get(run_id, ())),
                "published": sorted(self.published.get(run_id, {}).values()),
                "streams": {
                    stream: [(n, chunks[n].kind, chunks[n].source, chunks[n].value) for n in sorted(chunks)]
                    for (owner, stream), chunks in sorted(self.chunks.items())
                    if owner == run_id and chunks
                },
            }
            for run_id in sorted(self.runs, reverse=True)
        }
        kept = [row for topic in self.topics.values() for row in topic.values() if row.is_kept(self.times.shown)]
        outbox = [self.outbox[number].owed for number in sorted(self.outbox)]
        return {
            "runs": runs,
            "workers": list(self.workers.values()),
            "holds": self.list_holds(),
            "hold_acts": list(reversed(self.hold_acts.values())),
            "acts": [self.acts[number] for number in sorted(self.acts, reverse=True)],
            "head": self.chain.get("", ChainHead()),
            "held": self.held(),
            "unread": self.unread(),
            "kept": [row.freeze() for row in sorted(kept, key=lambda row: row.number)],
            "owed": [owed for owed in outbox if owed.died_at is None],
            "dead": [owed for owed in outbox if owed.died_at is not None],
        }
