"""Priorities, deadlines, replaced and debounced runs, and children that end with their parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sim.coroutines import at_once
from sim.starts import MAX_WAIT, QUIET
from stepwell.clock import Instant
from stepwell.model.failures import decode_failure
from stepwell.model.locations import is_undoing
from stepwell.model.runs import Claimed, Run
from stepwell.model.states import ACTIVE, TERMINAL, RunStatus
from stepwell.model.workers import Claimant

if TYPE_CHECKING:
    from sim.checker import Checker
    from sim.world import World

Rows = dict[str, Run]
LATE = frozenset({"SW471", "SW472"})
FORWARD = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING})
_RUN = frozenset({RunStatus.COMPLETED, RunStatus.CANCELLED})
_SUCCESS = frozenset({RunStatus.COMPLETED, RunStatus.CONTINUED})
_CLOSING = TERMINAL | {RunStatus.COMPENSATING}
_STOPPED = TERMINAL | {RunStatus.CANCELLING, RunStatus.COMPENSATING, RunStatus.COMPENSATION_FAILED}


def why_late(run: Run) -> str | None:
    """The code of the failure of a run whose time was over."""
    if run.failure is None:
        return None
    failure = decode_failure(run.failure)
    code = failure.causes.get("run", failure).code
    return code if code in LATE else None


def holds_key(row: Run) -> bool:
    """Whether nobody else may have its key."""
    return row.status in ACTIVE and row.replaced_by is None and row.debounced_until is None


def check_start_row(checker: Checker, row: Run, now: Instant) -> None:
    """One row, after any transition."""
    deadline = row.deadline_at
    is_parked = row.owner is None and row.status in FORWARD
    if deadline is not None and is_parked and (row.wake_at is None or row.wake_at > max(now, deadline)):
        checker.violate("I15", row.run_id, f"nothing makes it due at its deadline ({row.wake_at} for {deadline})")
    is_in_rollback = row.status is RunStatus.PAUSED and row.cause is not None
    if deadline is not None and row.parent is not None and is_undoing(row.parent.location):
        checker.violate("I24", row.run_id, "a child of a compensation has a deadline, and a rollback has none")
    if row.replaced_by is not None and row.status not in _STOPPED and not is_in_rollback:
        checker.violate("I14", row.run_id, f"{row.status}, although it was replaced by {row.replaced_by}")


def check_start_change(checker: Checker, method: str, was: Run, row: Run, after: Rows, now: Instant) -> None:
    """One row that a transition changed."""
    fixed = (row.priority, row.max_suspend)
    is_late = row.deadline_at != was.deadline_at and method not in ("retry", "amend")
    if (was.priority, was.max_suspend) != fixed or is_late:
        checker.violate("I3", row.run_id, "what was said at the start was changed")
    if row.input != was.input and (method != "debounce" or was.debounced_until is None):
        checker.violate("I3", row.run_id, "its input was changed")
    if row.status is not was.status:
        _check_time(checker, was, row, now)
        if row.status in _CLOSING:
            _check_tied(checker, row, after)
    if was.debounced_until is not None and row.owner is not None:
        called_at = checker.debounced.get(row.run_id, 0)
        if now < min(called_at + QUIET * 1e6, was.debounced_until):
            checker.violate("I24", row.run_id, f"began {now - called_at} µs after a call, before it was quiet")
        if was.debounced_until > was.created_at + MAX_WAIT * 1e6:
            checker.violate("I24", row.run_id, "its longest wait grew")


def _check_time(checker: Checker, was: Run, row: Run, now: Instant) -> None:
    deadline = row.deadline_at
    if row.status in _SUCCESS and deadline is not None and now >= deadline:
        checker.violate("I24", row.run_id, f"{row.status} {now - deadline} µs after its deadline")
    if was.status is RunStatus.RUNNING and row.status in (RunStatus.FAILED, RunStatus.COMPENSATING):
        code = why_late(row)
        if code == "SW471" and (deadline is None or now < deadline):
            checker.violate("I24", row.run_id, "failed by a deadline that had not passed")
        if code is not None:
            checker.stats["deadlines passed" if code == "SW471" else "waited too long"] += 1


def _check_tied(checker: Checker, row: Run, after: Rows) -> None:
    for child in after.values():
        parent = child.parent
        if parent is not None and row.status is RunStatus.COMPENSATING and is_undoing(parent.location):
            continue  # a rollback that goes on keeps what its compensations have begun
        if parent is not None and parent.tied and parent.run_id == row.run_id and child.status not in _STOPPED:
            checker.violate("I32", child.run_id, f"{child.status}, although it ends with its parent {row.run_id}")


def check_claims(
    checker: Checker, claims: list[Claimed], claimant: Claimant | None, before: Rows, now: Instant
) -> None:
    """Nothing that is due was passed over by something less urgent."""
    if not claims or claimant is None:
        return
    least = min(claims, key=lambda claimed: claimed.run.priority).run
    taken = {claimed.run.run_id for claimed in claims}
    held = {one.workflow for one in at_once(checker.inspector.holds.list_holds())}
    for row in before.values():
        if row.workflow in held:
            continue
        is_due = row.wake_at is not None and row.wake_at <= now and row.debounced_until is None
        is_left = is_due and row.run_id not in taken and row.definition in claimant.definitions
        if is_left and row.priority > least.priority:
            checker.violate("I37", row.run_id, f"priority {row.priority} was due, and {least.run_id} was claimed")


def check_late_rows(world: World, left: list[Run], bound: float, *, are_all_busy: bool) -> None:
    """Long after the last fault, no run is still going on whose time is over, unless it stands in line: it was due by
    then, and no worker has had room for it.
    """
    now = world.checker.inspector.now()

    def is_in_line(row: Run, over_at: Instant) -> bool:
        return are_all_busy and row.owner is None and row.wake_at is not None and row.wake_at <= over_at

    for row in left:
        deadline = row.deadline_at
        is_late = deadline is not None and row.status in FORWARD and deadline < now - bound * 1e6
        if deadline is not None and is_late and not is_in_line(row, deadline):
            world.violate("L2", row.run_id, f"still {row.status}, long after its deadline")
        if row.max_suspend is None or row.status is not RunStatus.WAITING:
            continue
        detail = world.checker.detail(row.run_id)
        for wait in detail.history.waits if detail is not None else ():
            limit = wait.limit_at
            if limit is not None and limit < now - bound * 1e6 and not is_in_line(row, limit):
                world.violate("L2", row.run_id, "still waiting, for longer than it may")


def check_debounced(world: World) -> None:
    """The input of the last acknowledged call, or of a later one, was run; or its run was cancelled by somebody."""
    rows: list[Run] = list(world.checker.rows_now.values())
    for one in world.clients.starters.debounced:
        ran = [_call(row) for row in rows if row.key == one.key and row.status in _RUN]
        if one.acknowledged > max(ran, default=0):
            world.violate("I14", one.key, f"call {one.acknowledged} was acknowledged, and only {ran} were run")
        if len(ran) > one.calls:
            world.violate("I14", one.key, f"{len(ran)} runs of {one.calls} calls")


def _call(row: Run) -> Any:
    return msgspec.json.decode(row.input[1:])["call"]
