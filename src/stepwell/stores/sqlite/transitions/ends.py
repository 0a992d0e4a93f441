"""Cancelling runs, and notifying parents that a child has ended."""

from __future__ import annotations

from stepwell.ids import RunId
from stepwell.model.cancels import PARENT_CLOSED, decide_cancel
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce
from stepwell.model.states import RunStatus
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.rows import to_status
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.claims import is_parked, wake
from stepwell.stores.sqlite.transitions.events import give_back
from stepwell.stores.sqlite.transitions.outbox import announce_end
from stepwell.stores.sqlite.transitions.records import close_all


def wake_debounced(tx: Transaction, run: int) -> None:
    """Make a planned (debounced) run due if it waits for the key of this run, which is free now."""
    for (planned,) in tx.rows("runs.wake_debounced", id=run, now=tx.now):
        tx.hint(HintKind.READY, planned)


def cancel_tied(tx: Transaction, run_id: RunId, announce: Announce | None) -> None:
    """Cancel the children that end with this run, and their tied children."""
    for child in tx.rows("runs.list_tied", parent=run_id):
        cancel_family(tx, child, compensate=True, reason=PARENT_CLOSED, announce=announce)


def notify_parent(tx: Transaction, parent: RunId, location: Location) -> None:
    """Wake a parent that waits for this child, or notify its worker."""
    found = tx.find("runs.find_for_signal", run_id=parent)
    if found is None:
        return
    run, run_id, status, owner, *_ = found
    if owner is not None:
        tx.hint(HintKind.MAIL, run_id)
    elif is_parked(status, owner) and (location,) in tx.rows("waits.list_child_locations", run=run):
        wake(tx, run, run_id)


def notify_watchers(tx: Transaction, run_id: RunId) -> None:
    """Wake the runs that wait for the end of this run, or notify their workers."""
    for run, watcher, status, owner in tx.rows("waits.list_watchers", run_id=run_id):
        if owner is not None:
            tx.hint(HintKind.MAIL, watcher)
        elif is_parked(status, owner):
            wake(tx, run, watcher)


def find_last_of_chain(tx: Transaction, run_id: str) -> str:
    """The run that continues a run now; the run itself if none does, or if it is not known."""
    found = tx.find("runs.find_last_of_chain", run_id=run_id)
    return run_id if found is None else str(found[0])


def cancel_family(
    tx: Transaction, root: Row, *, compensate: bool, reason: str, announce: Announce | None
) -> list[RunId]:
    """Cancel a run and its attached active descendants, root first. Does nothing if the root can no longer be
    cancelled.

    Rows are as `runs.find_for_cancel` returns them.
    """
    if not _cancel_one(tx, root, compensate, reason, announce):
        return []
    changed: list[RunId] = [root[1]]
    family = [root]
    for member in family:
        attached = tx.rows("runs.list_attached", parent=member[1])
        family += attached
        changed += [row[1] for row in attached if _cancel_one(tx, row, compensate, reason, announce)]
    return changed


def _cancel_one(tx: Transaction, row: Row, compensate: bool, reason: str, announce: Announce | None) -> bool:
    run, run_id, status, owner, cause, parent, location = row
    is_undoing = status == RunStatus.PAUSED.value and cause is not None
    decided = decide_cancel(
        RunStatus.COMPENSATING if is_undoing else to_status(status),
        compensate=compensate,
        has_undo=tx.find("entries.has_undo", run=run) is not None,
        is_owned=owner is not None,
    )
    if decided is None:
        return False
    if owner is not None:
        tx.hint(HintKind.MAIL, run_id)
    if decided is RunStatus.CANCELLING:
        tx.run("runs.mark_cancelling", id=run, reason=reason)
        if owner is None:
            wake(tx, run, run_id)
        return True
    tx.run("runs.cancel", id=run, reason=reason, now=tx.now)
    tx.run("waits.clear", run=run)
    tx.run("cursors.clear", run=run)
    close_all(tx, run)
    wake_debounced(tx, run)
    tx.run("signals.discard", run=run)
    give_back(tx, run)
    if owner is None:  # otherwise a worker that does not know of the cancel yet could restart a long step
        tx.run("progress.clear", run=run)
    tx.hint(HintKind.ENDED, run_id)
    notify_watchers(tx, run_id)
    if parent is not None:
        notify_parent(tx, parent, location)
    announce_end(tx, run, announce)
    return True
