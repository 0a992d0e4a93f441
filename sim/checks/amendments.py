"""Repairs: the record is what it was but for what was to be dropped, and a repair that is asked for twice is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.checks.receipts import begin_anew
from sim.checks.shadow import Shadow
from stepwell.clock import Instant
from stepwell.model.amendments import Amended, Amendment
from stepwell.model.entries import Entry
from stepwell.model.locations import Location, is_within, undo
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus, WaitKind

if TYPE_CHECKING:
    from sim.checker import Checker

Rows = dict[str, Run]
_MOVES = ("wake", "reschedule")


def check_amend(
    checker: Checker, amendment: Amendment, answer: Amended, before: Rows, after: Rows, now: Instant
) -> None:
    """One repair: judge it by the rows, and keep the record in step."""
    run_id = amendment.run_id
    was, row = before[run_id], after[run_id]
    if answer is not Amended.APPLIED or was.amendment == amendment.amendment_id:
        if before != after:
            checker.violate("I3", run_id, f"a repair changed something, and was answered {answer.value}")
        return
    checker.stats["repairs"] += 1
    checker.stats[f"repairs: {amendment.verb}"] += 1
    if (was.status, was.epoch, was.revision) != (amendment.status, amendment.epoch, amendment.revision):
        checker.violate("I17", run_id, "it was repaired, and was not as the plan expected")
    if (row.status, row.epoch, row.revision) != (RunStatus.PENDING, was.epoch + 1, was.revision + 1):
        checker.violate("I17", run_id, f"repaired without a new epoch and revision ({was.epoch} to {row.epoch})")
    if row.last_seq != was.last_seq + len(amendment.entries):
        checker.violate("I8", run_id, f"the seq went from {was.last_seq} to {row.last_seq}")
    shadow = checker.shadow(run_id)
    _check_order(checker, shadow, amendment)
    if amendment.verb in _MOVES:
        _moved(checker, shadow, amendment)
        return
    for entry in _dropped(shadow, amendment):
        checker.events.forgotten(run_id, entry)
    if was.status is RunStatus.FAILED:
        checker.events.revived(run_id)
    checker.signals.used_by_repair(shadow, amendment)
    _integrate(shadow, amendment, now)
    for child in amendment.children:
        known = before[child.run_id].parent
        if known is not None:
            checker.children.pop((run_id, known.location), None)
        parent = after[child.run_id].parent
        if parent is None or parent.location != child.location:
            checker.violate("I31", child.run_id, "its call was dropped, and it stands there still")
    detail = checker.detail(run_id)
    assert detail is not None
    checker.compare(run_id, detail.history.entries)
    for cursor in detail.history.cursors:
        inside = [at for at in amendment.forgotten if is_within(at, cursor.location)]
        if inside and amendment.verb == "rewind":
            checker.violate("I8", run_id, f"{shadow.path(inside[0])} was dropped, and its loop goes on behind it")


def _moved(checker: Checker, shadow: Shadow, amendment: Amendment) -> None:
    """The run is woken, or one of its deadlines is another one now. All else is as it was."""
    if amendment.entries or amendment.forgotten:
        checker.violate("I8", shadow.run_id, f"a {amendment.verb} has changed the history")
    was = dict(shadow.deadlines)
    for wait in amendment.waits or ():
        at = (wait.location, wait.kind)
        if amendment.verb == "wake" and shadow.deadlines.get(at, wait.due_at) != wait.due_at:
            checker.violate("I24", shadow.run_id, f"the deadline of {shadow.path(wait.location)} was moved by a wake")
        if wait.kind is not WaitKind.RETRY:
            shadow.deadlines[at] = wait.due_at
    if amendment.verb == "reschedule" and amendment.waits and was == shadow.deadlines:
        checker.violate("I24", shadow.run_id, "a deadline was moved to where it was")


def _dropped(shadow: Shadow, amendment: Amendment) -> list[Entry]:
    """What is to be done anew: what the repair names, and what loops that begin anew had trimmed."""
    anew = (*amendment.forgotten, *amendment.ended_cursors)
    trimmed = [
        entry
        for at, entry in shadow.ever.items()
        if at not in shadow.entries and any(is_within(at, loop) for loop in anew)
    ]
    return [*(shadow.entries[at] for at in amendment.forgotten), *trimmed]


def _check_order(checker: Checker, shadow: Shadow, amendment: Amendment) -> None:
    """A rewind leaves a beginning of the history."""
    gone = set(amendment.forgotten)
    dropped = [entry.seq for at, entry in shadow.entries.items() if at in gone]
    kept = [entry.seq for at, entry in shadow.entries.items() if at not in gone]
    if amendment.verb == "rewind" and dropped and kept and max(kept) > min(dropped):
        checker.violate("I8", shadow.run_id, f"entry {min(dropped)} was dropped, and entry {max(kept)} kept")


def _integrate(shadow: Shadow, amendment: Amendment, now: Instant) -> None:
    begin_anew(shadow)
    shadow.stalls = shadow.floor = 0
    shadow.names += amendment.names
    for location in amendment.forgotten:
        shadow.forget(location)
        shadow.undoable.pop(undo(location), None)  # its effect stays
    shadow.deadlines.clear()
    shadow.limits.clear()
    for loop in amendment.ended_cursors:
        shadow.loops.discard(loop)
        _forget_trimmed(shadow, loop)
    for location in amendment.ended_progress:
        shadow.progress.pop(location, None)
    for attempt in amendment.attempts:
        known = [one for one in shadow.attempts.get(attempt.location, []) if one.number != attempt.number]
        shadow.attempts[attempt.location] = sorted([*known, attempt], key=lambda one: one.number)
    for entry in amendment.entries:
        shadow.add(entry)
    shadow.retries += 1
    shadow.forgive(now)


def _forget_trimmed(shadow: Shadow, loop: Location) -> None:
    """The iterations of a loop that begins anew may be recorded again."""
    shadow.closed = [at for at in shadow.closed if at in shadow.entries or not is_within(at, loop)]
    for at in [one for one in shadow.ever if is_within(one, loop) and one not in shadow.entries]:
        del shadow.ever[at]
        shadow.paths.pop(shadow.path(at), None)
