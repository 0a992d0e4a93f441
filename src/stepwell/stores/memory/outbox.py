"""What runs emitted, on its way to sinks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stepwell.clock import Instant
from stepwell.errors import LeaseLostError
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.outbox import Announce, Emit, Ended, Owed, Settled, lifecycle_event
from stepwell.stores.base.outbox import Batch
from stepwell.stores.base.views import Audit
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.memory.database import MemoryDatabase, OutboxRow, RunRow
from stepwell.stores.memory.transaction import Transaction
from stepwell.stores.memory.workers import is_live

Queue = tuple[RunId, str]  # the events of one run for one sink


def store_emits(tx: Transaction, row: RunRow, emits: Iterable[Emit]) -> None:
    """Owe each event to each of its sinks."""
    for emit in emits:
        for sink in emit.sinks:
            _enqueue(tx, row, Owed(_next_number(tx), sink, *emit[:5], row.run_id, row.workflow, row.key))


def _next_number(tx: Transaction) -> int:
    number = tx.db.counters.get("outbox", 0) + 1
    tx.put(tx.db.counters, "outbox", number)
    return number


def _enqueue(tx: Transaction, row: RunRow, owed: Owed) -> None:
    queue = _queue(owed)
    waiting = tx.db.queues.get(queue, ())
    tx.put(tx.db.queues, queue, (*waiting, owed.number))
    tx.put(tx.db.outbox, owed.number, OutboxRow(owed._replace(next_at=None if waiting else tx.now)))
    tx.hint(HintKind.OWED, row)


def _queue(owed: Owed) -> Queue:
    return owed.run_id, owed.sink


def _leave_queue(tx: Transaction, owed: Owed) -> None:
    rest = tuple(number for number in tx.db.queues.get(_queue(owed), ()) if number != owed.number)
    if rest:
        tx.put(tx.db.queues, _queue(owed), rest)
    else:
        tx.drop(tx.db.queues, _queue(owed))


def announce_end(tx: Transaction, row: RunRow, announce: Announce | None) -> None:
    """Owe the event of a run's end to those who want to hear of it."""
    if announce is None or row.ended_at is None:
        return
    ended = Ended(
        row.run_id,
        row.workflow,
        row.version,
        row.key,
        row.status,
        row.epoch,
        row.generation,
        row.created_at,
        row.started_at,
        row.ended_at,
    )
    event = lifecycle_event(ended, announce)
    if event is not None:
        store_emits(tx, row, [event])


def take(
    tx: Transaction, incarnation: Incarnation, sink: str, limit: int, batch_max: int, keep: Collection[int]
) -> list[Batch]:
    """Hand out what a sink is owed."""
    if not is_live(tx.db, incarnation, tx.now):
        raise LeaseLostError(f"worker {incarnation} has no live lease")
    heads = [tx.db.outbox[numbers[0]] for (_, name), numbers in tx.db.queues.items() if name == sink]
    kept = frozenset(keep)
    mine = sorted(head.owed.number for head in heads if head.owner == incarnation and head.owed.number not in kept)
    due = sorted((head.owed.next_at, head.owed.number) for head in heads if head.is_due(tx.now))
    first = [*mine, *(number for _, number in due)]
    return [_hand_out(tx, number, incarnation, batch_max) for number in first[:limit]]


def _hand_out(tx: Transaction, number: int, incarnation: Incarnation, batch_max: int) -> Batch:
    owed = tx.db.outbox[number].owed._replace(next_at=None)
    tx.put(tx.db.outbox, number, OutboxRow(owed, incarnation))
    return tuple(tx.db.outbox[one].owed for one in tx.db.queues[_queue(owed)][:batch_max])


def settle(tx: Transaction, incarnation: Incarnation, settled: Sequence[Settled]) -> list[bool]:
    """Note what became of batches that the incarnation still has."""
    return [_settle_one(tx, incarnation, one) for one in settled]


