"""A store: one attribute per noun."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stepwell.clock import Instant
from stepwell.codec.blobs import Blobs
from stepwell.stores.base.events import EventStore
from stepwell.stores.base.holds import HoldStore
from stepwell.stores.base.ledger import LedgerStore
from stepwell.stores.base.outbox import OutboxStore
from stepwell.stores.base.runs import RunStore
from stepwell.stores.base.signals import SignalStore
from stepwell.stores.base.transactions import TransactionStore
from stepwell.stores.base.transfers import TransferStore
from stepwell.stores.base.views import ViewStore
from stepwell.stores.base.wakeups import Wakeups
from stepwell.stores.base.workers import WorkerStore


class Capabilities(NamedTuple):
    """What a store declares of itself."""

    name: str
    survives_restart: bool
    is_shared: bool  # several processes may use it at once
    has_transactions: bool = False  # authors' own rows can be committed with the record


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
    def transactions(self) -> TransactionStore: ...
    @property
    def transfers(self) -> TransferStore: ...
    @property
    def views(self) -> ViewStore: ...
    @property
    def wakeups(self) -> Wakeups: ...
    @property
    def blobs(self) -> Blobs:
        """Large payloads, by their hash. One that was put is durable before, or in the transaction of, anything that
        this store writes later. Nothing removes them yet.
        """
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def now(self) -> Instant:
        """The store's clock, as far as this process knows it:
        never behind any instant this store has shown, and never going back.
        """
        ...

    def declare_encrypted(self) -> None:
        """Values that are written through this handle from now on are encrypted.

        The first of its writes marks the database. Whoever has not declared this, by whatever handle and process, is
        refused with `EncryptedStoreError` after that, but for what carries no value: acts on runs and workflows that
        are there, the ledger, and moving. Reads go on.
        """
        ...

    async def open(self) -> None:
        """Get ready to be used; creates or migrates what is missing."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...
