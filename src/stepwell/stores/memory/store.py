"""The memory store: one transition, then its hints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from stepwell.clock import Instant, Span
from stepwell.codec.blobs import DamagedBlobError
from stepwell.environment import Environment
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.amendments import Amended, Amendment, Fork
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, Commit
from stepwell.model.events import NewEvent, Published
from stepwell.model.holds import HoldAct, WorkflowHold
from stepwell.model.ledger import ACT_LAST, Act, ChainHead, NewAct, Reservation, Reserved, storable
from stepwell.model.outbox import Announce, Owed, Settled
from stepwell.model.runs import Claimed, Created, Debounced, History, Inbox, NewRun
from stepwell.model.signals import Delivered, NewSignal, Redelivery
from stepwell.model.workers import Claimant, NewWorker, Renewed, Worker
from stepwell.stores.base.encryption import plain_writer
from stepwell.stores.base.outbox import Batch
from stepwell.stores.base.store import Capabilities
from stepwell.stores.base.transactions import NoTransactions
from stepwell.stores.base.transfers import sealed
from stepwell.stores.base.wakeups import Hub
from stepwell.stores.memory import ledger, outbox
from stepwell.stores.memory.amendments import amend
from stepwell.stores.memory.amendments import fork as make_fork
from stepwell.stores.memory.commits import apply
from stepwell.stores.memory.database import MemoryDatabase
from stepwell.stores.memory.deliveries import deliver, deliver_or_create, redeliver
from stepwell.stores.memory.holds import pause, pause_workflow, resume_workflow
from stepwell.stores.memory.operators import cancel, resume, resume_rollback, retry
from stepwell.stores.memory.publishing import publish
from stepwell.stores.memory.rescues import relinquish, rescue, retire
from stepwell.stores.memory.runs import claim, read_inbox
from stepwell.stores.memory.starts import create, debounce
from stepwell.stores.memory.transaction import Transaction
from stepwell.stores.memory.transfers import MemoryTransfers
from stepwell.stores.memory.views import MemoryViews
from stepwell.stores.memory.workers import register, renew

T = TypeVar("T")


class MemoryStore:
    """A handle on a `MemoryDatabase`, as one process has it. What is stored lives as long as the database object."""

    capabilities = Capabilities("memory", survives_restart=False, is_shared=False)

    def __init__(self, environment: Environment, database: MemoryDatabase | None = None) -> None:
        self.database = MemoryDatabase() if database is None else database
        self._clock = environment.clock
        self.encrypts = False
        self.wakeups = Hub()
        self.runs = MemoryRuns(self)
        self.signals = MemorySignals(self)
        self.events = MemoryEvents(self)
        self.outbox = MemoryOutbox(self)
        self.workers = MemoryWorkers(self)
        self.holds = MemoryHolds(self)
        self.ledger = MemoryLedger(self)
        self.transactions = NoTransactions("memory")
        self.transfers = MemoryTransfers(self)
        self.views = MemoryViews(self.database, self.now)
        self.blobs = MemoryBlobs(self.database, self.check_values)

    def now(self) -> Instant:
        """The store's clock: never behind any instant that any handle has shown."""
        return self.database.times.now(self._clock)

    def declare_encrypted(self) -> None:
        """See `Store.declare_encrypted`."""
        self.encrypts = True

    async def open(self) -> None:
        """Begin to hear hints."""
        if self.wakeups not in self.database.hubs:
            self.database.hubs.append(self.wakeups)

    async def close(self) -> None:
        """Hear no more hints; the data stays with the database."""
        if self.wakeups in self.database.hubs:
            self.database.hubs.remove(self.wakeups)

    def transact(self, transition: Callable[[Transaction], T]) -> T:
        """Make one transition whole, or leave everything as it was; then tell every handle what may have changed."""
        self.check_values()
        outcome = self.operate(transition)
        self.database.is_encrypted |= self.encrypts
        return outcome

    def operate(self, transition: Callable[[Transaction], T]) -> T:
        """`transact` for what carries no value."""
        if self.database.seal is not None:
            raise sealed(self.database.seal)
        return self.transfer(transition)

    def check_values(self) -> None:
        """Raise `EncryptedStoreError` if values are to be encrypted and this handle does not do that."""
        if self.database.is_encrypted and not self.encrypts and self.database.seal is None:
            raise plain_writer()

    def transfer(self, transition: Callable[[Transaction], T]) -> T:
        """Make one transition, whether or not the database is sealed."""
        tx = Transaction(self.database, self.now())
        try:
            outcome = transition(tx)
        except BaseException:
            tx.roll_back()
            raise
        for hint in tx.hints():
            for hub in tuple(self.database.hubs):
                hub.tell(hint)
        return outcome