def _settle_one(tx: Transaction, incarnation: Incarnation, settled: Settled) -> bool:
    head = tx.db.outbox.get(settled.first)
    if head is None or head.owner != incarnation:
        return False
    tx.put(tx.db.outbox, settled.first, OutboxRow(head.owed))
    # Those behind the first may have been dropped meanwhile.
    for number in settled.sent:
        if number in tx.db.outbox:
            _remove(tx, tx.db.outbox[number].owed)
    retry_in = None
    if settled.unsent is not None and settled.unsent.number in tx.db.outbox:
        number, failure, retry_in = settled.unsent
        owed = tx.db.outbox[number].owed
        owed = owed._replace(attempts=owed.attempts + 1, failure=failure)
        if retry_in is None:
            owed = owed._replace(died_at=tx.now)
            _leave_queue(tx, owed)
        tx.put(tx.db.outbox, number, OutboxRow(owed))
    _advance(tx, _queue(head.owed), retry_in or 0)
    return True


def _remove(tx: Transaction, owed: Owed) -> None:
    tx.drop(tx.db.outbox, owed.number)
    _leave_queue(tx, owed)


def _advance(tx: Transaction, queue: Queue, delay: int = 0) -> None:
    """The first event of a queue, if nobody has it, becomes due."""
    numbers = tx.db.queues.get(queue)
    if not numbers:
        return
    head = tx.db.outbox[numbers[0]]
    if head.owner is None and head.owed.next_at is None:
        tx.put(tx.db.outbox, numbers[0], OutboxRow(head.owed._replace(next_at=Instant(tx.now + delay))))
        tx.hint(HintKind.OWED, tx.db.runs[queue[0]])


def free_taken(tx: Transaction, incarnation: Incarnation) -> None:
    """What a worker that is gone had taken is due."""
    for queue, numbers in tuple(tx.db.queues.items()):
        head = tx.db.outbox[numbers[0]]
        if head.owner == incarnation:
            tx.put(tx.db.outbox, numbers[0], OutboxRow(head.owed))
            _advance(tx, queue)


def list_owed(db: MemoryDatabase, *, is_dead: bool, limit: int, after: int) -> list[Owed]:
    """What is owed, or dead, by number."""
    rows = [db.outbox[number].owed for number in sorted(db.outbox) if number > after]
    return [owed for owed in rows if (owed.died_at is not None) == is_dead][:limit]


def next_due(db: MemoryDatabase, sink: str) -> Instant | None:
    """When a sink is owed something that nobody has."""
    heads = [db.outbox[numbers[0]].owed.next_at for (_, name), numbers in db.queues.items() if name == sink]
    return min((at for at in heads if at is not None), default=None)


def replay(tx: Transaction, event_id: EventId, sink: str | None, by: str) -> int:
    """Owe dead letters again."""
    found = [row.owed for row in _find(tx.db, event_id, sink) if row.owed.died_at is not None]
    for owed in found:
        tx.drop(tx.db.outbox, owed.number)
        again = owed._replace(number=_next_number(tx), attempts=0, failure="", died_at=None)
        _enqueue(tx, tx.db.runs[owed.run_id], again)
        _note(tx, owed, "replay_event", by)
    return len(found)


def drop(tx: Transaction, event_id: EventId, sink: str | None, by: str) -> int:
    """Forget what is owed of an event."""
    found = [row.owed for row in _find(tx.db, event_id, sink) if row.owner is None]
    for owed in found:
        _remove(tx, owed)
        _advance(tx, _queue(owed))
        _note(tx, owed, "drop_event", by)
    return len(found)


def _find(db: MemoryDatabase, event_id: EventId, sink: str | None) -> list[OutboxRow]:
    rows = [row for row in db.outbox.values() if row.owed.event_id == event_id and sink in (None, row.owed.sink)]
    return sorted(rows, key=lambda row: row.owed.number)


def _note(tx: Transaction, owed: Owed, verb: str, by: str) -> None:
    run = tx.db.runs[owed.run_id]
    act = Audit(tx.now, run.run_id, verb, by, run.status.value, run.status.value, f"{owed.name} to {owed.sink}")
    tx.put(tx.db.audit, run.run_id, (*tx.db.audit.get(run.run_id, ()), act))
