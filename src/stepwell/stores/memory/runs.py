"""Creating, claiming, waking and freeing runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stepwell.clock import Instant
from stepwell.errors import LeaseLostError
from stepwell.ids import RunId
from stepwell.model.events import IncomingEvent
from stepwell.model.runs import ChildOutcome, Claimed, Created, Inbox, NewRun
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.model.workers import Claimant
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

    def take(self, tx: Transaction, row: RunRow) -> Claimed | None:
        """Claim the run, if it is due, served and the limit allows."""
        is_due = row.wake_at is not None and row.wake_at <= tx.now
        if self._claimant is None or self._left <= 0 or not is_due or row.definition not in self._claimant.definitions:
            return None
        self._left -= 1
        return own(tx, row, self._claimant)


def create(tx: Transaction, runs: Sequence[NewRun], claimant: Claimant | None) -> list[Created]:
    """Start runs, each by its id or key if it exists already."""
    quota = Quota(tx, claimant)
    return [create_one(tx, new, quota) for new in runs]


def create_one(tx: Transaction, new: NewRun, quota: Quota) -> Created:
    """Start one run."""
    known = tx.db.runs.get(new.run_id)
    if known is not None:
        return Created(known.run_id, new.own_id, known.input == new.input, is_duplicate_id=not new.own_id)
    met = _find_by_key(tx, new)
    if met is not None:
        return Created(met.run_id, False, met.input == new.input)
    row = insert(tx, new)
    return Created(row.run_id, True, claimed=quota.take(tx, row))


def _find_by_key(tx: Transaction, new: NewRun) -> RunRow | None:
    """The run that answers for the key: an active one, or the one that ended last within the window."""
    if new.key is None:
        return None
    if new.key in tx.db.active_keys:
        return tx.db.active_keys[new.key]
    since = tx.now - new.dedup
    ended = [
        (row.ended_at, index, row)
        for index, row in enumerate(tx.db.runs_of_key[new.key].values())
        if row.ended_at is not None and row.ended_at > since and row.status is not RunStatus.CONTINUED
    ]
    return max(ended)[2] if ended else None


def insert(tx: Transaction, new: NewRun, **fields: Any) -> RunRow:
    """Add a run. It is pending and takes over what was held for its key, unless `fields` say otherwise."""
    row = RunRow(
        new.run_id, new.workflow, new.version, new.definition, new.input, new.key, new.parent, created_at=tx.now
    )
    tx.put(tx.db.runs, row.run_id, row)
    if row.parent is not None:
        tx.put(tx.db.children[row.parent.run_id], row.run_id, row)
    if row.key is not None:
        tx.put(tx.db.runs_of_key[row.key], row.run_id, row)
    tx.change(row, wake_at=Instant(tx.now + new.delay), **fields)
    if row.key is not None:
        take_over_held(tx, row.key, row.run_id)
    return row


def insert_failed(tx: Transaction, new: NewRun, failure: bytes) -> RunRow:
    """Add a run that could not be started: it has ended already, and has no key."""
    row = RunRow(new.run_id, new.workflow, new.version, new.definition, new.input, None, new.parent, created_at=tx.now)
    row.status = RunStatus.FAILED
    tx.put(tx.db.runs, row.run_id, row)
    if row.parent is not None:
        tx.put(tx.db.children[row.parent.run_id], row.run_id, row)
    tx.change(row, status=RunStatus.FAILED, ended_at=tx.now, failure=failure)
    return row


def claim(tx: Transaction, claimant: Claimant) -> list[Claimed]:
    """Own what has been due longest."""
    if not is_live(tx.db, claimant.incarnation, tx.now):
        raise LeaseLostError(f"worker {claimant.incarnation} has no live lease")
    claimed: list[Claimed] = []
    while len(claimed) < claimant.limit:
        row = _longest_due(tx.db, claimant.definitions, tx.now)
        if row is None:
            break
        claimed.append(own(tx, row, claimant))
    return claimed


def _longest_due(db: MemoryDatabase, definitions: Iterable[str], now: Instant) -> RunRow | None:
    due = [first for definition in definitions if (first := db.first_due(definition)) is not None and first[0] <= now]
    return db.runs[min(due)[1]] if due else None


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
