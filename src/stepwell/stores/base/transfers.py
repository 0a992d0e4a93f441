"""Moving runs: a single run into a store in use, or a whole store: seal the source, copy batches, open the destination.

    source        destination
    open          open, and empty
    seal          .             from here on nothing changes in the source
    .             expect        from here on only `unpack` changes the destination
    pack ───────► unpack        batch by batch, until `TransferBatch.next` is empty
    .             .             the mover compares the contents and replays the runs
    release       .             the source is never opened again
    .             accept        the destination is open

The two are never open at the same time, so no run continues in both. Each transition can be repeated with the same
transfer id, so an interrupted move can be resumed. `unseal` and `reject` undo the first two transitions.

`stepwell.stores.base.packed_items` describes what is packed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from stepwell.clock import Instant
from stepwell.errors import StoreInUseError, StoreSealedError, TransferError
from stepwell.model.workers import Worker
from stepwell.stores.base.packed_items import Item, PackedRun, TransferBatch, name_of


class SealKind(StrEnum):
    """Why a store is closed."""

    LEAVING = "leaving"  # its runs are being copied to the peer
    LEFT = "left"  # the peer has them, permanently
    ARRIVING = "arriving"  # runs are being copied into it from the peer


class Seal(NamedTuple):
    """Why and for whom a store is closed. Writes raise `StoreSealedError`; reads continue."""

    transfer_id: str
    kind: SealKind
    peer: str  # the other database: an address without a password
    at: Instant  # the store's own time; it has written no later instant


class Manifest(NamedTuple):
    """How much a store holds."""

    runs: int
    active: int  # the runs that have not ended
    chunks: int  # of all streams
    events: int  # all known events, kept or not
    signals: int  # in mailboxes, held, or only remembered
    owed: int  # to sinks, and dead letters
    blobs: int
    requests: int = 0  # idempotency keys that are kept
    acts: int = 0  # lines of the audit
    records: int = 0
    record_events: int = 0

    @property
    def items(self) -> int:
        """How many items `pack` returns in all."""
        beside = self.blobs + self.requests + self.acts + self.records + self.record_events
        return self.runs + self.chunks + self.events + self.signals + self.owed + beside


class TransferStore(Protocol):
    """Transitions of a store whose contents are moved. Except `restore`, they are for stores without live workers."""

    async def find_seal(self) -> Seal | None:
        """The seal of the store; None if it is open."""
        ...

    async def manifest(self) -> Manifest:
        """How much the store holds."""
        ...

    # --- one run ---

    async def restore(self, packed: PackedRun) -> bool:
        """Add one run to a store that is open, in one transaction. The run has no owner and continues at its `wake_at`.

        It brings no receipts and no open waits. False, and nothing is written, if its id is taken, or if it has not
        ended and another active run has its key. Raises `StoreSealedError` if the store is closed.
        """
        ...

    # --- the source ---

    async def seal(self, transfer_id: str, to: str) -> Seal:
        """Close the store as LEAVING. From then on only `release` and `unseal` change it.

        Every other write, by any handle and process, raises `StoreSealedError`. That includes transactions, callers'
        connections, workers, and repetitions of writes that were not acknowledged. `pack` returns everything that was
        acknowledged before. Reads and `pack` continue.
        Runs whose worker's lease has expired are freed first as by `RunStore.rescue`: a stall is counted, but no run is
        paused. What such workers had taken from the outbox is due, and their rows are removed.
        Repeating it returns the existing seal. Raises `StoreInUseError` while a worker has a live lease, and
        `StoreSealedError` if the store has another seal.
        """
        ...

    async def pack(self, after: str = "", *, limit: int) -> TransferBatch:
        """The next batch: items of one kind, at most `limit`; only the last batch may be empty. A batch ends early when
        it reaches `BATCH_BYTES`.

        `after` is the `next` of the previous batch. The order is: blobs by name, events by number, runs in creation
        order, chunks by run (in creation order), stream (by code points) and offset, signals by number, outbox rows by
        number, records by number, their events by record and number, idempotency keys by scope and key (by code
        points), audit lines by number. Every store packs the same content in the same order with the same values; only
        the cuts between batches may differ.
        Raises `TransferError` unless the store is sealed.
        """
        ...

    async def release(self, transfer_id: str) -> Seal:
        """LEAVING becomes LEFT, permanently. Repeating it returns the seal. Raises `TransferError` if the store is not
        sealed for this transfer.
        """
        ...

    async def unseal(self, transfer_id: str) -> None:
        """Open a store that is LEAVING again, unchanged. Does nothing if it is open. Raises `StoreSealedError` if it
        has another seal or has LEFT.
        """
        ...

    # --- the destination ---

    async def expect(self, transfer_id: str, source: str, *, since: Instant) -> Seal:
        """Close the store as ARRIVING. From then on only `unpack`, `accept` and `reject` change it; other writes are
        rejected as by `seal`.

        `since` is `Seal.at` of the source: this store shows no earlier instant from now on.
        Repeating it returns the existing seal. Raises `TransferError` if the store holds anything, `StoreInUseError`
        while a worker has a live lease, and `StoreSealedError` if the store has another seal.
        """
        ...

    async def unpack(self, transfer_id: str, batch: TransferBatch) -> None:
        """Add the contents of a batch unchanged, in one transaction. This has no other effects: no run takes over a
        held signal or is woken. From then on the store assigns no number up to those in `TransferBatch.highest`.

        Runs are created in the order of the batch. Items that are there already and are identical are skipped. Raises
        `TransferError`, and nothing is written, if an item is there with another content, if its run, event or
        record is missing, if the content of a blob does not match its name, or if the store does not expect this
        transfer.
        """
        ...

    async def accept(self, transfer_id: str) -> None:
        """Open a store that is ARRIVING. It assigns only numbers above the unpacked ones. Does nothing if it is open
        already. Raises `StoreSealedError` if it has another seal.
        """
        ...

    async def reject(self, transfer_id: str) -> None:
        """Empty a store that is ARRIVING, and open it. Does nothing if it is open. Raises `StoreSealedError` if it has
        another seal.
        """
        ...


# --- errors that all stores use ---


def sealed(seal: Seal) -> StoreSealedError:
    """A write to a store that is closed."""
    match seal.kind:
        case SealKind.LEFT:
            title, fix = f"this database has been moved to {seal.peer}", f"use the new database: --db {seal.peer}"
            why = "its runs continue there; if they continued here too, they would run twice"
        case SealKind.LEAVING:
            title = f"this database is being moved to {seal.peer}"
            why = "anything written now would be missing there"
            fix = "wait for `stepwell move`; if it was interrupted, run it again, or undo it with --undo"
        case SealKind.ARRIVING:
            title = f"this database is being filled from {seal.peer}"
            why = "its runs may continue only when all have arrived and the other database is closed"
            fix = "wait for `stepwell move`; if it was interrupted, run it again, or undo it with --undo"
    return StoreSealedError(title, why=why, fix=fix)


def in_use(workers: Iterable[Worker]) -> StoreInUseError:
    """Workers are alive, and one of their steps may be running."""
    names = ", ".join(f"{worker.name} ({worker.incarnation})" for worker in workers)
    return StoreInUseError(
        f"workers are using this database: {names}",
        why="a step may be running, and its result would be lost",
        fix="stop the workers first; if a worker died, wait until its lease expires",
    )


def not_empty(found: Manifest) -> TransferError:
    """The destination holds something already."""
    of_runs = f"{found.runs} runs, {found.events} events, {found.signals} signals and {found.blobs} large payloads"
    there = f"{of_runs}, {found.records} records, {found.requests} idempotency keys and {found.acts} lines of audit"
    return TransferError(
        "the destination is not empty",
        why=f"it contains {there}",
        fix="move into a new database",
    )


def not_sealed(transfer_id: str) -> TransferError:
    """The store takes no part in this transfer."""
    return TransferError(
        f"the database is not sealed for transfer {transfer_id}" if transfer_id else "the database is not sealed",
        why="only a sealed database can be packed, released or filled",
        fix="run `stepwell move` again",
    )


def differs(item: Item) -> TransferError:
    """The destination has this item already, with another content."""
    what = name_of(item)
    return TransferError(
        f"{what} is already in the destination, with another content",
        why="it was changed there, or it did not come from this source",
        fix="move into a new database",
    )


def unattached(item: Item) -> TransferError:
    """An item refers to a run, an event or a record that is missing."""
    return TransferError(
        f"{name_of(item)} arrived before the run, event or record that it belongs to",
        why="that run, event or record is not in the destination",
        fix="unpack the batches in the order in which they were packed",
    )


def unstorable(item: Item, words: str) -> TransferError:
    """The destination cannot store an item that the source could store."""
    return TransferError(
        f"{name_of(item)} cannot be stored in the destination",
        why=words,
        fix="move into a database of the same kind as the source",
    )


def damaged(name: str) -> TransferError:
    """The content of a large payload does not match its name."""
    return TransferError(
        f"the content of the large payload {name} does not match its name",
        why="the name is the hash of the content, so the database is damaged",
        fix="restore that database from a backup",
    )
