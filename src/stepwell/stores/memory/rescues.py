"""Freeing runs from workers that died, left, or do not know of them."""

from __future__ import annotations

from collections.abc import Collection

from stepwell.ids import Incarnation, RunId
from stepwell.model.failures import poisoned
from stepwell.model.locations import format_path
from stepwell.model.states import RunStatus
from stepwell.stores.memory.database import MemoryDatabase, RunRow
from stepwell.stores.memory.outbox import free_taken
from stepwell.stores.memory.runs import free
from stepwell.stores.memory.transaction import Transaction
from stepwell.stores.memory.workers import is_live


def rescue(tx: Transaction, stalls_max: int) -> list[RunId]:
    """Take every run from an owner without a live lease."""
    rescued: list[RunId] = []
    for incarnation in [one for one, runs in tx.db.owned.items() if runs and not is_live(tx.db, one, tx.now)]:
        for row in tuple(tx.db.owned[incarnation].values()):
            _free_stalled(tx, row, stalls_max)
            rescued.append(row.run_id)
    for dead in [one for one in tx.db.workers if not is_live(tx.db, one, tx.now)]:
        tx.drop(tx.db.workers, dead)
        free_taken(tx, dead)
    return rescued


def _free_stalled(tx: Transaction, row: RunRow, stalls_max: int) -> None:
    stalls = row.stalls + 1
    if stalls < stalls_max:
        free(tx, row, stalls=stalls)
        return
    # A cancel must outlive the pause: with a cause, a resume goes on undoing instead of running forwards.
    cause = "cancelled" if row.status is RunStatus.CANCELLING else row.cause
    own = row.failure if row.cause is not None else None
    failure = poisoned(row.run_id, stalls, _latest_place(tx.db, row), own)
    tx.change(row, status=RunStatus.PAUSED, owner=None, wake_at=None, stalls=stalls, cause=cause, failure=failure)


def _latest_place(db: MemoryDatabase, row: RunRow) -> str:
    places = [(entry.at, entry.seq, entry.location) for entry in db.entries[row.run_id].values()]
    places += [(attempt.at, 0, attempt.location) for attempt in db.attempts[row.run_id].values()]
    return format_path(max(places)[2], row.names) if places else ""


def relinquish(tx: Transaction, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
    """Free what an incarnation owns but does not know of."""
    kept = frozenset(keep)
    freed = [row for row in tx.db.owned[incarnation].values() if row.run_id not in kept]
    for row in freed:
        free(tx, row)
    return [row.run_id for row in freed]


def retire(tx: Transaction, incarnation: Incarnation) -> None:
    """Remove a worker that leaves in order."""
    tx.drop(tx.db.workers, incarnation)
    relinquish(tx, incarnation, ())
    free_taken(tx, incarnation)


def has_stranded(db: MemoryDatabase, now: int) -> bool:
    """Whether there is a run to rescue, or a dead worker to forget."""
    owners = [one for one, runs in db.owned.items() if runs]
    return any(one not in db.workers or db.workers[one].lease_until <= now for one in [*owners, *db.workers])
