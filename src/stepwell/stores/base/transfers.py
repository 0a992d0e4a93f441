"""Moving runs: one into a store in use, or everything: the source is sealed, parcels are copied, the other one opened.

    source        destination
    open          open, and empty
    seal          .             nothing changes in the source from here on
    .             expect        nothing but `unpack` changes the destination from here on
    pack ───────► unpack        parcel by parcel, until `Parcel.next` is empty
    .             .             whoever moves compares, and replays
    release       .             the source is never opened again
    .             accept        the destination is open

There is no moment at which both are open, so no run goes on twice. Each transition can be repeated with the same id of
the transfer: a move that was interrupted goes on where it was. `unseal` and `reject` take the first two back.

What is packed is in `stepwell.stores.base.parcels`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from stepwell.clock import Instant
from stepwell.errors import StoreInUseError, StoreSealedError, TransferError
from stepwell.model.workers import Worker
from stepwell.stores.base.parcels import Item, PackedRun, Parcel, name_of


class SealKind(StrEnum):
    """Why a store is closed."""

    LEAVING = "leaving"  # its runs are being copied to the peer
    LEFT = "left"  # the peer has them, for good
    ARRIVING = "arriving"  # runs are being copied into it from the peer


class Seal(NamedTuple):
    """A store that is closed: who asks it for a write is refused with `StoreSealedError`, and reads go on."""

    transfer_id: str
    kind: SealKind
    peer: str  # the other database as people know it: an address without a password
    at: Instant  # the store's own time: no instant that it has written is later


class Manifest(NamedTuple):
    """How much a store holds."""

    runs: int
    active: int  # of these runs, those that have not ended
    chunks: int  # of all streams
    events: int  # known ones, kept or not
    signals: int  # in mailboxes, held, or only known
    owed: int  # to sinks, and dead letters
    blobs: int
    requests: int = 0  # idempotency keys that are kept
    acts: int = 0  # lines of the audit

    @property
    def items(self) -> int:
        """How many things `pack` gives in all."""
        beside = self.blobs + self.requests + self.acts
        return self.runs + self.chunks + self.events + self.signals + self.owed + beside


class TransferStore(Protocol):
    """Transitions of a store whose contents are moved. Not one of them is for a store that is in use."""

    async def find_seal(self) -> Seal | None:
        """How the store is closed; None if it is open."""
        ...

    async def manifest(self) -> Manifest:
        """How much there is."""
        ...

    # --- one run ---

    async def restore(self, packed: PackedRun) -> bool:
        """Add one run to a store that is open, in one transaction; nobody owns it, and it goes on at its `wake_at`.

        It brings no receipts and no open waits. False, and nothing is written, if its id is taken, or if it has not
        ended and another active run has its key. Raises `StoreSealedError` if the store is closed.
        """
        ...

    # --- the source ---

    async def seal(self, transfer_id: str, to: str) -> Seal:
        """Close the store as LEAVING. Nothing of it changes any more but by `release` and `unseal`.

        Every other write, by whatever handle and process, raises `StoreSealedError`: also those of transactions, of
        callers' connections, of workers and of whoever repeats a write that was not acknowledged. What was acknowledged
        before is in what is packed. Reads and `pack` go on.
        Runs whose worker's lease is over are freed first as by `RunStore.rescue`, with a stall counted but without ever
        pausing one; what such workers had taken from the outbox is due, and no worker is left.
        Repeating it answers with the seal that is there. Raises `StoreInUseError` while a worker has a live lease, and
        `StoreSealedError` if the store is sealed otherwise.
        """
        ...

    async def pack(self, after: str = "", *, limit: int) -> Parcel:
        """The next parcel: at most `limit` things of one kind, and one at least unless it is the last. It ends early
        once it weighs `PARCEL_BYTES`.

        `after` is the `next` of the parcel before. In this order: blobs by name, events by number, runs as they were
        created, chunks by run (as created), stream (by code points) and offset, signals by number, what is owed by
        number, idempotency keys by scope and key (by code points), lines of the audit by number. Every store packs the
        same content in the same order and the same values; only where it is cut may differ.
        Raises `TransferError` unless the store is sealed.
        """
        ...

    async def release(self, transfer_id: str) -> Seal:
        """LEAVING becomes LEFT, for good. Repeating it answers with the seal. Raises `TransferError` if the store is
        not sealed for this transfer.
        """
        ...

    async def unseal(self, transfer_id: str) -> None:
        """Open a store that is LEAVING again, as it was. Nothing if it is open. Raises `StoreSealedError` if it is
        sealed otherwise, also if it has LEFT.
        """
        ...

    # --- the destination ---

    async def expect(self, transfer_id: str, source: str, *, since: Instant) -> Seal:
        """Close the store as ARRIVING. Nothing of it changes any more but by `unpack`, `accept` and `reject`; other
        writes are refused as by `seal`.

        `since` is `Seal.at` of the source: this store shows no earlier instant from now on.
        Repeating it answers with the seal that is there. Raises `TransferError` if the store holds anything,
        `StoreInUseError` while a worker has a live lease, and `StoreSealedError` if the store is sealed otherwise.
        """
        ...

    async def unpack(self, transfer_id: str, parcel: Parcel) -> None:
        """Add what is in a parcel, as it is, in one transaction. Nothing follows from it: no run takes over a held
        signal or is woken. No number up to those in `Parcel.given` is given from then on.

        Runs are created in the order in which they come. What is there already, just so, is left alone. Raises
        `TransferError`, and nothing is written, if something is there with another content, if its run or event is not
        there, if the content of a blob is not what its name says, or if the store does not expect this transfer.
        """
        ...

    async def accept(self, transfer_id: str) -> None:
        """Open a store that is ARRIVING. Whatever numbers it gives from now on are above those that came. Nothing if it
        is open already. Raises `StoreSealedError` if it is sealed otherwise.
        """
        ...

    async def reject(self, transfer_id: str) -> None:
        """Empty a store that is ARRIVING, and open it. Nothing if it is open. Raises `StoreSealedError` if it is sealed
        otherwise.
        """
        ...


# --- words that all stores use ---


def sealed(seal: Seal) -> StoreSealedError:
    """A write to a store that is closed."""
    match seal.kind:
        case SealKind.LEFT:
            title, fix = f"this database has been moved to {seal.peer}", f"use that one: --db {seal.peer}"
            why = "its runs go on there, and would go on twice if they went on here too"
        case SealKind.LEAVING:
            title = f"this database is being moved to {seal.peer}"
            why = "what is written to it now would not arrive there"
            fix = "wait for `stepwell move`; if that was stopped, run it again, or take it back with --undo"
        case SealKind.ARRIVING:
            title = f"this database is being filled from {seal.peer}"
            why = "its runs may go on when they have all arrived, and not before they have left the other one"
            fix = "wait for `stepwell move`; if that was stopped, run it again, or take it back with --undo"
    return StoreSealedError(title, why=why, fix=fix)


def in_use(workers: Iterable[Worker]) -> StoreInUseError:
    """Workers are alive, and one of their steps may be running at this moment."""
    names = ", ".join(f"{worker.name} ({worker.incarnation})" for worker in workers)
    return StoreInUseError(
        f"workers are using this database: {names}",
        why="a step may be running, and its result would be lost",
        fix="stop the workers first; of one that died, wait until its lease is over",
    )


def not_empty(found: Manifest) -> TransferError:
    """A destination that holds something of its own."""
    of_runs = f"{found.runs} runs, {found.events} events, {found.signals} signals and {found.blobs} large payloads"
    there = f"{of_runs}, {found.requests} idempotency keys and {found.acts} lines of audit"
    return TransferError(
        "the destination is not empty",
        why=f"it has {there}",
        fix="move into a new database",
    )


def not_sealed(transfer_id: str) -> TransferError:
    """The store has nothing to do with a transfer."""
    return TransferError(
        f"the database takes no part in transfer {transfer_id}" if transfer_id else "the database is not sealed",
        why="only what is sealed can be packed, released or filled",
        fix="run `stepwell move` again",
    )


def differs(item: Item) -> TransferError:
    """Something is in the destination already, and it is not the same."""
    what = name_of(item)
    return TransferError(
        f"{what} is in the destination already, with another content",
        why="it did not come from there as it is now",
        fix="move into a new database",
    )


def homeless(item: Item) -> TransferError:
    """Something refers to a run or an event that is not there."""
    return TransferError(
        f"{name_of(item)} arrives before what it belongs to",
        why="its run, or an event that it got, is not in the destination",
        fix="unpack parcels in the order in which they were packed",
    )


def unstorable(item: Item, words: str) -> TransferError:
    """The destination has no place for something that the source could hold."""
    return TransferError(
        f"{name_of(item)} cannot be stored in the destination",
        why=words,
        fix="move into a database of the same kind as the source",
    )


def damaged(name: str) -> TransferError:
    """A large payload is not what its name says."""
    return TransferError(
        f"the large payload {name} has another content than its name says",
        why="the database that it is in was damaged",
        fix="put that database back from a backup",
    )
