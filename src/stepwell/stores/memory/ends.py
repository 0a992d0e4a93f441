"""Ending runs, cancelling them, and telling their parents."""

from __future__ import annotations

from typing import Any

from stepwell.model.cancels import PARENT_CLOSED, decide_cancel
from stepwell.model.outbox import Announce
from stepwell.model.states import ACTIVE, ENDS_FOR_GOOD, KEEPS_CURSORS, RunStatus, WaitKind
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.memory.database import MemoryDatabase, RunRow
from stepwell.stores.memory.events import give_back
from stepwell.stores.memory.outbox import announce_end
from stepwell.stores.memory.runs import is_parked, wake
from stepwell.stores.memory.signals import discard
from stepwell.stores.memory.transaction import Transaction


def end(tx: Transaction, row: RunRow, status: RunStatus, announce: Announce | None, **fields: Any) -> None:
    """Bring a run to its end, or to `compensation_failed`, which is none. What it had is still to be let go of."""
    is_end = status is not RunStatus.COMPENSATION_FAILED
    ended_at = tx.now if is_end else None
    tx.change(row, status=status, ended_at=ended_at, owner=None, wake_at=None, waits=(), hold=None, **fields)
    if status not in KEEPS_CURSORS:
        tx.drop_all(tx.db.cursors[row.run_id], tx.db.cursors[row.run_id])
    if row.discards and status in ENDS_FOR_GOOD:
        discard(tx, row)
    announce_end(tx, row, announce)


def let_go(tx: Transaction, row: RunRow) -> None:
    """Others may have the key and the events of a run that has ended, and its parent hears of it."""
    _wake_debounced(tx, row)
    give_back(tx, row)
    _tell_parent(tx, row)


def cancel_tied(tx: Transaction, row: RunRow, announce: Announce | None) -> None:
    """Cancel the children that end with this run, and theirs."""
    for child in tuple(tx.db.children[row.run_id].values()):
        if child.parent is not None and child.parent.tied and child.status in ACTIVE:
            cancel_family(tx, child, compensate=True, reason=PARENT_CLOSED, announce=announce)


def _wake_debounced(tx: Transaction, row: RunRow) -> None:
    """The run's key is free: a debounced start that waits for it may begin."""
    planned = tx.db.debounced.get(row.key) if row.key is not None else None
    if planned is None or planned.wake_at is None or planned.debounced_until is None:
        return
    if planned.wake_at > planned.debounced_until:
        wake(tx, planned)


def _tell_parent(tx: Transaction, row: RunRow) -> None:
    if row.parent is None or row.parent.run_id not in tx.db.runs:
        return
    parent, location = tx.db.runs[row.parent.run_id], row.parent.location
    if parent.owner is not None:
        tx.hint(HintKind.MAIL, parent)
    elif is_parked(parent) and any(w.kind is WaitKind.CHILD and w.location == location for w in parent.waits):
        wake(tx, parent)


def cancel_family(
    tx: Transaction, root: RunRow, *, compensate: bool, reason: str, announce: Announce | None
) -> list[RunRow]:
    """Cancel a run and its attached active descendants, root first; nothing if it is too late for the root."""
    if not _cancel_one(tx, root, compensate, reason, announce):
        return []
    changed, family = [root], [root]
    for member in family:
        children = tx.db.children[member.run_id].values()
        attached = [row for row in children if row.parent and (row.parent.tied or not row.parent.detached)]
        family += attached
        changed += [row for row in attached if _cancel_one(tx, row, compensate, reason, announce)]
    return changed


def _cancel_one(tx: Transaction, row: RunRow, compensate: bool, reason: str, announce: Announce | None) -> bool:
    is_undoing = row.status is RunStatus.PAUSED and row.cause is not None
    decided = decide_cancel(
        RunStatus.COMPENSATING if is_undoing else row.status,
        compensate=compensate,
        has_undo=_has_undo(tx.db, row),
        is_owned=row.owner is not None,
    )
    if decided is None:
        return False
    if row.owner is not None:
        tx.hint(HintKind.MAIL, row)
    if decided is RunStatus.CANCELLED:
        if row.owner is None:  # else a worker that does not know of the cancel yet could begin a long step anew
            tx.drop_all(tx.db.progress[row.run_id], tx.db.progress[row.run_id])
        end(tx, row, decided, announce, epoch=row.epoch + 1, reason=reason)
        let_go(tx, row)
    else:
        tx.change(row, status=decided, reason=reason, hold=None, stalls=0)
        if row.owner is None:
            wake(tx, row)
    return True


def _has_undo(db: MemoryDatabase, row: RunRow) -> bool:
    return any(entry.undo is not None for entry in db.entries[row.run_id].values())
