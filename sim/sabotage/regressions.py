"""Switches that bring back the defects that the simulation found: it must find them again."""

from __future__ import annotations

import asyncio
from typing import Any

from sim.sabotage.patches import Patches, switches
from stepwell.model.commits import Applied, Verdict
from stepwell.model.failures import poisoned
from stepwell.model.runs import Claimed
from stepwell.replay.bodies import Body
from stepwell.replay.waits import Waits
from stepwell.stores.sqlite.transitions import moves, rescues
from stepwell.worker.bodies import Bodies, Ended
from stepwell.worker.claimer import Claimer
from stepwell.worker.execution import Execution
from stepwell.worker.executions import Executions
from stepwell.worker.lease import Lease


def stale_barrier() -> Patches:
    """Bodies that were asked for while the park was on its way wait for a number of the claim before."""
    original = Execution.reclaim

    def reclaim(self: Execution, claimed: Claimed, *, is_leaving: bool = False) -> None:
        bodies = self._bodies
        held, bodies.held = bodies.held, []
        original(self, claimed, is_leaving=is_leaving)
        bodies.held = held + bodies.held

    return [(Execution, "reclaim", reclaim)]


def children_left_behind() -> Patches:
    """A run that is given up meanwhile leaves the children that its last commit had claimed."""
    original = Execution.answered

    def answered(self: Execution, applied: Applied) -> None:
        original(self, applied._replace(claimed=()) if self.is_over else applied)

    return [(Execution, "answered", answered)]


def fenced_not_doubted() -> Patches:
    """A fenced run may be ours again by a claim that was never heard of, and nobody asks."""
    original = Execution.answered

    def answered(self: Execution, applied: Applied) -> None:
        if applied.verdict is Verdict.FENCED and not self.is_over:
            self._commits.sent = None
            self.lose()
        else:
            original(self, applied)

    return [(Execution, "answered", answered)]


def unbegun_body_awaited() -> Patches:
    """A body that is cancelled before it begins is waited for."""

    def cancel(self: Bodies, body: Body, task: asyncio.Task[Any], ended: Ended) -> None:
        task.cancel()

    return [(Bodies, "_cancel", cancel)]


def late_bodies_begin() -> Patches:
    """A body begins though the process stood still for longer than its lease after the body was called for."""
    return [(Bodies, "_may_begin", lambda self, body, owner: True)]


def asks_before_granted() -> Patches:
    """A lease that is being taken anew is renewed before it is there."""
    return [(Lease, "is_granted", True)]


def later_claims_forgotten() -> Patches:
    """What was claimed again while its history was loaded under a lost lease is forgotten."""
    original = Executions.load

    async def load(self: Executions, claimed: list[Claimed], lease: Lease) -> None:
        adopt = self.adopt
        self.adopt = lambda again: adopt(again) if lease is self._resources.lease else None  # type: ignore[method-assign,assignment]
        try:
            await original(self, claimed, lease)
        finally:
            del self.adopt

    return [(Executions, "load", load)]


def cursor_lost_at_failure() -> Patches:
    """A failed run forgets how far its loops were."""
    return [(moves, "KEEPS_CURSORS", frozenset())]


def poison_hides_failure() -> Patches:
    """A rollback that is paused forgets why the run had failed."""
    return [(rescues, "poisoned", lambda run_id, stalls, path, own: poisoned(run_id, stalls, path, None))]


def freed_under_our_feet() -> Patches:
    """What we own is settled while an answer that brings claims is on its way."""
    original = Claimer.claim_once

    async def claim_once(self: Claimer) -> Any:
        requests = self._resources.requests
        requests.count, due = 0, requests.count
        try:
            return await original(self)
        finally:
            requests.count += due

    return [(Claimer, "claim_once", claim_once)]


def held_without_timer() -> Patches:
    """A run that is kept until its longest wait is over has no timer for that."""
    return [(Waits, "has_deadlines", property(lambda self: bool(self.deadlines)))]


FOUND_SWITCHES = switches(unbegun_body_awaited, cursor_lost_at_failure, held_without_timer, late_bodies_begin)
# Too few seeds show these: hundreds or thousands are needed, so each has a direct test in tests/faults/test_found.py.
RARE_SWITCHES = switches(
    stale_barrier,
    children_left_behind,
    fenced_not_doubted,
    asks_before_granted,
    later_claims_forgotten,
    poison_hides_failure,
    freed_under_our_feet,
)
