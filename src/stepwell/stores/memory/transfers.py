"""Closing a database, and moving what it holds."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Protocol, TypeVar, assert_never

from stepwell.clock import Instant
from stepwell.model.ledger import Act, Reservation
from stepwell.model.outbox import Owed
from stepwell.stores.base.parcels import (
    Item,
    PackedBlob,
    PackedChunk,
    PackedEvent,
    PackedRun,
    PackedSignal,
    Parcel,
    fill,
)
from stepwell.stores.base.transfers import (
    Manifest,
    Seal,
    SealKind,
    damaged,
    differs,
    homeless,
    in_use,
    not_empty,
    not_sealed,
    sealed,
)
from stepwell.stores.memory.database import MemoryDatabase
from stepwell.stores.memory.ledger import add_act
from stepwell.stores.memory.packing import (
    Packer,
    manifest,
    unpack_chunk,
    unpack_event,
    unpack_holds,
    unpack_owed,
    unpack_run,
    unpack_signal,
)
from stepwell.stores.memory.rescues import rescue
from stepwell.stores.memory.transaction import Transaction

T = TypeVar("T")
_KEPT = frozenset({"seal", "times", "hubs"})


def seal(tx: Transaction, transfer_id: str, kind: SealKind, peer: str, since: Instant | None = None) -> Seal:
    """Close the database, if nobody works with it."""
    db = tx.db
    if db.seal is not None:
        if (db.seal.transfer_id, db.seal.kind) == (transfer_id, kind):
            return db.seal
        raise sealed(db.seal)
    live = [worker for worker in db.workers.values() if worker.lease_until > tx.now]
    if live:
        raise in_use(live)
    if kind is SealKind.ARRIVING and manifest(db).items:
        raise not_empty(manifest(db))
    rescue(tx, sys.maxsize)
    db.seal = Seal(transfer_id, kind, peer, tx.now)
    db.times.shown = max(db.times.shown, since or tx.now)
    return db.seal


def release(tx: Transaction, transfer_id: str) -> Seal:
    """Close the source for good."""
    found = tx.db.seal
    if found is None or found.transfer_id != transfer_id or found.kind is SealKind.ARRIVING:
        raise not_sealed(transfer_id)
    tx.db.seal = found._replace(kind=SealKind.LEFT)
    return tx.db.seal


def reopen(tx: Transaction, transfer_id: str, kind: SealKind) -> bool:
    """Open the database; whether it was closed."""
    found = tx.db.seal
    if found is None:
        return False
    if (found.transfer_id, found.kind) != (transfer_id, kind):
        raise sealed(found)
    tx.db.seal = None
    return True


def clear(tx: Transaction) -> None:
    """Forget everything."""
    empty = MemoryDatabase()
    for name in (field.name for field in fields(MemoryDatabase) if field.name not in _KEPT):
        held = getattr(tx.db, name)
        if isinstance(held, dict):
            held.clear()  # others have hold of it
        else:
            setattr(tx.db, name, getattr(empty, name))


def unpack(tx: Transaction, transfer_id: str, parcel: Parcel) -> None:
    """Add what is in a parcel, and leave alone what is there just so."""
    db = tx.db
    if db.seal is None or (db.seal.transfer_id, db.seal.kind) != (transfer_id, SealKind.ARRIVING):
        raise not_sealed(transfer_id)
    db.receipts_given = max(db.receipts_given, parcel.given.receipts)
    tx.put(db.counters, "outbox", max(db.counters.get("outbox", 0), parcel.given.owed))
    unpack_holds(tx, parcel)
    tx.put(db.chain, "", parcel.head)
    db.is_encrypted |= parcel.is_encrypted
    taken = {
        PackedSignal: {row.number for row in db.signals.values()} if parcel.signals else set(),
        PackedEvent: {row.number for row in db.events.values()} if parcel.events else set(),
    }
    for item in parcel.items:
        known = _find(db, item)
        if known is not None and known == item:
            continue
        is_taken = isinstance(item, PackedSignal | PackedEvent) and item.number in taken[type(item)]
        is_noted = isinstance(item, Act) and (item.request_id, item.outcome) in db.noted
        if known is not None or is_taken or is_noted:
            raise differs(item)
        if not _has_home(db, item):
            raise homeless(item)
        _add(tx, item)


def restore(tx: Transaction, packed: PackedRun) -> bool:
    """Add one run, unless its place is taken."""
    run, db = packed.run, tx.db
    if db.seal is not None:
        raise sealed(db.seal)
    if run.run_id in db.runs:
        return False
    if run.key is not None and run.ended_at is None:
        others = (row for row in db.runs.values() if row.key == run.key and row.ended_at is None)
        if any(row.replaced_by is None and row.debounced_until is None for row in others):
            return False
    unpack_run(tx, packed)
    return True


def _has_home(db: MemoryDatabase, item: Item) -> bool:
    """Whether what something belongs to is there."""
    match item:
        case PackedRun(receipts=receipts):
            return all(receipt.event_id in db.events for receipt in receipts)
        case PackedChunk(run_id=run_id) | PackedSignal(run_id=run_id) | Owed(run_id=run_id):
            return run_id is None or run_id in db.runs
        case PackedBlob() | PackedEvent() | Reservation() | Act():
            return True
        case _:
            assert_never(item)


def _find(db: MemoryDatabase, item: Item) -> Item | None:
    """What is there in place of something that comes."""
    packer = Packer(db)
    match item:
        case PackedBlob(name=name):
            return PackedBlob(name, db.blobs[name]) if name in db.blobs else None
        case PackedEvent(event_id=event_id):
            row = db.events.get(event_id)
            # Whether its payload is wanted is not known before the runs that have it are there.
            return None if row is None else packer.event(row)._replace(payload=item.payload and row.payload)
        case PackedRun(run=run):
            return packer.run(db.runs[run.run_id]) if run.run_id in db.runs else None
        case PackedChunk(run_id=run_id, stream=stream, offset=at):
            line = db.chunks.get((run_id, stream), {}).get(at)
            return None if line is None else packer.chunk(run_id, at, line)
        case PackedSignal(signal_id=signal_id):
            return packer.signal(db.signals[signal_id]) if signal_id in db.signals else None
        case Owed(number=number):
            return db.outbox[number].owed if number in db.outbox else None
        case Reservation(scope=scope, key=key):
            return db.requests.get((scope, key))
        case Act(number=number):
            return db.acts.get(number)
        case _:
            assert_never(item)


def _add(tx: Transaction, item: Item) -> None:
    match item:
        case PackedBlob(name=name, content=content):
            if hashlib.sha256(content).hexdigest() != name:
                raise damaged(name)
            tx.put(tx.db.blobs, name, content)
        case PackedEvent():
            unpack_event(tx, item)
        case PackedRun():
            unpack_run(tx, item)
        case PackedChunk():
            unpack_chunk(tx, item)
        case PackedSignal():
            unpack_signal(tx, item)
        case Owed():
            unpack_owed(tx, item)
        case Reservation(scope=scope, key=key):
            tx.put(tx.db.requests, (scope, key), item)
        case Act():
            add_act(tx, item)
        case _:
            assert_never(item)


class Host(Protocol):
    """What transfers need of their store."""

    database: MemoryDatabase

    def transfer(self, transition: Callable[[Transaction], T]) -> T:
        """Make one transition whole, whether or not the store is sealed."""
        ...


class MemoryTransfers:
    """`TransferStore` over dicts."""

    def __init__(self, store: Host) -> None:
        self._store = store

    async def find_seal(self) -> Seal | None:
        return self._store.database.seal

    async def manifest(self) -> Manifest:
        return manifest(self._store.database)

    async def restore(self, packed: PackedRun) -> bool:
        return self._store.transfer(lambda tx: restore(tx, packed))

    async def seal(self, transfer_id: str, to: str) -> Seal:
        return self._store.transfer(lambda tx: seal(tx, transfer_id, SealKind.LEAVING, to))

    async def pack(self, after: str = "", *, limit: int) -> Parcel:
        if self._store.database.seal is None:
            raise not_sealed("")
        packer = Packer(self._store.database)
        parcel = fill(after, limit, packer.shelf)
        whole = parcel._replace(is_encrypted=self._store.database.is_encrypted, head=packer.head)
        return whole._replace(given=packer.given, holds=packer.holds, hold_acts=packer.hold_acts)

    async def release(self, transfer_id: str) -> Seal:
        return self._store.transfer(lambda tx: release(tx, transfer_id))

    async def unseal(self, transfer_id: str) -> None:
        self._store.transfer(lambda tx: reopen(tx, transfer_id, SealKind.LEAVING))

    async def expect(self, transfer_id: str, source: str, *, since: Instant) -> Seal:
        return self._store.transfer(lambda tx: seal(tx, transfer_id, SealKind.ARRIVING, source, since))

    async def unpack(self, transfer_id: str, parcel: Parcel) -> None:
        self._store.transfer(lambda tx: unpack(tx, transfer_id, parcel))

    async def accept(self, transfer_id: str) -> None:
        self._store.transfer(lambda tx: reopen(tx, transfer_id, SealKind.ARRIVING))

    async def reject(self, transfer_id: str) -> None:
        def transition(tx: Transaction) -> None:
            if reopen(tx, transfer_id, SealKind.ARRIVING):
                clear(tx)

        self._store.transfer(transition)
