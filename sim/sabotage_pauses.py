"""Switches that break pausing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.model.states import RunStatus
from stepwell.stores.memory import commits, runs
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transitions import claims, moves
from stepwell.worker.execution import Execution

Patches = list[tuple[Any, str, Any]]


def paused_workflow_claimed() -> Patches:
    """Claims do not look at what is paused."""
    return [(runs, "served", lambda db, definitions: tuple(definitions))]


def park_forgets_pause() -> Patches:
    """A run that parks is not paused any more."""

    def stand_still(tx: Any, row: Any) -> None:
        status = RunStatus.WAITING if row.status is RunStatus.RUNNING else row.status  # an heir has not begun
        tx.change(row, status=status, owner=None, wake_at=tx.now, hold=None)

    return [(commits, "stand_still", stand_still)]


def release_forgets_pause() -> Patches:
    """A run that is given back, or taken from the dead, is not paused any more."""

    def stand_still(tx: Any, row: Any) -> None:
        tx.change(row, status=RunStatus.PENDING, owner=None, wake_at=tx.now, hold=None)

    return [(runs, "stand_still", stand_still)]


def worker_deaf_to_pauses() -> Patches:
    """A worker that is told of a pause goes on as if it had not been."""
    original = Execution.answered
    return [(Execution, "answered", lambda self, applied: original(self, applied._replace(held=False)))]


def sqlite_paused_workflow_claimed() -> Patches:
    """Claims do not look at what is paused."""
    return [(claims, "served", lambda connection, definitions: definitions)]


def sqlite_release_forgets_pause() -> Patches:
    """A run that is given back is not paused any more."""
    text, held = SQL["runs.release"], "iif(hold is null, :now, null)"
    assert held in text
    broken = text.replace("when hold is not null then 'paused' ", "").replace(held, ":now, hold = null")
    return [(moves, "_RELEASE", broken)]


PAUSE_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made
    for made in (paused_workflow_claimed, park_forgets_pause, release_forgets_pause)
}
PAUSE_WORKER_SWITCHES: dict[str, Callable[[], Patches]] = {"worker-deaf-to-pauses": worker_deaf_to_pauses}
SQLITE_PAUSE_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made for made in (sqlite_paused_workflow_claimed, sqlite_release_forgets_pause)
}
