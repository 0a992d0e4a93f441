"""Publishing events: who gets them, what is kept of them, and which runs they start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.events import RETENTION, NewEvent, Publication, Published
from stepwell.model.runs import Claimed
from stepwell.model.workers import Claimant
from stepwell.stores.memory.database import EventRow
from stepwell.stores.memory.events import Woken, choose, give, kept
from stepwell.stores.memory.runs import Quota
from stepwell.stores.memory.starts import create
from stepwell.stores.memory.transaction import Transaction


def publish(
    tx: Transaction, events: Sequence[NewEvent], claimant: Claimant | None
) -> tuple[list[Published], list[Claimed]]:
    """Publish events in order, and wake who waits; claims come last, so that an inbox has all of them."""
    woken: Woken = {}
    published = [_publish_one(tx, new, woken) for new in events]
    quota = Quota(tx, claimant)
    return published, [claimed for row in woken.values() if (claimed := quota.take(tx, row)) is not None]


def _publish_one(tx: Transaction, new: NewEvent, woken: Woken) -> Published:
    known = tx.db.events.get(new.event_id)
    if known is not None:
        return Published(Publication.DUPLICATE, known.reached)
    _purge(tx, new.topic)
    waits = choose(tx, new.deliver, new.topic, new.facets)
    is_kept = new.retain is not None and (new.deliver == "all" or not waits)
    if is_kept and sum(1 for _ in kept(tx.db, new.topic, tx.now)) >= new.room:
        return Published(Publication.FULL)
    # A number that a failed transition used up is simply left out.
    tx.db.events_published += 1
    kept_until = None if new.retain is None else Instant(tx.now + new.retain)
    row = EventRow(
        tx.db.events_published,
        new.event_id,
        new.topic,
        new.payload if waits or is_kept else b"",
        new.facets,
        new.deliver,
        tx.now,
        kept_until,
        is_taken=new.deliver == "one" and bool(waits),
        reached=len({run.run_id for run, _ in waits}),
        forget_at=Instant(max(tx.now + RETENTION, kept_until or 0)),
    )
    tx.put(tx.db.events, row.event_id, row)
    tx.put(tx.db.topics[row.topic], row.number, row)
    give(tx, row, waits, woken)
    return Published(Publication.PUBLISHED, row.reached, tuple(_start(tx, new, woken)))


def _start(tx: Transaction, new: NewEvent, woken: Woken) -> Iterator[RunId]:
    for start in new.starts:
        [created] = create(tx, [start], None)
        if created.is_new:
            if start.delay <= 0:
                woken[created.run_id] = tx.db.runs[created.run_id]
            yield created.run_id


def _purge(tx: Transaction, topic: str) -> None:
    """Forget events that nobody will ask for again."""
    for row in tuple(tx.db.topics[topic].values()):
        if row.forget_at > tx.now or any(not receipt.is_read for receipt in tx.db.receivers[row.number].values()):
            continue
        for run_id in tuple(tx.db.receivers[row.number]):
            tx.drop_receipt(tx.db.receipts[run_id][row.number])
        tx.drop(tx.db.topics[topic], row.number)
        tx.drop(tx.db.events, row.event_id)