class MemoryRuns:
    """`RunStore` over dicts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def create(self, runs: Sequence[NewRun], claimant: Claimant | None = None) -> list[Created]:
        return self._store.transact(lambda tx: create(tx, runs, claimant))

    async def debounce(self, new: NewRun, *, quiet: Span, max_wait: Span) -> Debounced:
        return self._store.transact(lambda tx: debounce(tx, new, quiet, max_wait))

    async def claim(self, claimant: Claimant) -> list[Claimed]:
        return self._store.transact(lambda tx: claim(tx, claimant))

    async def load(self, run_ids: Sequence[RunId]) -> list[History]:
        return [self._store.database.history(run_id) for run_id in run_ids]

    async def inbox(self, run_id: RunId) -> Inbox:
        row = self._store.database.runs.get(run_id)
        return Inbox() if row is None else read_inbox(self._store.database, row)

    async def apply(self, commits: Sequence[Commit], claimant: Claimant | None = None) -> list[Applied]:
        return self._store.transact(lambda tx: apply(tx, commits, claimant))

    async def cancel(
        self, run_id: RunId, *, compensate: bool, reason: str, by: str = "", announce: Announce | None = None
    ) -> Cancelled:
        return self._store.operate(
            lambda tx: cancel(tx, run_id, compensate=compensate, reason=reason, by=by, announce=announce)
        )

    async def pause(self, run_id: RunId, *, by: str, reason: str) -> bool:
        return self._store.operate(lambda tx: pause(tx, run_id, by, reason))

    async def resume(self, run_id: RunId, *, by: str, even_if_held: bool = True) -> bool:
        return self._store.operate(lambda tx: resume(tx, run_id, by, even_if_held=even_if_held))

    async def resume_rollback(self, run_id: RunId, *, by: str) -> bool:
        return self._store.operate(lambda tx: resume_rollback(tx, run_id, by))

    async def retry(self, run_id: RunId, *, by: str) -> bool:
        return self._store.operate(lambda tx: retry(tx, run_id, by))

    async def amend(self, amendment: Amendment) -> Amended:
        return self._store.transact(lambda tx: amend(tx, amendment))

    async def fork(self, fork: Fork) -> Created | None:
        return self._store.transact(lambda tx: make_fork(tx, fork))

    async def rescue(self, *, stalls_max: int) -> list[RunId]:
        return self._store.operate(lambda tx: rescue(tx, stalls_max))

    async def relinquish(self, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
        return self._store.operate(lambda tx: relinquish(tx, incarnation, keep))


class MemorySignals:
    """`SignalStore` over dicts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def deliver(
        self, signals: Sequence[NewSignal], claimant: Claimant | None = None
    ) -> tuple[list[Delivered], list[Claimed]]:
        return self._store.transact(lambda tx: deliver(tx, signals, claimant))

    async def deliver_or_create(
        self, signal: NewSignal, run: NewRun, claimant: Claimant | None = None
    ) -> tuple[Created, Delivered, list[Claimed]]:
        return self._store.transact(lambda tx: deliver_or_create(tx, signal, run, claimant))

    async def redeliver(
        self, letters: Sequence[Redelivery], claimant: Claimant | None = None
    ) -> tuple[list[Delivered], list[Claimed]]:
        return self._store.transact(lambda tx: redeliver(tx, letters, claimant))


