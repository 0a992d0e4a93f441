"""What a database holds, as parcels, and parcels as rows again."""

from __future__ import annotations

import msgspec

from stepwell.ids import RunId
from stepwell.model.holds import ALL_WORKFLOWS, HoldAct, WorkflowHold
from stepwell.model.ledger import ChainHead
from stepwell.model.live import Append
from stepwell.model.outbox import Owed
from stepwell.model.runs import Run
from stepwell.model.signals import Reply
from stepwell.model.states import ACTIVE, WaitKind
from stepwell.stores.base.parcels import (
    Given,
    OpenWait,
    PackedBlob,
    PackedChunk,
    PackedEvent,
    PackedReceipt,
    PackedReply,
    PackedRun,
    PackedSignal,
    Parcel,
    Shelf,
)
from stepwell.stores.base.transfers import Manifest
from stepwell.stores.memory import database
from stepwell.stores.memory.database import (
    EventRow,
    Mailbox,
    MemoryDatabase,
    OutboxRow,
    ReceiptRow,
    RunRow,
    SignalRow,
)
from stepwell.stores.memory.ledger import head_of
from stepwell.stores.memory.transaction import Transaction


def manifest(db: MemoryDatabase) -> Manifest:
    """How much there is."""
    return Manifest(
        len(db.runs),
        sum(row.status in ACTIVE for row in db.runs.values()),
        sum(map(len, db.chunks.values())),
        len(db.events),
        len(db.signals),
        len(db.outbox),
        len(db.blobs),
        len(db.requests),
        len(db.acts),
    )


class Packer:
    """Packs a database that stands still."""

    def __init__(self, db: MemoryDatabase) -> None:
        self._db = db

    @property
    def given(self) -> Given:
        """The highest numbers given."""
        return Given(self._db.receipts_given, self._db.counters.get("outbox", 0))

    @property
    def holds(self) -> tuple[WorkflowHold, ...]:
        """The workflows that are paused."""
        return tuple(self._db.list_holds())

    @property
    def hold_acts(self) -> tuple[HoldAct, ...]:
        """How that came."""
        return tuple(self._db.hold_acts.values())

    @property
    def head(self) -> ChainHead:
        """The last line of the audit."""
        return head_of(self._db)

    def shelf(self, kind: str, key: str) -> Shelf:
        """The things of one kind after a key."""
        db = self._db
        match kind:
            case "blobs":
                yield from ((name, PackedBlob(name, db.blobs[name])) for name in sorted(db.blobs) if name > key)
            case "events":
                rows = sorted(db.events.values(), key=lambda row: row.number)
                yield from ((str(row.number), self.event(row)) for row in rows if row.number > int(key or 0))
            case "runs":
                for position, row in enumerate(db.runs.values(), 1):
                    if position > int(key or 0):
                        yield str(position), self.run(row)
            case "chunks":
                yield from self._chunks(key)
            case "signals":
                signals = sorted(db.signals.values(), key=lambda row: row.number)
                yield from ((str(row.number), self.signal(row)) for row in signals if row.number > int(key or 0))
            case "owed":
                numbers = (number for number in sorted(db.outbox) if number > int(key or 0))
                yield from ((str(number), db.outbox[number].owed) for number in numbers)
            case "requests":
                after = msgspec.json.decode(key, type=tuple[str, str]) if key else ("", "")
                places = (place for place in sorted(db.requests) if place > after)
                yield from ((msgspec.json.encode(place).decode(), db.requests[place]) for place in places)
            case _:
                numbers = (number for number in sorted(db.acts) if number > int(key or 0))
                yield from ((str(number), db.acts[number]) for number in numbers)

    def _chunks(self, key: str) -> Shelf:
        order = {run_id: position for position, run_id in enumerate(self._db.runs)}
        after: tuple[int, str, int] = msgspec.json.decode(key or '[-1,"",0]', type=tuple[int, str, int])
        for run_id, stream in sorted(self._db.chunks, key=lambda at: (order[at[0]], at[1])):
            for offset, line in sorted(self._db.chunks[run_id, stream].items()):
                at = (order[run_id], stream, offset)
                if at > after:
                    mark = msgspec.json.encode(at).decode()
                    yield mark, self.chunk(run_id, offset, line)

    def chunk(self, run_id: RunId, offset: int, line: Append) -> PackedChunk:
        """One line of a stream."""
        return PackedChunk(run_id, line.stream, offset, line.kind, line.source, line.part, line.value)

    def event(self, row: EventRow) -> PackedEvent:
        """One event; the payload only if somebody may still want it."""
        unread = any(not receipt.is_read for receipt in self._db.receivers[row.number].values())
        is_wanted = unread or (row.kept_until is not None and not row.is_taken)
        return PackedEvent(
            row.number,
            row.event_id,
            row.topic,
            row.payload if is_wanted else None,
            row.facets,
            row.deliver,
            row.published_at,
            row.kept_until,
            row.is_taken,
            row.reached,
            row.forget_at,
        )

    def signal(self, row: SignalRow) -> PackedSignal:
        """One signal, whatever became of it."""
        db = self._db
        kind, name = row.mailbox
        refused = db.refused.get(row.number)
        is_kept = refused is not None or row.number in db.mailboxes[row.mailbox]
        is_known = row.dedup_key is not None and db.dedup.get((row.mailbox, row.name, row.dedup_key)) is row
        reply = db.replies.get(row.number)
        return PackedSignal(
            row.number,
            row.signal_id,
            RunId(name) if kind == "run" else None,
            name if kind == "key" else None,
            row.name,
            row.dedup_key if is_known else None,
            row.payload if is_kept else None,
            row.sent_at,
            row.asks,
            None if refused is None else refused[1],
            None if reply is None else PackedReply(reply.status, reply.value, db.replied_at[row.number]),
        )

    def run(self, row: RunRow) -> PackedRun:
        """One run with what belongs to it."""
        db, run_id = self._db, row.run_id
        receipts = sorted(db.receipts.get(run_id, {}).values(), key=lambda one: one.number)
        return PackedRun(
            row.freeze(),
            row.applied,
            row.discards,
            db.history(run_id),
            tuple(
                OpenWait(position, db.open_waits[wait.names[0]][run_id, wait.location].number)
                for position, wait in enumerate(row.waits)
                if wait.kind is WaitKind.TOPIC and (run_id, wait.location) in db.open_waits[wait.names[0]]
            ),
            tuple(PackedReceipt(one.number, one.event.event_id, one.locations, one.is_read) for one in receipts),
            tuple(sorted(db.published.get(run_id, {}).values())),
            db.audit.get(run_id, ()),
        )


