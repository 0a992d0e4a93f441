"""Pausing runs and workflows."""

from __future__ import annotations

import apsw

from stepwell.ids import RunId
from stepwell.model.holds import ALL_WORKFLOWS, Hold, HoldAct, WorkflowHold, may_be_held, not_held
from stepwell.model.states import RunStatus
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.rows import decode_hold, encode_hold, to_status
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction, rows_of
from stepwell.stores.sqlite.transitions.audit import Actor, note

_LIST_WORKFLOWS = SQL["holds.list_workflows"]


def pause(tx: Transaction, run_id: RunId, actor: Actor, reason: str) -> bool:
    """Pause a run at once, or when its owner releases it."""
    if actor.has_acted(tx):
        return True
    found = tx.find("runs.find_for_operator", run_id=run_id)
    if found is None:
        return False
    run, status, _, cause, stored, owner = found
    if not may_be_held(to_status(status), cause, decode_hold(stored)):
        return False
    hold = Hold(actor.by, reason, tx.now)
    if owner is None:
        pause_unowned(tx, run, run_id, hold)
    else:
        tx.run("runs.mark_held", id=run, hold=encode_hold(hold))
        tx.hint(HintKind.MAIL, run_id)
    note(tx, run, "pause", actor, status, reason)
    return True


def pause_unowned(tx: Transaction, run: int, run_id: RunId, hold: Hold) -> None:
    """Pause a run without an owner."""
    tx.run("runs.pause_unowned", id=run, hold=encode_hold(hold))
    tx.hint(HintKind.ENDED, run_id)


def withdraw(tx: Transaction, run: int, actor: Actor) -> None:
    """Remove the hold of a run that its owner has not released yet."""
    tx.run("runs.mark_held", id=run, hold=None)
    note(tx, run, "resume", actor, RunStatus.RUNNING)


def pause_workflow(tx: Transaction, workflow: str | None, actor: Actor, reason: str) -> bool:
    """Stop claims of the runs of a workflow, or of all workflows."""
    if actor.has_acted(tx):
        return True
    hold = Hold(actor.by, reason, tx.now)
    tx.run("holds.add", workflow=workflow or ALL_WORKFLOWS, **hold._asdict())
    if tx.connection.changes() != 1:
        return False
    add_act(tx, HoldAct(tx.now, workflow, "pause", actor.by, reason), actor.act)
    tx.hint_all(HintKind.HELD)
    return True


def resume_workflow(tx: Transaction, workflow: str | None, actor: Actor) -> bool:
    """Allow claims again."""
    if actor.has_acted(tx):
        return True
    tx.run("holds.remove", workflow=workflow or ALL_WORKFLOWS)
    if tx.connection.changes() != 1:
        return False
    add_act(tx, HoldAct(tx.now, workflow, "resume", actor.by, ""), actor.act)
    tx.hint_all(HintKind.READY)
    return True


def add_act(tx: Transaction, line: HoldAct, act: str = "") -> None:
    """Add a line to the audit."""
    tx.run("holds.note", act=act, **line._replace(workflow=line.workflow or ALL_WORKFLOWS)._asdict())


def served(connection: apsw.Connection, definitions: tuple[str, ...]) -> tuple[str, ...]:
    """The definitions whose runs may be claimed now."""
    held = [workflow for (workflow,) in connection.execute(_LIST_WORKFLOWS)]
    return not_held(definitions, held)


def list_holds(connection: apsw.Connection) -> list[WorkflowHold]:
    """The workflows that are paused, by name."""
    return [WorkflowHold(workflow or None, Hold._make(hold)) for workflow, *hold in rows_of(connection, "holds.list")]


def list_acts(connection: apsw.Connection, limit: int) -> list[HoldAct]:
    """The latest acts, newest first."""
    rows = rows_of(connection, "holds.list_acts", limit=limit)
    return [HoldAct(at, workflow or None, *act) for at, workflow, *act in rows]
