"""Events that runs emitted and sinks have not received yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stepwell.clock import Instant
from stepwell.errors import LeaseLostError
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.outbox import Announce, Emit, Ended, Settled, lifecycle_event
from stepwell.stores.base.outbox import Batch
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.rows import to_owed, to_status
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.audit import Actor, note

_OWE = SQL["outbox.owe"]


def store_emits(tx: Transaction, run: int, run_id: RunId, emits: Iterable[Emit]) -> None:
    """Owe each event to each of its sinks."""
    for event_id, name, path, payload, at, sinks in emits:
        for sink in sinks:
            tx.execute(_OWE, (run, sink, event_id, name, path, payload, at, tx.now))
            tx.hint(HintKind.OWED, run_id)


def announce_end(tx: Transaction, run: int, announce: Announce | None) -> None:
    """Owe the event of a run's end to the sinks that subscribe to it."""
    if announce is None:
        return
    row = tx.find("outbox.describe_end", run=run)
    assert row is not None
    run_id, workflow, version, key, status, *rest = row
    if rest[-1] is None:
        return
    event = lifecycle_event(Ended(run_id, workflow, version, key, to_status(status), *rest), announce)
    if event is not None:
        store_emits(tx, run, run_id, [event])


def take(
    tx: Transaction, incarnation: Incarnation, sink: str, limit: int, batch_max: int, keep: Collection[int]
) -> list[Batch]:
    """Hand out what a sink is owed."""
    worker = tx.find("workers.find_live", incarnation=incarnation, now=tx.now)
    if worker is None:
        raise LeaseLostError(f"worker {incarnation} has no live lease")
    kept = frozenset(keep)
    mine = [row for row in tx.rows("outbox.list_taken", owner=worker[0], sink=sink) if row[0] not in kept]
    due = tx.rows("outbox.list_due", sink=sink, now=tx.now, limit=max(0, limit - len(mine)))
    batches = []
    for number, run in [*mine, *due][:limit]:
        tx.run("outbox.hand_out", owner=worker[0], number=number)
        batches.append(tuple(map(to_owed, tx.rows("outbox.list_queue", run=run, sink=sink, limit=batch_max))))
    return batches


def settle(tx: Transaction, incarnation: Incarnation, settled: Sequence[Settled]) -> list[bool]:
    """Record the results of batches that the incarnation still has."""
    worker = tx.find("workers.find", incarnation=incarnation)
    return [worker is not None and _settle_one(tx, worker[0], incarnation, one) for one in settled]


def _settle_one(tx: Transaction, owner: int, incarnation: Incarnation, settled: Settled) -> bool:
    found = tx.find("outbox.find_taken", number=settled.first, owner=owner)
    if found is None:
        return False
    run, sink = found
    tx.run("outbox.give_back", number=settled.first)
    for number in settled.sent:
        tx.run("outbox.remove", number=number, run=run, sink=sink)
    retry_in = None
    if settled.unsent is not None:
        number, failure, retry_in = settled.unsent
        tx.run("outbox.fail", number=number, failure=failure)
        if tx.connection.changes() != 1:
            retry_in = None  # it was dropped meanwhile, so there is nothing to retry
        elif retry_in is None:
            tx.run("outbox.mark_dead", number=number, now=tx.now, by=incarnation)
    _advance(tx, run, sink, retry_in or 0)
    return True


def _advance(tx: Transaction, run: int, sink: str, delay: int = 0) -> None:
    """Make the first event that a run owes a sink due, if no worker has it."""
    first = tx.find("outbox.find_first", run=run, sink=sink)
    if first is None:
        return
    number, owner, next_at, run_id = first
    if owner is None and next_at is None:
        tx.run("outbox.make_due", number=number, next_at=Instant(tx.now + delay))
        tx.hint(HintKind.OWED, run_id)


def free_taken(tx: Transaction, owner: int) -> None:
    """Make everything due that a dead worker had taken."""
    for number, run_id in tx.rows("outbox.list_taken_by", owner=owner):
        tx.run("outbox.give_back", number=number)
        tx.run("outbox.make_due", number=number, next_at=tx.now)
        tx.hint(HintKind.OWED, run_id)


def replay(tx: Transaction, event_id: EventId, sink: str | None, by: str, payload: bytes | None = None) -> int:
    """Owe dead letters again."""
    found = tx.rows("outbox.list_dead", event_id=event_id, sink=sink)
    for number, run, name_of_sink, name, run_id, status in found:
        tx.run("outbox.owe_again", number=number, now=tx.now, payload=payload)
        tx.run("outbox.remove", number=number, run=run, sink=name_of_sink)
        note(tx, run, "replay_event", Actor(by), status, f"{name} to {name_of_sink}")
        tx.hint(HintKind.OWED, run_id)
    return len(found)


def drop(tx: Transaction, event_id: EventId, sink: str | None, by: str, reason: str = "") -> int:
    """Delete what is owed of an event."""
    found = tx.rows("outbox.list_event", event_id=event_id, sink=sink)
    for number, run, name_of_sink, name, _, status in found:
        tx.run("outbox.remove", number=number, run=run, sink=name_of_sink)
        _advance(tx, run, name_of_sink)
        said = f"{name} to {name_of_sink}" + (f": {reason}" if reason else "")
        note(tx, run, "drop_event", Actor(by), status, said)
    return len(found)
