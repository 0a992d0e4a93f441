"""Closing a database, and filling one from another."""

from __future__ import annotations

import hashlib
import sys
from typing import Any, assert_never

import apsw

from stepwell.clock import Instant
from stepwell.codec.blobs import DamagedBlobError
from stepwell.model.holds import ALL_WORKFLOWS
from stepwell.model.ledger import Act, Reservation
from stepwell.model.outbox import Owed
from stepwell.model.records import Record
from stepwell.model.runs import Run
from stepwell.model.states import WaitKind
from stepwell.stores.base.packed_items import (
    Item,
    PackedBlob,
    PackedChunk,
    PackedEvent,
    PackedRecordEvent,
    PackedRun,
    PackedSignal,
    TransferBatch,
)
from stepwell.stores.base.transfers import (
    Seal,
    SealKind,
    damaged,
    differs,
    in_use,
    not_empty,
    not_sealed,
    sealed,
    unattached,
)
from stepwell.stores.sqlite.blobs import read_blob
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.packed_items import Packer, manifest
from stepwell.stores.sqlite.rows import encode_locations, encode_texts, from_run, to_worker
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.holds import add_act
from stepwell.stores.sqlite.transitions.rescues import rescue


def seal(
    tx: Transaction,
    database: SqliteDatabase,
    transfer_id: str,
    kind: SealKind,
    peer: str,
    since: Instant | None = None,
) -> Seal:
    """Close the database, if no worker is using it."""
    known = database.seal
    if known is not None:
        if (known.transfer_id, known.kind) == (transfer_id, kind):
            return known
        raise sealed(known)
    live = tx.rows("transfers.list_live_workers", now=tx.now)
    if live:
        raise in_use(map(to_worker, live))
    if kind is SealKind.ARRIVING and (found := manifest(tx.connection)).items:
        raise not_empty(found)
    rescue(tx, sys.maxsize)
    at = tx.now
    if since is not None and since > at:
        at = since
    database.raise_floor(at)
    new = Seal(transfer_id, kind, peer, at)
    tx.run("transfers.seal", **new._asdict())
    database.seal = new
    return new


def release(tx: Transaction, database: SqliteDatabase, transfer_id: str) -> Seal:
    """Close the source permanently."""
    known = database.seal
    if known is None or known.transfer_id != transfer_id or known.kind is SealKind.ARRIVING:
        raise not_sealed(transfer_id)
    tx.run("transfers.release")
    database.seal = known._replace(kind=SealKind.LEFT)
    return database.seal


def reopen(tx: Transaction, database: SqliteDatabase, transfer_id: str, kind: SealKind) -> bool:
    """Open the database. Returns whether it was closed."""
    known = database.seal
    if known is None:
        return False
    if (known.transfer_id, known.kind) != (transfer_id, kind):
        raise sealed(known)
    tx.run("transfers.unseal")
    database.seal = None
    return True


def clear(tx: Transaction) -> None:
    """Delete everything."""
    tx.run("transfers.clear")
    tx.known_revisions.clear()


# --- filling ---


def unpack(tx: Transaction, database: SqliteDatabase, transfer_id: str, batch: TransferBatch) -> None:
    """Add the items of a batch; skip items that are there and identical."""
    known = database.seal
    if known is None or (known.transfer_id, known.kind) != (transfer_id, SealKind.ARRIVING):
        raise not_sealed(transfer_id)
    tx.run("meta.raise", name="receipts", value=batch.highest.receipts)
    tx.run("transfers.raise_sequence", name="stepwell_outbox", number=batch.highest.owed)
    tx.run("transfers.raise_sequence", name="stepwell_records", number=batch.highest.records)
    _replace_holds(tx, batch)
    tx.run("ledger.set_head", **batch.head._asdict())
    if batch.is_encrypted:
        tx.run("meta.mark_encrypted", value=1)
        database.is_encrypted = True
    packer = Packer(tx.connection)
    for item in batch.items:
        there = _find(tx, packer, item)
        if there is None:
            try:
                _add(tx, item)
            except apsw.ConstraintError as error:  # another item has its number or its key
                raise differs(item) from error
        elif there != item:
            raise differs(item)


def restore(tx: Transaction, packed: PackedRun) -> bool:
    """Add one run, unless its id or key is taken."""
    run = packed.run
    if tx.find("transfers.find_run", run_id=run.run_id) is not None:
        return False
    holds_key = run.key is not None and run.ended_at is None
    if holds_key and tx.find("transfers.find_holder", key=run.key) is not None:
        return False
    _add_run(tx, packed)
    return True


def _find(tx: Transaction, packer: Packer, item: Item) -> Item | None:
    """The stored item with the same identity, if any."""
    match item:
        case PackedBlob(name=name):
            try:
                return PackedBlob(name, read_blob(tx.connection, name))
            except LookupError:
                return None
            except DamagedBlobError:
                raise damaged(name) from None
        case PackedEvent(event_id=event_id):
            return packer.find_event(event_id)
        case PackedRun(run=run):
            return packer.find_run(run.run_id)
        case PackedChunk(run_id=run_id, stream=stream, offset=offset):
            return packer.find_chunk(run_id, stream, offset)
        case PackedSignal(signal_id=signal_id):
            return packer.find_signal(signal_id)
        case Owed(number=number):
            return packer.find_owed(number)
        case Record(number=number):
            return packer.find_record(number)
        case PackedRecordEvent(record=record, event=event):
            return packer.find_record_event(record, event.number)
        case Reservation(scope=scope, key=key):
            return packer.find_request(scope, key)
        case Act(number=number):
            return packer.find_act(number)
        case _:
            assert_never(item)


