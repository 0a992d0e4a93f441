"""Views as JSON objects for the command line: fields are only ever added within a schema's version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from stepwell.advice import Advice, in_commands

if TYPE_CHECKING:
    from stepwell.engine.causes import Cause
    from stepwell.engine.error_groups import ErrorGroup
    from stepwell.engine.facts import Audience
    from stepwell.engine.saved_views import SavedView
    from stepwell.engine.schedule_views import (
        BackfillView,
        PreviewedTickView,
        ScheduleActView,
        ScheduleView,
        TickView,
        TriggeredView,
    )
    from stepwell.engine.triggers import TriggerActView, TriggerView
    from stepwell.engine.undos import Undo
    from stepwell.engine.views import ActView, EntryView, HoldView, ProgressView, RunView, SignalView, WaitView
    from stepwell.errors.records import FailureRecord

RUN = "stepwell.run/1"
HISTORY = "stepwell.history/1"


def run_body(run: RunView) -> dict[str, Any]:
    """One run, without its history."""
    return _body(run)


def hold_body(hold: HoldView | None) -> dict[str, Any] | None:
    """Who paused something."""
    return None if hold is None else _body(hold)


def cause_body(cause: Cause) -> dict[str, Any]:
    """What blocks a run, and what blocks that."""
    return _body(cause)


def trigger_body(trigger: TriggerView) -> dict[str, Any]:
    """One trigger."""
    return _body(trigger)


def trigger_act_body(act: TriggerActView) -> dict[str, Any]:
    """A line of a trigger's history."""
    return _body(act)


def schedule_body(schedule: ScheduleView) -> dict[str, Any]:
    """One schedule."""
    return _body(schedule)


def schedule_act_body(act: ScheduleActView) -> dict[str, Any]:
    """A line of a schedule's history."""
    return _body(act)


def tick_body(tick: TickView | PreviewedTickView) -> dict[str, Any]:
    """One tick of a schedule."""
    return _body(tick)


def backfill_body(backfill: BackfillView | TriggeredView) -> dict[str, Any]:
    """What a backfill or a trigger did."""
    return _body(backfill)


def fact_body(view: Any) -> dict[str, Any]:
    """Any view: a letter, an alert, or a line of a history."""
    return _body(view)


def saved_view_body(view: SavedView) -> dict[str, Any]:
    """One saved view."""
    return _body(view)


def entry_body(entry: EntryView) -> dict[str, Any]:
    """One line of history."""
    return _body(entry)


def signal_body(signal: SignalView) -> dict[str, Any]:
    """A signal that no run has read."""
    return _body(signal)


def group_body(group: ErrorGroup) -> dict[str, Any]:
    """Failures that have the same cause."""
    return _body(group)


def progress_bodies(progress: Sequence[ProgressView]) -> list[dict[str, Any]]:
    """The progress of a run's long steps."""
    return [_body(one) for one in progress]


def wait_bodies(waits: Sequence[WaitView]) -> list[dict[str, Any]]:
    """What a run waits for."""
    return [_body(wait) for wait in waits]


def undo_bodies(undos: Sequence[Undo]) -> list[dict[str, Any]]:
    """The undo stack of a run, from the undo that comes first."""
    return [
        {
            "path": undo.path,
            "state": undo.state,
            "failure": None if undo.failure is None else failure_body(undo.failure),
        }
        for undo in undos
    ]


def act_bodies(acts: Sequence[ActView]) -> list[dict[str, Any]]:
    """What people did to a run, oldest first."""
    return [
        {
            "at": act.at.isoformat(),
            "verb": act.verb,
            "by": act.by,
            "before": act.before,
            "after": act.after,
            "reason": act.reason,
        }
        for act in acts
    ]


def failure_body(failure: FailureRecord) -> dict[str, Any]:
    """A recorded error, with its causes."""
    from stepwell.engine.facts import failure_facts

    return failure_facts(failure, _audience())


def advice_bodies(advice: Iterable[Advice]) -> list[dict[str, Any]]:
    """What to do next: as data, and as the command to type."""
    return [_advice_body(one) for one in advice]


def _advice_body(advice: Advice) -> dict[str, Any]:
    return {
        "verb": advice.verb.value,
        "target": advice.target,
        "options": dict(advice.options),
        "note": advice.note,
        "command": advice.command if advice.has_command else None,
    }


# The engine is imported when something is shown: help must not wait for it.
def _body(view: Any) -> dict[str, Any]:
    from stepwell.engine.facts import facts_of

    return facts_of(view, _audience())


@cache
def _audience() -> Audience:
    from stepwell.engine.facts import Audience

    return Audience(datetime.isoformat, lambda payload: payload, _advice_body, in_commands)
