"""Events in topics and in the inboxes of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.events import (
    DEAF,
    RETENTION,
    is_answered,
    receiver,
)
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.memory.database import EventRow, MemoryDatabase, ReceiptRow, RunRow
from stepwell.stores.memory.runs import is_parked, read_events, wake
from stepwell.stores.memory.transaction import Transaction

Woken = dict[str, RunRow]


def kept(db: MemoryDatabase, topic: str, now: Instant) -> Iterator[EventRow]:
    """What a topic keeps, oldest first."""
    for row in sorted(db.topics[topic].values(), key=lambda one: one.number):
        if row.is_kept(now):
            yield row


def choose(tx: Transaction, deliver: str, topic: str, facets: Iterable[str]) -> list[tuple[RunRow, Wait]]:
    """The open waits that are given an event, longest open first."""
    found = [
        (run, wait)
        for _, run, wait in sorted(tx.db.open_waits[topic].values(), key=lambda one: one.number)
        if run.status not in DEAF and is_answered(wait, topic, facets)
    ]
    if deliver == "one":
        awake = [(run, wait) for run, wait in found if run.status is not RunStatus.PAUSED]
        return (awake or found)[:1]
    return found


def give(tx: Transaction, event: EventRow, waits: list[tuple[RunRow, Wait]], woken: Woken) -> None:
    """Put an event into the inboxes of the runs whose waits are given it."""
    for run, wait in waits:
        receipt = tx.db.receipts[run.run_id].get(event.number)
        if receipt is None:
            tx.db.receipts_given += 1
            tx.put_receipt(ReceiptRow(tx.db.receipts_given, run.run_id, event, (wait.location,)))
        else:
            tx.assign(receipt, locations=(*receipt.locations, wait.location))
        tx.drop(tx.db.open_waits[event.topic], (run.run_id, wait.location))
        if run.owner is not None:
            tx.hint(HintKind.MAIL, run)
        elif is_parked(run):
            wake(tx, run)
            woken[run.run_id] = run


def has_receiver(db: MemoryDatabase, row: RunRow) -> bool:
    """Whether an event in the inbox is for one of the run's waits."""
    return any(receiver(event, row.waits) is not None for event in read_events(db, row.run_id))


def receive(tx: Transaction, row: RunRow, numbers: Iterable[int]) -> None:
    """Take events out of the inbox. What the topic still keeps is remembered as received."""
    by_number = {receipt.number: receipt for receipt in tx.db.receipts[row.run_id].values() if not receipt.is_read}
    for number in numbers:
        if number not in by_number:
            raise ValueError(f"run {row.run_id} has no event {number} in its inbox")
        receipt = by_number.pop(number)
        if receipt.event.deliver == "all" and receipt.event.kept_until is not None:
            tx.assign(receipt, is_read=True)
        else:
            tx.drop_receipt(receipt)


def open_waits(tx: Transaction, row: RunRow, before: tuple[Wait, ...]) -> None:
    """Let new topic waits take what is there for them already."""
    for wait in row.waits:
        if wait.kind is not WaitKind.TOPIC or wait in before:
            continue
        left_over = _left_over_for(tx, row, wait)
        if left_over is not None:
            tx.assign(left_over, locations=tuple(dict.fromkeys((*left_over.locations, wait.location))))
            tx.drop(tx.db.open_waits[wait.names[0]], (row.run_id, wait.location))
            if row.owner is not None:
                tx.hint(HintKind.MAIL, row)
            continue
        event = _kept_for(tx, row, wait)
        if event is not None:
            tx.assign(event, is_taken=event.deliver == "one")
            give(tx, event, [(row, wait)], {})


def _left_over_for(tx: Transaction, row: RunRow, wait: Wait) -> ReceiptRow | None:
    for event in read_events(tx.db, row.run_id):
        if receiver(event, row.waits) is wait:
            return next(one for one in tx.db.receipts[row.run_id].values() if one.number == event.number)
    return None


def _kept_for(tx: Transaction, row: RunRow, wait: Wait) -> EventRow | None:
    if wait.since == "wait":
        return None
    first = row.created_at if wait.since == "start" else 0
    for event in kept(tx.db, wait.names[0], tx.now):
        is_new = event.published_at >= first and event.number not in tx.db.receipts[row.run_id]
        if is_new and is_answered(wait, event.topic, event.facets):
            return event
    return None


def give_back(tx: Transaction, row: RunRow) -> None:
    """A run ends: what it has not received goes back to its topic if it was for one run only."""
    if row.run_id not in tx.db.receipts:
        return
    for receipt in sorted(tx.db.receipts[row.run_id].values(), key=lambda one: one.number):
        tx.drop_receipt(receipt)
        event = receipt.event
        if receipt.is_read or event.deliver == "all":
            continue
        kept_until = Instant(tx.now + RETENTION) if event.kept_until is None else event.kept_until
        if kept_until <= tx.now:
            continue
        waits = choose(tx, "one", event.topic, event.facets)
        tx.assign(event, kept_until=kept_until, is_taken=bool(waits), forget_at=max(event.forget_at, kept_until))
        give(tx, event, waits, {})


def pass_on(tx: Transaction, run_id: RunId, successor: RunId) -> None:
    """Move events along a chain, also the memory of those received."""
    if run_id not in tx.db.receipts:
        return
    for receipt in tuple(tx.db.receipts[run_id].values()):
        tx.drop_receipt(receipt)
        # No wait of the successor is at those places.
        tx.put_receipt(ReceiptRow(receipt.number, successor, receipt.event, (), receipt.is_read))
