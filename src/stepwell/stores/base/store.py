"""A store: one attribute per noun."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stepwell.clock import Instant
from stepwell.codec.blobs import Blobs
from stepwell.stores.base.diagnosis import Diagnosis
from stepwell.stores.base.events import EventStore
from stepwell.stores.base.holds import HoldStore
from stepwell.stores.base.ledger import LedgerStore
from stepwell.stores.base.outbox import OutboxStore
from stepwell.stores.base.overviews import OverviewStore
from stepwell.stores.base.records import RecordStore
from stepwell.stores.base.retention import RetentionStore
from stepwell.stores.base.runs import RunStore
from stepwell.stores.base.signals import SignalStore
from stepwell.stores.base.transactions import TransactionStore
from stepwell.stores.base.transfers import TransferStore
from stepwell.stores.base.upkeep import Upkeep
from stepwell.stores.base.views import ViewStore
from stepwell.stores.base.wakeups import Wakeups
from stepwell.stores.base.workers import WorkerStore


class Capabilities(NamedTuple):
    """What a store can do."""

    name: str
    survives_restart: bool
    is_shared: bool  # several processes may use it at once
    has_transactions: bool = False  # an author's rows can be committed with the record


class Store(Protocol):
    """Where runs are recorded."""

    @property
    def runs(self) -> RunStore: ...
    @property
    def signals(self) -> SignalStore: ...
    @property
    def events(self) -> EventStore: ...

    @property
    def outbox(self) -> OutboxStore: ...
    @property
    def workers(self) -> WorkerStore: ...
    @property
    def holds(self) -> HoldStore: ...
    @property
    def ledger(self) -> LedgerStore: ...
    @property
    def records(self) -> RecordStore: ...
    @property
    def retention(self) -> RetentionStore: ...
    @property
    def transactions(self) -> TransactionStore: ...
    @property
    def transfers(self) -> TransferStore: ...
    @property
    def views(self) -> ViewStore: ...
    @property
    def overviews(self) -> OverviewStore: ...
    @property
    def wakeups(self) -> Wakeups: ...
    @property
    def blobs(self) -> Blobs:
        """Large payloads, by hash. After `put`, a payload becomes durable before anything that this store writes later,
        or in the same transaction. `retention.sweep_blobs` removes those that no row refers to.
        """
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def now(self) -> Instant:
        """The store's clock, as far as this process knows it. It never goes back, and it is never behind an instant
        that this store has returned.
        """
        ...

    def declare_encrypted(self) -> None:
        """Declare that this handle encrypts the values that it writes.

        Its first write marks the database. From then on, every handle in every process that has not declared this gets
        `EncryptedStoreError` when it writes a value. Writes without values are still accepted: acts on existing runs
        and workflows, the ledger, and transfers. Reads continue.
        """
        ...

    def diagnosis(self) -> Diagnosis | None:
        """An examination of this database, over a connection of its own; None if it exists only in this process."""
        ...

    def upkeep(self) -> Upkeep | None:
        """Measures and cleans this database, over a connection of its own; None if it exists only in this process."""
        ...

    async def open(self) -> None:
        """Prepare the store for use; create or migrate what is missing."""
        ...

    async def close(self) -> None:
        """Release all resources."""
        ...
