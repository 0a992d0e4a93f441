"""Views as JSON objects: fields are only ever added within a schema's version."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.cli.undos import Undo
    from stepwell.engine.causes import Cause
    from stepwell.engine.views import ActView, AttemptView, EntryView, HoldView, ProgressView, RunView, WaitView
    from stepwell.errors.records import FailureRecord

RUN = "stepwell.run/1"
HISTORY = "stepwell.history/1"


def run_body(run: RunView) -> dict[str, Any]:
    """One run, without its history."""
    from stepwell.engine.views import RUN_FIELDS

    shown = {name: getattr(run, name) for name in RUN_FIELDS}
    shown = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in shown.items()}
    shown["failure"] = None if run.failure is None else failure_body(run.failure)
    shown["hold"] = hold_body(run.hold)
    return shown


def hold_body(hold: HoldView | None) -> dict[str, Any] | None:
    """Who paused something."""
    return None if hold is None else {"by": hold.by, "reason": hold.reason, "at": _time(hold.at)}


def cause_body(cause: Cause) -> dict[str, Any]:
    """What blocks a run, and what blocks that."""
    return {
        "kind": cause.kind,
        "run_id": cause.run_id,
        "sentence": cause.sentence,
        "next": cause.next,
        "causes": [cause_body(below) for below in cause.causes],
    }


def progress_bodies(progress: Sequence[ProgressView]) -> list[dict[str, Any]]:
    """The progress of the long steps of a run."""
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
            "at": _time(act.at),
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

    return {
        "type": failure.type,
        "message": failure.message,
        "code": failure.code,
        "path": failure.path,
        "why": failure.why,
        "fix": failure.fix,
        "attempts": failure.attempts,
        "data": failure.data,
        "trace": failure.trace,
        "causes": {name: failure_body(cause) for name, cause in failure.causes.items()},
    }


def _time(when: Any) -> str | None:
    return None if when is None else when.isoformat()
