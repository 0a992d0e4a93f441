"""Publishing events: which runs get them, what is kept of them, and which runs they start."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.events import RETENTION, NewEvent, Publication, Published
from stepwell.model.runs import Claimed
from stepwell.model.workers import Claimant
from stepwell.stores.sqlite.rows import encode_texts
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.claims import Quota
from stepwell.stores.sqlite.transitions.events import choose, give
from stepwell.stores.sqlite.transitions.records import is_stale
from stepwell.stores.sqlite.transitions.starts import create


def publish(
    tx: Transaction, events: Sequence[NewEvent], claimant: Claimant | None
) -> tuple[list[Published], list[Claimed]]:
    """Publish events in order, and wake the waiting runs. Claims come last, so that an inbox has all events."""
    woken: dict[int, None] = {}
    published = [_publish_one(tx, new, woken) for new in events]
    quota = Quota(tx, claimant)
    return published, [claimed for run in woken if (claimed := quota.take(run)) is not None]


def _publish_one(tx: Transaction, new: NewEvent, woken: dict[int, None]) -> Published:
    known = tx.find("events.find", event_id=new.event_id)
    if known is not None:
        return Published(Publication.DUPLICATE, known[0])
    if new.seen is not None and is_stale(tx, new.seen):
        return Published(Publication.STALE)
    _purge(tx, new.topic)
    waits = choose(tx, new.deliver, new.topic, new.facets)
    is_kept = new.retain is not None and (new.deliver == "all" or not waits)
    if is_kept:
        row = tx.find("events.count_kept", topic=new.topic, now=tx.now)
        if row is not None and row[0] >= new.room:
            return Published(Publication.FULL)
    kept_until = None if new.retain is None else Instant(tx.now + new.retain)
    reached = len({wait.run for wait in waits})
    inserted = tx.find(
        "events.insert",
        event_id=new.event_id,
        topic=new.topic,
        payload=new.payload if waits or is_kept else None,
        facets=encode_texts(new.facets),
        deliver=new.deliver,
        now=tx.now,
        kept_until=kept_until,
        is_taken=int(new.deliver == "one" and bool(waits)),
        reached=reached,
        forget_at=max(tx.now + RETENTION, kept_until or 0),
    )
    assert inserted is not None
    give(tx, inserted[0], waits, woken)
    return Published(Publication.PUBLISHED, reached, _start(tx, new, woken))


def _start(tx: Transaction, new: NewEvent, woken: dict[int, None]) -> tuple[RunId, ...]:
    started: list[RunId] = []
    for start in new.starts:
        [created] = create(tx, [start], None)
        if created.is_new:
            started.append(created.run_id)
            found = tx.find("runs.find_for_signal", run_id=created.run_id)
            if start.delay <= 0 and found is not None and found[4] is not None and found[4] <= tx.now:
                woken[found[0]] = None
    return tuple(started)


def _purge(tx: Transaction, topic: str) -> None:
    """Delete events that no wait can ask for any more, some at a time."""
    for (number,) in tx.rows("events.list_forgettable", topic=topic, now=tx.now):
        tx.run("receipts.forget", event=number)
        tx.run("events.forget", number=number)
