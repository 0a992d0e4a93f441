"""Claiming, waking and freeing runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from stepwell.clock import Instant
from stepwell.errors import LeaseLostError
from stepwell.ids import RunId
from stepwell.model.events import IncomingEvent
from stepwell.model.runs import ChildOutcome, Claimed, Inbox, NewRun
from stepwell.model.starts import postponed_to
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.model.workers import Claimant
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.memory.database import MemoryDatabase, RunRow
from stepwell.stores.memory.signals import take_over_held
from stepwell.stores.memory.transaction import Transaction
from stepwell.stores.memory.workers import is_live

_BEGUN = {RunStatus.PENDING: RunStatus.RUNNING, RunStatus.WAITING: RunStatus.RUNNING}


class Quota:
    """How much a claimant may still take within one transition."""

    def __init__(self, tx: Transaction, claimant: Claimant | None) -> None:
        self._claimant = claimant
        self._left = claimant.limit if claimant and is_live(tx.db, claimant.incarnation, tx.now) else 0

    def take_new(self, tx: Transaction, row: RunRow, new: NewRun) -> Claimed | None:
        """Claim a run that was just added, unless it is to begin later, be its deadline over already or not."""
        return self.take(tx, row) if new.delay <= 0 else None

    def take(self, tx: Transaction, row: RunRow) -> Claimed | None:
        """Claim the run, if it is due, served and the limit allows."""
        is_due = row.wake_at is not None and row.wake_at <= tx.now
        if self._claimant is None or self._left <= 0 or not is_due or row.definition not in self._claimant.definitions:
            return None
        if _most_urgent(tx.db, self._claimant.definitions, tx.now) > row.priority:
            return None
        self._left -= 1
        tx.unhint(HintKind.READY, row.run_id)  # nobody need look for it
        return own(tx, row, self._claimant)


def insert(tx: Transaction, new: NewRun, **fields: Any) -> RunRow:
    """Add a run. It is pending and takes over what was held for its key, unless `fields` say otherwise."""
    row = _add_row(tx, new, new.key)
    if row.key is not None:
        tx.put(tx.db.runs_of_key[row.key], row.run_id, row)
    wake_at = Instant(tx.now + new.delay)
    tx.change(row, wake_at=wake_at if new.deadline_at is None else min(wake_at, new.deadline_at), **fields)
    if row.key is not None and row.debounced_until is None:
        take_over_held(tx, row.key, row.run_id)
    return row


def insert_failed(tx: Transaction, new: NewRun, failure: bytes) -> RunRow:
    """Add a run that could not be started: it has ended already, and has no key."""
    row = _add_row(tx, new, None)
    row.status = RunStatus.FAILED
    tx.change(row, status=RunStatus.FAILED, ended_at=tx.now, failure=failure)
    return row


def _add_row(tx: Transaction, new: NewRun, key: str | None) -> RunRow:
    row = RunRow(
        new.run_id,
        new.workflow,
        new.version,
        new.definition,
        new.input,
        key,
        new.parent,
        created_at=tx.now,
        priority=new.priority,
        tags=new.tags,
        deadline_at=new.deadline_at,
        max_suspend=new.max_suspend,
        discards=new.discards,
    )
    tx.put(tx.db.runs, row.run_id, row)
    if row.parent is not None:
        tx.put(tx.db.children[row.parent.run_id], row.run_id, row)
    return row


def claim(tx: Transaction, claimant: Claimant) -> list[Claimed]:
    """Own what is most urgent, and among equals what has been due longest."""
    if not is_live(tx.db, claimant.incarnation, tx.now):
        raise LeaseLostError(f"worker {claimant.incarnation} has no live lease")
    claimed: list[Claimed] = []
    while len(claimed) < claimant.limit:
        row = _longest_due(tx.db, claimant.definitions, tx.now)
        if row is None:
            break
        if row.debounced_until is None or _begin_debounced(tx, row, row.debounced_until):
            claimed.append(own(tx, row, claimant))
    if claimant.ahead and len(claimed) < claimant.limit:
        soon = _list_soon(tx, claimant)[: claimant.limit - len(claimed)]
        claimed += [own(tx, tx.db.runs[run_id], claimant) for _, _, run_id in soon]
    return claimed


def _list_soon(tx: Transaction, claimant: Claimant) -> list[tuple[int, Instant, RunId]]:
    """Waiting runs that will be due before long, most urgent first."""
    found: set[tuple[int, Instant, RunId]] = set()
    for definition in claimant.definitions:
        for priority, heap in tx.db.ready[definition].items():
            for wake_at, run_id in heap:
                row = tx.db.runs.get(run_id)
                is_there = row is not None and row.wake_at == wake_at and row.status is RunStatus.WAITING
                if is_there and wake_at <= tx.now + claimant.ahead:
                    found.add((-priority, wake_at, run_id))
    return sorted(found)


def _begin_debounced(tx: Transaction, row: RunRow, until: Instant) -> bool:
    """Let a debounced run have its key; false if another run has it, whose end will wake this one."""
    assert row.key is not None
    if row.key in tx.db.active_keys:
        tx.change(row, wake_at=postponed_to(tx.now, until))
        return False
    tx.change(row, debounced_until=None)
    take_over_held(tx, row.key, row.run_id)
    return True


def _first_of_lanes(
    db: MemoryDatabase, definitions: Iterable[str], now: Instant
) -> list[tuple[int, tuple[Instant, RunId]]]:
    """What is due first in every lane, with its priority turned round: the smallest is the most urgent."""
    lanes = [(definition, priority) for definition in definitions for priority in db.ready[definition]]
    firsts = [(-priority, db.first_due(definition, priority)) for definition, priority in lanes]
    return [(urgency, first) for urgency, first in firsts if first is not None and first[0] <= now]


def _longest_due(db: MemoryDatabase, definitions: Iterable[str], now: Instant) -> RunRow | None:
    due = _first_of_lanes(db, definitions, now)
    return db.runs[min(due)[1][1]] if due else None


def _most_urgent(db: MemoryDatabase, definitions: Iterable[str], now: Instant) -> int:
    """The highest priority that is due; far below all if nothing is."""
    due = _first_of_lanes(db, definitions, now)
    return -min(due)[0] if due else -sys.maxsize


def own(tx: Transaction, row: RunRow, claimant: Claimant) -> Claimed:
    """Give a run to a claimant under a new epoch."""
    tx.change(
        row,
        status=_BEGUN.get(row.status, row.status),
        epoch=row.epoch + 1,
        applied=0,
        owner=claimant.incarnation,
        wake_at=None,
        started_at=tx.now if row.started_at is None else row.started_at,
    )
    return Claimed(row.freeze(), read_inbox(tx.db, row), is_fresh=row.revision == 0)


def free(tx: Transaction, row: RunRow, **fields: Any) -> None:
    """Take a run from its owner; anybody may claim it at once."""
    status = RunStatus.PENDING if row.status is RunStatus.RUNNING else row.status
    tx.change(row, status=status, owner=None, wake_at=tx.now, **fields)


def is_parked(row: RunRow) -> bool:
    """Whether the run stands still until one of its waits is satisfied."""
    return row.owner is None and row.status in (RunStatus.WAITING, RunStatus.COMPENSATING)


def wake(tx: Transaction, row: RunRow) -> None:
    """Make a run due now; one that is due already keeps its place."""
    if row.wake_at is None or row.wake_at > tx.now:
        tx.change(row, wake_at=tx.now)


def read_inbox(db: MemoryDatabase, row: RunRow) -> Inbox:
    """Pending signals, and how the children ended that the run waits for."""
    signals = tuple(signal.freeze() for signal in db.pending(("run", row.run_id)))
    return Inbox(signals, tuple(ended_children(db, row)), read_events(db, row.run_id))


def read_events(db: MemoryDatabase, run_id: RunId) -> tuple[IncomingEvent, ...]:
    """The events in a run's inbox, by number."""
    receipts = db.receipts.get(run_id)
    if not receipts:
        return ()
    unread = [receipt for receipt in receipts.values() if not receipt.is_read]
    return tuple(receipt.freeze() for receipt in sorted(unread, key=lambda one: one.number))


def ended_children(db: MemoryDatabase, row: RunRow) -> list[ChildOutcome]:
    """The outcomes of the ended children that the run's waits name."""
    waited = {wait.location for wait in row.waits if wait.kind is WaitKind.CHILD}
    if not waited:
        return []
    return [
        ChildOutcome(child.parent.location, child.run_id, child.status, child.output, child.failure)
        for child in db.children[row.run_id].values()
        if child.parent is not None
        and child.parent.location in waited
        and child.status in TERMINAL
        and child.status is not RunStatus.CONTINUED
    ]
