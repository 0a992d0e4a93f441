"""Rows before and after one transition: statuses, epochs, owners, leases, keys, families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.checks.starts import check_start_change, holds_key
from stepwell.clock import Instant
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, RunStatus, may_move

if TYPE_CHECKING:
    from sim.checker import Checker

Rows = dict[str, Run]
_STOPPED_BY_CANCEL = TERMINAL | {RunStatus.CANCELLING, RunStatus.COMPENSATING, RunStatus.COMPENSATION_FAILED}


def check_rows(checker: Checker, method: str, args: tuple[Any, ...], before: Rows, after: Rows, now: Instant) -> None:
    """Every row that a transition changed."""
    for run_id, row in after.items():
        was = before.get(run_id)
        if was is None:
            _check_new(checker, row)
        elif was != row:
            _check_changed(checker, method, args, was, row, now)
            check_start_change(checker, method, was, row, after, now)
    for run_id in before:
        if run_id not in after:
            checker.violate("I39", run_id, "the run is gone")
    _check_keys(checker, after)


def _check_new(checker: Checker, row: Run) -> None:
    if row.owner is not None:
        checker.owners.add(row.owner)
    parent = row.parent
    if parent is not None and row.generation == 1:
        place = (parent.run_id, parent.location)
        known = checker.children.setdefault(place, row.run_id)
        if known != row.run_id:
            checker.violate("I31", row.run_id, f"a second child of {parent.run_id}, beside {known}")


def _check_changed(checker: Checker, method: str, args: tuple[Any, ...], was: Run, row: Run, now: Instant) -> None:
    if not may_move(was.status, row.status):
        checker.violate("I12", row.run_id, f"{was.status} became {row.status} by {method}")
    if was.status in TERMINAL and row.status is not was.status and method not in ("retry", "amend"):
        checker.violate("I12", row.run_id, f"{was.status} became {row.status} by {method}")
    if row.epoch < was.epoch:
        checker.violate("I17", row.run_id, f"the epoch went back from {was.epoch} to {row.epoch}")
    if row.last_seq < was.last_seq or row.revision < was.revision:
        checker.violate("I8", row.run_id, "the history went back")
    is_dropped = method == "amend" and row.run_id in {child.run_id for child in args[0].children}
    if row.created_at != was.created_at or (row.parent != was.parent and not is_dropped):
        checker.violate("I3", row.run_id, "what was fixed at the start was changed")
    if row.status is RunStatus.CANCELLING and was.status is not row.status:
        checker.shadow(row.run_id).stalls = 0
    if row.owner != was.owner:
        _check_owner(checker, method, args, was, row, now)
    if was.status in TERMINAL and row.status in TERMINAL and (row.output, row.failure) != (was.output, was.failure):
        checker.violate("I3", row.run_id, "the outcome of an ended run was changed")


def _check_owner(checker: Checker, method: str, args: tuple[Any, ...], was: Run, row: Run, now: Instant) -> None:
    if row.owner is not None:
        if was.owner is not None:
            checker.violate("I17", row.run_id, f"taken from {was.owner} by {row.owner} while it was owned")
        if row.epoch != was.epoch + 1:
            checker.violate("I17", row.run_id, f"claimed without a new epoch ({was.epoch} to {row.epoch})")
        checker.owners.add(row.owner)
        if checker.leases.get(row.owner, 0) <= now:
            checker.violate("I18", row.run_id, f"claimed by {row.owner}, whose lease is over")
        ahead = args[0].ahead if method == "claim" and was.status is RunStatus.WAITING else 0
        is_due = was.wake_at is not None and was.wake_at <= now + ahead
        if not is_due and method == "claim":
            checker.violate("I24", row.run_id, f"claimed at {now}, not due before {was.wake_at}")
    elif method == "rescue":
        checker.shadow(row.run_id).stalls += 1
        if checker.leases.get(was.owner or "", 0) > now:
            checker.violate("I18", row.run_id, f"taken from {was.owner}, whose lease is live")
        is_set_aside = row.status is RunStatus.PAUSED and row.failure is not None
        if is_set_aside and checker.shadow(row.run_id).stalls < checker.stalls_max:
            checker.violate("I10", row.run_id, f"paused after {checker.shadow(row.run_id).stalls} stalls")
    elif method in ("relinquish", "retire") and args[0] != was.owner:
        checker.violate("I17", row.run_id, f"given back by {args[0]}, owned by {was.owner}")


def _check_keys(checker: Checker, rows: Rows) -> None:
    holders: dict[str, str] = {}
    for row in rows.values():
        if row.key is not None and holds_key(row):
            if row.key in holders:
                checker.violate("I14", row.run_id, f"key {row.key!r} is also held by {holders[row.key]}")
            holders[row.key] = row.run_id


def check_cancel(checker: Checker, changed: tuple[str, ...], after: Rows) -> None:
    """A cancel reaches all attached descendants."""
    for run_id in changed:
        for row in after.values():
            parent = row.parent
            if parent is None or parent.run_id != run_id or (parent.detached and not parent.tied):
                continue
            if row.status not in _STOPPED_BY_CANCEL:
                checker.violate("I32", row.run_id, f"{row.status} although its parent {run_id} was cancelled")


def check_leases(checker: Checker, method: str, args: tuple[Any, ...], answer: Any, now: Instant, owner: Any) -> None:
    """Workers come, renew and go. `owner` is the process that asks."""
    match method:
        case "register":
            incarnation = args[0].incarnation
            if checker.incarnations.setdefault(incarnation, owner) is not owner:
                checker.violate("I20", "", f"incarnation {incarnation} was used by two processes")
            known = checker.leases.get(incarnation)
            # One that never heard that it was registered has owned nothing, and may try again.
            if known is not None and known <= now and incarnation in checker.owners:
                checker.violate("I19", "", f"registering revived the lease of {incarnation}")
            checker.leases[incarnation] = answer.lease_until
        case "renew":
            if checker.leases.get(args[0], 0) <= now:
                checker.violate("I19", "", f"the lease of {args[0]} was over and is live again")
            if checker.incarnations.get(args[0]) is not owner:
                checker.violate("I20", "", f"{args[0]} was renewed by another process")
            checker.leases[args[0]] = answer.lease_until
        case "retire":
            checker.leases[args[0]] = min(checker.leases.get(args[0], now), now)
        case _:
            pass
