"""Views as JSON objects: fields are only ever added within a schema's version."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stepwell.advice import in_commands

if TYPE_CHECKING:
    from stepwell.advice import Advice
    from stepwell.engine.causes import Cause
    from stepwell.engine.views import AttemptView, EntryView, HoldView, ProgressView, RunView, WaitView
    from stepwell.errors.records import FailureRecord

RUN = "stepwell.run/1"
HISTORY = "stepwell.history/1"


def run_body(run: RunView) -> dict[str, Any]:
    """One run, without what is recorded of it."""
    from stepwell.engine.views import RUN_FIELDS

    shown = {name: getattr(run, name) for name in RUN_FIELDS}
    shown = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in shown.items()}
    shown["failure"] = None if run.failure is None else failure_body(run.failure)
    shown["hold"] = hold_body(run.hold)
    return shown


def hold_body(hold: HoldView | None) -> dict[str, Any] | None:
    """Who paused something."""
    return None if hold is None else {"by": hold.by, "reason": hold.reason, "at": _time(hold.at)}


def advice_bodies(advice: Sequence[Advice]) -> list[dict[str, Any]]:
    """What to do next: as data, and as the command to type."""
    return [
        {
            "verb": one.verb.value,
            "target": one.target,
            "options": dict(one.options),
            "note": one.note,
            "command": one.command if one.has_command else None,
        }
        for one in advice
    ]


def cause_body(cause: Cause) -> dict[str, Any]:
    """A cause, with those of a child below it."""
    return {
        "kind": cause.kind,
        "run_id": cause.run_id,
        "sentence": cause.sentence,
        "next": advice_bodies(cause.next),
        "causes": [cause_body(below) for below in cause.causes],
    }


def progress_bodies(progress: Sequence[ProgressView]) -> list[dict[str, Any]]:
    """How far the long steps of a run have come."""
    return [
        {
            "path": one.path,
            "done": one.done,
            "total": one.total,
            "unit": one.unit,
            "note": one.note,
            "turns": one.turns,
            "at": _time(one.at),
            "state": one.state,
        }
        for one in progress
    ]


def entry_body(entry: EntryView) -> dict[str, Any]:
    """One line of history."""
    return {
        "seq": entry.seq,
        "path": entry.path,
        "kind": entry.kind,
        "status": entry.status,
        "attempts": entry.attempts,
        "at": _time(entry.at),
        "took": entry.took,
        "value": entry.value,
        "failure": None if entry.failure is None else failure_body(entry.failure),
        "can_undo": entry.can_undo,
        "is_undone": entry.is_undone,
        "failed_attempts": attempt_bodies(entry.failed_attempts),
        "unreadable": entry.unreadable,
    }


def attempt_bodies(attempts: Sequence[AttemptView]) -> list[dict[str, Any]]:
    """The failed attempts at a step."""
    return [
        {"number": tried.number, "at": _time(tried.at), "error": tried.error, "next_at": _time(tried.next_at)}
        for tried in attempts
    ]


def wait_bodies(waits: Sequence[WaitView]) -> list[dict[str, Any]]:
    """What a run waits for."""
    return [
        {
            "path": wait.path,
            "kind": wait.kind,
            "due_at": _time(wait.due_at),
            "names": list(wait.names),
            "failed_attempts": attempt_bodies(wait.failed_attempts),
        }
        for wait in waits
    ]


def failure_body(failure: FailureRecord) -> dict[str, Any]:
    """A recorded error, with its causes."""
    return {
        "type": failure.type,
        "message": failure.message,
        "code": failure.code,
        "path": failure.path,
        "why": failure.why,
        "fix": in_commands(failure.advice) or failure.fix,
        "recorded": failure.recorded,
        "now": failure.now,
        "advice": advice_bodies(failure.advice),
        "attempts": failure.attempts,
        "data": failure.data,
        "trace": failure.trace,
        "causes": {name: failure_body(cause) for name, cause in failure.causes.items()},
    }


def _time(when: Any) -> str | None:
    return None if when is None else when.isoformat()
