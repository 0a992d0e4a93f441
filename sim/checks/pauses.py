"""Paused runs: nobody claims them, nobody who was told begins a step in them, and nobody forgets that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.coroutines import at_once
from stepwell.model.commits import Applied, Commit
from stepwell.model.runs import Claimed, Run
from stepwell.model.states import RunStatus
from stepwell.replay.bodies import Body

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sim.checker import Checker
    from sim.process import Process


def check_claimed(checker: Checker, claims: Iterable[Claimed], before: dict[str, Run]) -> None:
    """Nobody owns a run that is paused, or whose workflow is."""
    found = list(claims)
    held = {one.workflow for one in at_once(checker.inspector.holds.list_holds())} if found else set()
    for claimed in found:
        run = claimed.run
        was = before.get(run.run_id)
        if run.hold is not None or (was is not None and was.status is RunStatus.PAUSED):
            checker.violate("I49", run.run_id, "claimed while it is paused")
        if not held.isdisjoint((None, run.workflow)):
            checker.violate("I49", run.run_id, f"claimed while {held} are paused")


def check_hold(checker: Checker, was: Run | None, row: Run) -> None:
    """A pause lasts until somebody ends it, or the run has another end."""
    if row.hold is not None and row.status not in (RunStatus.RUNNING, RunStatus.PAUSED):
        checker.violate("I49", row.run_id, f"paused by {row.hold.by}, and {row.status}")
    if was is None or was.hold is None or was.owner is None or row.owner is not None:
        return
    if row.hold is None and row.status in (RunStatus.PENDING, RunStatus.WAITING):
        checker.violate("I49", row.run_id, f"given up as {row.status}: that it was paused is forgotten")


def heard_applied(checker: Checker, process: Process, commit: Commit, applied: Applied) -> None:
    """An owner was told that its run is to be given up."""
    if applied.held and commit.move is None:
        checker.held[process].add((commit.run_id, commit.fence.epoch))


def check_begins(checker: Checker, process: Process, body: Body, epoch: int) -> None:
    """No step begins in a run whose owner was told; one that is recorded as begun is under way."""
    if (body.info.run_id, epoch) in checker.held[process] and not body.is_announced:
        checker.violate(
            "I49", body.info.run_id, f"{process.name} starts {body.info.path} after it was told of the pause"
        )