class MemoryBlobs:
    """`Blobs` in a dict."""

    def __init__(self, database: MemoryDatabase, check: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._contents = database.blobs
        self._check = check

    def put(self, content: bytes) -> str:
        """See `Blobs.put`."""
        if self._database.seal is not None:
            raise sealed(self._database.seal)
        self._check()
        name = hashlib.sha256(content).hexdigest()
        self._contents.setdefault(name, content)
        return name

    def get(self, name: str) -> bytes:
        """See `Blobs.get`."""
        if name not in self._contents:
            raise LookupError(f"there is no blob {name[:80]}")
        content = self._contents[name]
        if hashlib.sha256(content).hexdigest() != name:
            raise DamagedBlobError(f"blob {name} has another content than its name says")
        return content

    def __repr__(self) -> str:
        return "memory"


class MemoryEvents:
    """`EventStore` over dicts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def publish(
        self, events: Sequence[NewEvent], claimant: Claimant | None = None
    ) -> tuple[list[Published], list[Claimed]]:
        return self._store.transact(lambda tx: publish(tx, events, claimant))


class MemoryOutbox:
    """`OutboxStore` over dicts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def take(
        self, incarnation: Incarnation, sink: str, *, limit: int, batch_max: int, keep: Collection[int] = ()
    ) -> list[Batch]:
        return self._store.transact(lambda tx: outbox.take(tx, incarnation, sink, limit, batch_max, keep))

    async def settle(self, incarnation: Incarnation, settled: Sequence[Settled]) -> list[bool]:
        return self._store.transact(lambda tx: outbox.settle(tx, incarnation, settled))

    async def next_due(self, sink: str) -> Instant | None:
        return outbox.next_due(self._store.database, sink)

    async def list_owed(self, *, is_dead: bool, limit: int, after: int = 0) -> list[Owed]:
        return outbox.list_owed(self._store.database, is_dead=is_dead, limit=limit, after=after)

    async def replay(self, event_id: EventId, sink: str | None = None, *, by: str) -> int:
        return self._store.operate(lambda tx: outbox.replay(tx, event_id, sink, by))

    async def drop(self, event_id: EventId, sink: str | None = None, *, by: str) -> int:
        return self._store.operate(lambda tx: outbox.drop(tx, event_id, sink, by))


class MemoryHolds:
    """`HoldStore` over dicts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def pause(self, workflow: str | None, *, by: str, reason: str) -> bool:
        return self._store.operate(lambda tx: pause_workflow(tx, workflow, by, reason))

    async def resume(self, workflow: str | None, *, by: str) -> bool:
        return self._store.operate(lambda tx: resume_workflow(tx, workflow, by))

    async def list_holds(self) -> list[WorkflowHold]:
        return self._store.database.list_holds()

    async def list_acts(self, *, limit: int) -> list[HoldAct]:
        return list(reversed(self._store.database.hold_acts.values()))[:limit]


class MemoryLedger:
    """`LedgerStore` over dicts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def reserve(self, reservation: Reservation) -> Reserved:
        return self._store.operate(lambda tx: ledger.reserve(tx, reservation))

    async def settle(self, scope: str, key: str, answer: str) -> None:
        self._store.operate(lambda tx: ledger.settle(tx, scope, key, answer))

    async def note(self, act: NewAct) -> Act:
        return self._store.operate(lambda tx: ledger.note(tx, storable(act)))

    async def list_acts(self, *, limit: int, below: int = ACT_LAST) -> list[Act]:
        return ledger.list_acts(self._store.database, limit, below)

    async def head(self) -> ChainHead:
        return ledger.head_of(self._store.database)


class MemoryWorkers:
    """`WorkerStore` over dicts."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def register(self, worker: NewWorker) -> Worker:
        return self._store.transact(lambda tx: register(tx, worker))

    async def renew(self, incarnation: Incarnation, lease: int) -> Renewed:
        return self._store.transact(lambda tx: renew(tx, incarnation, lease))

    async def retire(self, incarnation: Incarnation) -> None:
        self._store.operate(lambda tx: retire(tx, incarnation))
