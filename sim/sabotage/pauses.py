"""Switches that break pausing."""

from __future__ import annotations

from typing import Any

from sim.sabotage.patches import Patches, nothing, statement, switches
from stepwell.model.commits import Park
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transitions import claims, commits, moves
from stepwell.worker.execution import Execution


def paused_workflow_claimed() -> Patches:
    """Claims do not look at what is paused."""
    return [(claims, "served", lambda connection, definitions: definitions)]


def park_forgets_pause() -> Patches:
    """A run that parks, or its successor, is not paused any more."""
    original = moves.move_run

    def move_run(tx: Any, step: Any, move: Any, announce: Any) -> bool:
        if step.hold is not None and isinstance(move, Park):
            tx.execute("update stepwell_runs set hold = null where id = ?", (step.run,))
            step, move = step._replace(hold=None), Park(tx.now)
        return original(tx, step, move, announce)

    return [(commits, "move_run", move_run), (moves, "pause_unowned", nothing)]


def release_forgets_pause() -> Patches:
    """A run that is given back is not paused any more."""
    return _unpaused("runs.release")


def rescue_forgets_pause() -> Patches:
    """A run that is taken from a dead worker is not paused any more."""
    return _unpaused("runs.free")


def _unpaused(name: str) -> Patches:
    """The statement makes a run due, whether or not a person has paused it."""
    start, end = SQL[name].index("when hold is not null"), SQL[name].index(", null)") + len(", null)")
    held = SQL[name][start:end]
    paused, due = "when hold is not null then 'paused' ", "iif(hold is null, :now, null)"
    return statement(name, held, held.replace(paused, "").replace(due, ":now, hold = null"))


def worker_deaf_to_pauses() -> Patches:
    """A worker that is told of a pause goes on as if it had not been."""
    original = Execution.answered
    return [(Execution, "answered", lambda self, applied: original(self, applied._replace(held=False)))]


PAUSE_SWITCHES = switches(
    paused_workflow_claimed, park_forgets_pause, release_forgets_pause, rescue_forgets_pause, worker_deaf_to_pauses
)
