"""The tables: rows that change in place, and the indexes over them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop
from typing import Any

from stepwell.clock import Instant
from stepwell.ids import Incarnation, RunId, SignalId
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.locations import Location
from stepwell.model.runs import History, Parent, Previous, Run
from stepwell.model.signals import Signal
from stepwell.model.states import RunStatus
from stepwell.model.waits import Wait
from stepwell.model.workers import Worker
from stepwell.stores.base.views import Audit, HeldSignal
from stepwell.stores.base.wakeups import Hub

_BEGINNING = Instant(0)

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

    def freeze(self) -> Signal:
        """What leaves the store."""
        return Signal(self.number, self.name, self.payload, self.sent_at)


@dataclass(slots=True)
class MemoryDatabase:
    """All data of one store. Several handles, each a process of its own in a simulation, may share it."""

    runs: dict[RunId, RunRow] = field(default_factory=dict)
    entries: defaultdict[RunId, dict[Location, Entry]] = field(default_factory=lambda: defaultdict(dict))
    attempts: defaultdict[RunId, dict[tuple[Location, int], Attempt]] = field(default_factory=lambda: defaultdict(dict))
    cursors: defaultdict[RunId, dict[Location, Cursor]] = field(default_factory=lambda: defaultdict(dict))
    progress: defaultdict[RunId, dict[Location, Progress]] = field(default_factory=lambda: defaultdict(dict))
    signals: dict[SignalId, SignalRow] = field(default_factory=dict)
    mailboxes: defaultdict[Mailbox, dict[int, SignalRow]] = field(default_factory=lambda: defaultdict(dict))
    dedup: dict[tuple[Mailbox, str, str], SignalRow] = field(default_factory=dict)
    workers: dict[Incarnation, Worker] = field(default_factory=dict)
    audit: dict[RunId, tuple[Audit, ...]] = field(default_factory=dict)
    # Indexes.
    active_keys: dict[str, RunRow] = field(default_factory=dict)
    runs_of_key: defaultdict[str, dict[RunId, RunRow]] = field(default_factory=lambda: defaultdict(dict))
    children: defaultdict[RunId, dict[RunId, RunRow]] = field(default_factory=lambda: defaultdict(dict))
    owned: defaultdict[Incarnation, dict[RunId, RunRow]] = field(default_factory=lambda: defaultdict(dict))
    # A heap per definition. An item counts only while it says what its row says, so none need ever be taken out early.
    ready: defaultdict[str, list[tuple[Instant, RunId]]] = field(default_factory=lambda: defaultdict(list))
    signals_sent: int = 0
    floor: Instant = _BEGINNING  # the latest instant ever shown
    hubs: list[Hub] = field(default_factory=list)

    def show(self, now: Instant) -> Instant:
        """The store's time, given what a clock says: it never goes back."""
        self.floor = max(self.floor, now)
        return self.floor

    def first_due(self, definition: str) -> tuple[Instant, RunId] | None:
        """The run of a definition that is due first, and when."""
        heap = self.ready[definition]
        while heap:
            wake_at, run_id = heap[0]
            row = self.runs.get(run_id)  # None if the transition that created it failed
            if row is not None and row.wake_at == wake_at:
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

    def pending(self, mailbox: Mailbox) -> list[SignalRow]:
        """The signals of a mailbox, oldest first."""
        box = self.mailboxes.get(mailbox)
        return sorted(box.values(), key=lambda row: row.number) if box else []

    def held(self) -> list[HeldSignal]:
        """Every signal without a run, oldest first."""
        rows = [row for (kind, _), box in self.mailboxes.items() if kind == "key" for row in box.values()]
        return [HeldSignal(row.mailbox[1], row.freeze()) for row in sorted(rows, key=lambda row: row.number)]

    def snapshot(self) -> dict[str, Any]:
        """Everything, in the shape of `stepwell.conformance.snapshot`."""
        runs = {
            run_id: {
                "run": self.runs[run_id].freeze(),
                "history": self.history(run_id),
                "signals": tuple(row.freeze() for row in self.pending(("run", run_id))),
                "children": sorted(self.children[run_id]),
                "audit": list(self.audit.get(run_id, ())),
            }
            for run_id in sorted(self.runs, reverse=True)
        }
        return {"runs": runs, "workers": list(self.workers.values()), "held": self.held()}
