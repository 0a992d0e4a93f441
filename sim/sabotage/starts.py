"""Switches that break how runs are started, and what was said about them at the start."""

from __future__ import annotations

from typing import Any

from sim.sabotage.patches import Patches, nothing, statement, switches
from sim.sabotage.stores import keys_not_unique
from stepwell.clock import Span
from stepwell.model import commits as judgement
from stepwell.replay.turn import Turn
from stepwell.stores.sqlite.transitions import claims, moves, starts
from stepwell.worker.claim_state import ClaimState


def deadline_ignored_while_waiting() -> Patches:
    """A parked run is not due at its deadline."""
    original = moves._park
    return [(moves, "_park", lambda tx, step, park: original(tx, step._replace(deadline_at=None), park))]


def deadline_ignored_while_running() -> Patches:
    """Neither the worker nor the store looks at the deadline of a run that goes on."""
    return [
        (ClaimState, "is_past_deadline", lambda self, now: False),
        (judgement, "may_follow_deadline", lambda move: True),
        *statement("runs.finish_known", "deadline_at is null or deadline_at > :now", "true or :now"),
    ]


def deadline_too_early() -> Patches:
    """A worker gives a run up some time before its deadline."""
    original = ClaimState.is_past_deadline
    return [(ClaimState, "is_past_deadline", lambda self, now: original(self, now + 300_000))]


def limit_of_wait_extended() -> Patches:
    """A wait that is armed again may take as long again."""
    original = Turn.wait

    async def wait(self: Turn, location: Any, *args: Any) -> Any:
        stored = self.journal.waits.get(location)
        if stored is not None and stored.limit_at is not None:
            limit = self.waits.limit(self.now, stored.due_at)
            self.journal.waits[location] = stored._replace(limit_at=limit)
        return await original(self, location, *args)

    return [(Turn, "wait", wait)]


def priority_ignored() -> Patches:
    """What has been due longest is claimed, however urgent something else is."""
    original = claims._find_lanes
    return [(claims, "_find_lanes", lambda tx, claimant: [(0, number) for _, number in original(tx, claimant)])]


def start_overtakes() -> Patches:
    """A run is claimed with its start although something more urgent is due."""
    return statement("definitions.find_more_urgent", "d.priority > :priority", "d.priority > :priority + 1000")


def replaced_run_goes_on() -> Patches:
    """A replaced run loses its key, and is not cancelled."""
    return [(starts, "cancel_family", lambda tx, row, **options: [])]


def replaced_run_keeps_its_key() -> Patches:
    """A replaced run that has something to undo still has its key."""
    return [*statement("runs.replace", "where id = :id", "where id = :id and :successor = ''"), *keys_not_unique()]


def debounce_loses_the_last_input() -> Patches:
    """A call for a planned run only puts it off."""
    return statement("payloads.change_input", "input = :input", "input = iif(:input is null, :input, input)")


def debounce_does_not_wait() -> Patches:
    """A debounced run begins at once."""
    original = starts.debounce
    return [(starts, "debounce", lambda tx, new, quiet, max_wait: original(tx, new, Span(1), max_wait))]


def debounce_takes_a_run_for_planned() -> Patches:
    """A call that comes when the run has begun is taken for done."""
    original = starts.debounce
    return [(starts, "debounce", lambda *args: original(*args)._replace(is_stale=False))]


def tied_children_left() -> Patches:
    """Children that end with their parent go on."""
    return [(moves, "cancel_tied", nothing)]


START_SWITCHES = switches(
    deadline_ignored_while_waiting,
    deadline_ignored_while_running,
    deadline_too_early,
    limit_of_wait_extended,
    priority_ignored,
    start_overtakes,
    replaced_run_goes_on,
    replaced_run_keeps_its_key,
    debounce_loses_the_last_input,
    debounce_does_not_wait,
    debounce_takes_a_run_for_planned,
    tied_children_left,
)
