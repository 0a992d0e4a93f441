"""Freeing runs of workers that died, stopped, or do not know of them."""

from __future__ import annotations

from collections.abc import Collection

from stepwell.ids import Incarnation, RunId
from stepwell.model.failures import poisoned
from stepwell.model.locations import format_path
from stepwell.model.states import RunStatus
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_names
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.claims import free
from stepwell.stores.sqlite.transitions.outbox import free_taken


def rescue(tx: Transaction, stalls_max: int) -> list[RunId]:
    """Free every run whose owner has no live lease."""
    rescued: list[RunId] = []
    for (owner,) in tx.rows("workers.list_dead_owners", now=tx.now):
        for row in tx.rows("runs.list_owned", owner=owner):
            _free_stalled(tx, row, stalls_max)
            rescued.append(row[1])
    for (dead,) in tx.rows("workers.list_dead", now=tx.now):
        free_taken(tx, dead)
    tx.run("workers.remove_dead", now=tx.now)
    return rescued


def _free_stalled(tx: Transaction, row: Row, stalls_max: int) -> None:
    run, run_id, status, stalls, cause, hold = row
    stalls += 1
    if stalls < stalls_max:
        free(tx, run, run_id, stalls, is_held=hold is not None)
        return
    own = tx.find("payloads.read_failure", run=run) if cause is not None else None
    # A cancel must survive the pause: with a cause, a resumed run continues its rollback instead of running forwards.
    if status == RunStatus.CANCELLING.value:
        cause = "cancelled"
    tx.run("runs.quarantine", id=run, stalls=stalls, cause=cause)
    failure = poisoned(run_id, stalls, _latest_place(tx, run), own[0] if own else None)
    tx.run("payloads.fail", run=run, failure=failure)
    tx.hint(HintKind.ENDED, run_id)


def _latest_place(tx: Transaction, run: int) -> str:
    row = tx.find("entries.find_latest", run=run)
    return "" if row is None else format_path(row[0], read_names(tx.connection, run))


def relinquish(tx: Transaction, incarnation: Incarnation, keep: Collection[RunId]) -> list[RunId]:
    """Free the runs that an incarnation owns but does not know of."""
    worker = tx.find("workers.find", incarnation=incarnation)
    if worker is None:
        return []
    kept = frozenset(keep)
    freed: list[RunId] = []
    for run, run_id, _, stalls, _, hold in tx.rows("runs.list_owned", owner=worker[0]):
        if run_id not in kept:
            free(tx, run, run_id, stalls, is_held=hold is not None)
            freed.append(run_id)
    return freed


def retire(tx: Transaction, incarnation: Incarnation) -> None:
    """Remove a worker that shuts down cleanly."""
    worker = tx.find("workers.find", incarnation=incarnation)
    if worker is not None:
        relinquish(tx, incarnation, ())
        free_taken(tx, worker[0])
        tx.run("workers.remove", id=worker[0])
