"""Holds: a person paused a run, a workflow or everything, until it is resumed."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stepwell.clock import Instant
from stepwell.model.states import RunStatus

# The stored workflow name of a hold on all workflows. No workflow has an empty name.
ALL_WORKFLOWS = ""

_MAY_BE_HELD = frozenset({RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED})


class Hold(NamedTuple):
    """Who paused something, why, and when."""

    by: str
    reason: str
    at: Instant


class WorkflowHold(NamedTuple):
    """A paused workflow: while this exists, no worker claims its runs."""

    workflow: str | None  # None: all workflows
    hold: Hold


class HoldAct(NamedTuple):
    """A line of the audit: a workflow, or every workflow, was paused or resumed, or a run of it was erased."""

    at: Instant
    workflow: str | None  # None: all
    verb: str  # "pause", "resume" or "erase"
    by: str
    reason: str


def may_be_held(status: RunStatus, cause: str | None, hold: Hold | None) -> bool:
    """Whether a person may pause a run: it is not rolling back, and no one has paused it yet.

    An owned run first finishes the steps that are running. A run that changed code has paused stays paused.
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