def _add(tx: Transaction, item: Item) -> None:
    match item:
        case PackedBlob(name=name, content=content):
            if hashlib.sha256(content).hexdigest() != name:
                raise damaged(name)
            tx.run("blobs.store", hash=bytes.fromhex(name), content=content, now=tx.now)
        case PackedEvent():
            stored = item._asdict() | {"facets": encode_texts(item.facets), "is_taken": int(item.is_taken)}
            tx.run("transfers.add_event", **stored)
        case PackedRun():
            _add_run(tx, item)
        case PackedChunk():
            _add_to(tx, item, "chunk", **item._asdict() | {"kind": item.kind.value})
        case PackedSignal():
            _add_signal(tx, item)
        case Owed():
            _add_to(tx, item, "owed", **item._asdict())
        case Record():
            _add_record(tx, item)
        case PackedRecordEvent(record=record, event=event, change_id=change_id):
            _add_to(tx, item, "record_event", record=record, **event._asdict(), change_id=change_id)
        case Reservation():
            tx.run("ledger.reserve", **item._asdict())
        case Act():
            tx.run("ledger.add_act", **item._asdict())
        case _:
            assert_never(item)


def _add_to(tx: Transaction, item: Item, what: str, **values: Any) -> None:
    """Add a row to its run or event, which must exist."""
    tx.run(f"transfers.add_{what}", **values)
    if tx.connection.changes() != 1:
        raise unattached(item)


def _replace_holds(tx: Transaction, batch: TransferBatch) -> None:
    """Pause the same workflows as in the source."""
    tx.run("holds.forget_all")
    for workflow, hold in batch.holds:
        tx.run("holds.add", workflow=workflow or ALL_WORKFLOWS, **hold._asdict())
    for act in batch.hold_acts:
        add_act(tx, act)


def _add_signal(tx: Transaction, item: PackedSignal) -> None:
    if item.run_id is not None and tx.find("transfers.find_run", run_id=item.run_id) is None:
        raise unattached(item)
    stored = item._asdict() | {"asks": int(item.asks)}
    del stored["reply"]
    tx.run("transfers.add_signal", **stored)
    reply = item.reply
    if reply is not None:
        tx.run("transfers.add_reply", number=item.number, status=reply.status.value, value=reply.value, at=reply.at)


def _add_record(tx: Transaction, item: Record) -> None:
    if item.run_id is not None and tx.find("transfers.find_run", run_id=item.run_id) is None:
        raise unattached(item)
    stored = item._asdict() | {"labels": encode_texts(item.labels)}
    tx.run("transfers.add_record", **stored)
    tx.run("records.add_labels", **stored, record=item.number)


def _add_run(tx: Transaction, packed: PackedRun) -> None:
    run = _add_row(tx, packed.run, packed.applied)
    if packed.discards:
        tx.run("signals.plan_discard", run=run)
    history = packed.history
    for name in history.names:
        tx.run("names.append", run=run, name=name)
    for entry in history.entries:
        tx.run("entries.append", run=run, **entry._asdict())
    for attempt in history.attempts:
        tx.run("attempts.record", run=run, **attempt._asdict())
    for cursor in history.cursors:
        tx.run("cursors.set", run=run, **cursor._asdict())
    for progress in history.progress:
        tx.run("progress.keep", run=run, **progress._asdict())
    _add_waits(tx, run, packed)
    for number, event_id, locations, is_read in packed.receipts:
        places = encode_locations(locations)
        values = {"number": number, "event_id": event_id, "locations": places, "is_read": int(is_read)}
        _add_to(tx, packed, "receipt", run=run, **values)
    for published in packed.published:
        tx.run("live.publish", run=run, **published._asdict())
    for act in packed.audit:
        acts = act._asdict()
        del acts["run_id"]
        tx.run("transfers.add_audit", run=run, **acts)


def _add_row(tx: Transaction, run: Run, applied: int) -> int:
    """Add the run's own row and its payloads. Returns its number in this database."""
    values = from_run(run)
    definition = tx.definition(run.workflow, run.version, run.priority)
    row = tx.find("transfers.add_run", **values, definition=definition, number=applied)
    assert row is not None
    tx.run("transfers.add_payloads", **values, run=row[0])
    return int(row[0])


def _add_waits(tx: Transaction, run: int, packed: PackedRun) -> None:
    opened = dict(packed.open_waits)
    for position, wait in enumerate(packed.history.waits):
        common = {
            "run": run,
            "position": position,
            "location": wait.location,
            "token": wait.token,
            "due_at": wait.due_at,
            "names": encode_texts(wait.names),
            "limit_at": wait.limit_at,
        }
        if wait.kind is not WaitKind.TOPIC:
            tx.run("waits.add", kind=wait.kind.value, **common)
            continue
        number = opened.get(position)
        is_open = number is not None
        tx.run(
            "waits.add_topic",
            since=wait.since,
            facets=encode_texts(wait.where),
            topic=wait.names[0] if is_open else None,
            facet=min(wait.where, default="") if is_open else None,
            armed=number,
            **common,
        )
        if is_open:
            tx.run("meta.raise", name="armed", value=number)
