"""Holds: somebody wants a run, a workflow or everything to stand still until it is let go on."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stepwell.clock import Instant
from stepwell.model.states import RunStatus

# As the name of a workflow, where a hold is stored: all of them. No workflow has an empty name.
ALL_WORKFLOWS = ""

_MAY_BE_HELD = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED})


class Hold(NamedTuple):
    """Who keeps something from going on, why, and since when."""

    by: str
    reason: str
    at: Instant


class WorkflowHold(NamedTuple):
    """While it is there, nobody claims a run of the workflow."""

    workflow: str | None  # None: of any workflow
    hold: Hold


class HoldAct(NamedTuple):
    """A line of the audit: a workflow, or all, was paused or resumed."""

    at: Instant
    workflow: str | None  # None: all
    verb: str  # "pause" or "resume"
    by: str
    reason: str


def may_be_held(status: RunStatus, cause: str | None, hold: Hold | None) -> bool:
    """Whether a person may pause a run: it goes forwards, and nobody else has paused it.

    One that is owned goes on to the end of the steps under way; one that was paused by a divergence stays paused.
    """
    return status in _MAY_BE_HELD and cause is None and hold is None


def workflow_of(definition: str) -> str:
    """The name in "name@version"."""
    return definition.rpartition("@")[0]


def not_held(definitions: tuple[str, ...], held: Collection[str]) -> tuple[str, ...]:
    """The definitions whose runs may be claimed, given the workflows that are held."""
    if not held:
        return definitions
    if ALL_WORKFLOWS in held:
        return ()
    return tuple(definition for definition in definitions if workflow_of(definition) not in held)
