"""Pausing runs and workflows."""

from __future__ import annotations

from collections.abc import Collection

from stepwell.ids import RunId
from stepwell.model.holds import ALL_WORKFLOWS, Hold, HoldAct, may_be_held, not_held
from stepwell.model.states import RunStatus
from stepwell.stores.base.views import Audit
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.memory.database import MemoryDatabase, RunRow
from stepwell.stores.memory.transaction import Transaction


def pause(tx: Transaction, run_id: RunId, by: str, reason: str) -> bool:
    """Have a run stand still, as soon as nobody owns it."""
    row = tx.db.runs.get(run_id)
    if row is None or not may_be_held(row.status, row.cause, row.hold):
        return False
    before = row.status
    tx.change(row, hold=Hold(by, reason, tx.now))
    if row.owner is None:
        stand_still(tx, row)
    else:
        tx.hint(HintKind.MAIL, row)
    act = Audit(tx.now, run_id, "pause", by, before.value, row.status.value, reason)
    tx.put(tx.db.audit, run_id, (*tx.db.audit.get(run_id, ()), act))
    return True


def stand_still(tx: Transaction, row: RunRow) -> None:
    """A run with a hold is nobody's any more."""
    tx.change(row, status=RunStatus.PAUSED, owner=None, wake_at=None)


def pause_workflow(tx: Transaction, workflow: str | None, by: str, reason: str) -> bool:
    """Let nobody claim runs of a workflow, or of any."""
    name = workflow or ALL_WORKFLOWS
    if name in tx.db.holds:
        return False
    tx.put(tx.db.holds, name, Hold(by, reason, tx.now))
    _note(tx, HoldAct(tx.now, workflow, "pause", by, reason))
    tx.announce(HintKind.HELD)
    return True


def resume_workflow(tx: Transaction, workflow: str | None, by: str) -> bool:
    """Let them be claimed again."""
    name = workflow or ALL_WORKFLOWS
    if name not in tx.db.holds:
        return False
    tx.drop(tx.db.holds, name)
    _note(tx, HoldAct(tx.now, workflow, "resume", by, ""))
    tx.announce(HintKind.READY)
    return True


def served(db: MemoryDatabase, definitions: Collection[str]) -> tuple[str, ...]:
    """The definitions whose runs may be claimed now."""
    return not_held(tuple(definitions), db.holds)


def is_held(db: MemoryDatabase, row: RunRow) -> bool:
    """Whether its owner is to give it up."""
    return row.hold is not None or ALL_WORKFLOWS in db.holds or row.workflow in db.holds


def _note(tx: Transaction, act: HoldAct) -> None:
    tx.put(tx.db.hold_acts, len(tx.db.hold_acts) + 1, act)