# --- and back ---


def unpack_holds(tx: Transaction, parcel: Parcel) -> None:
    """Have the same workflows paused as there."""
    tx.drop_all(tx.db.holds, tx.db.holds)
    tx.drop_all(tx.db.hold_acts, tx.db.hold_acts)
    for workflow, hold in parcel.holds:
        tx.put(tx.db.holds, workflow or ALL_WORKFLOWS, hold)
    for number, act in enumerate(parcel.hold_acts, 1):
        tx.put(tx.db.hold_acts, number, act)


def unpack_event(tx: Transaction, packed: PackedEvent) -> None:
    """Add an event."""
    db = tx.db
    row = EventRow(*packed._replace(payload=packed.payload or b""))  # type: ignore[arg-type]
    tx.put(db.events, row.event_id, row)
    tx.put(db.topics[row.topic], row.number, row)
    db.events_published = max(db.events_published, row.number)


def unpack_signal(tx: Transaction, one: PackedSignal) -> None:
    """Add a signal, with the reply if there is one."""
    db = tx.db
    mailbox: Mailbox = ("key", one.key or "") if one.run_id is None else ("run", one.run_id)
    what = (one.number, one.signal_id, one.name, one.payload or b"", one.sent_at, one.dedup_key, mailbox, one.asks)
    row = SignalRow(*what)
    tx.put(db.signals, row.signal_id, row)
    if row.dedup_key is not None:
        tx.put(db.dedup, (mailbox, row.name, row.dedup_key), row)
    if one.refused is not None:
        tx.put(db.refused, row.number, (row, one.refused))
    elif one.payload is not None:
        tx.put(db.mailboxes[mailbox], row.number, row)
    if one.reply is not None:
        tx.put(db.replies, row.number, Reply(row.number, one.reply.status, one.reply.value))
        tx.put(db.replied_at, row.number, one.reply.at)
    db.signals_sent = max(db.signals_sent, row.number)


def unpack_owed(tx: Transaction, owed: Owed) -> None:
    """Add an event that is owed to a sink, or dead."""
    db = tx.db
    tx.put(db.outbox, owed.number, OutboxRow(owed))
    if owed.died_at is None:
        queue = (owed.run_id, owed.sink)
        tx.put(db.queues, queue, (*db.queues.get(queue, ()), owed.number))


def unpack_chunk(tx: Transaction, packed: PackedChunk) -> None:
    """Add a line of a stream."""
    line = Append(packed.stream, packed.kind, packed.value, packed.source, packed.part)
    tx.put(tx.db.chunks[packed.run_id, packed.stream], packed.offset, line)


def unpack_run(tx: Transaction, packed: PackedRun) -> None:
    """Add a run with what belongs to it."""
    db, run, history = tx.db, packed.run, packed.history
    row = _row_of(packed)
    tx.put(db.runs, run.run_id, row)
    if run.parent is not None:
        tx.put(db.children[run.parent.run_id], run.run_id, row)
    if run.key is not None:
        tx.put(db.runs_of_key[run.key], run.run_id, row)
    tx.change(row, wake_at=run.wake_at)  # it is listed under its key and its time
    for entry in history.entries:
        tx.put(db.entries[run.run_id], entry.location, entry)
    for attempt in history.attempts:
        tx.put(db.attempts[run.run_id], (attempt.location, attempt.number), attempt)
    for cursor in history.cursors:
        tx.put(db.cursors[run.run_id], cursor.location, cursor)
    for progress in history.progress:
        tx.put(db.progress[run.run_id], progress.location, progress)
    for position, number in packed.open_waits:
        wait = row.waits[position]
        opened = database.OpenWait(number, row, wait)
        tx.put(db.open_waits[wait.names[0]], (run.run_id, wait.location), opened)
        db.waits_opened = max(db.waits_opened, number)
    for receipt in packed.receipts:
        event = db.events[receipt.event_id]
        tx.put_receipt(ReceiptRow(receipt.number, run.run_id, event, receipt.locations, receipt.is_read))
    for published in packed.published:
        tx.put(db.published[run.run_id], published.name, published)
    if packed.audit:
        tx.put(db.audit, run.run_id, packed.audit)


def _row_of(packed: PackedRun) -> RunRow:
    run = packed.run
    names = set(RunRow.__dataclass_fields__) & set(Run._fields)
    return RunRow(
        **{name: getattr(run, name) for name in names},
        definition=run.definition,
        applied=packed.applied,
        names=packed.history.names,
        waits=packed.history.waits,
        discards=packed.discards,
    )
