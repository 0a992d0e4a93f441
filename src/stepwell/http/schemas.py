"""What is answered, as types: the JSON, its description in OpenAPI and the code are one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, get_type_hints

import msgspec

from stepwell.advice import in_requests
from stepwell.engine.causes import Cause
from stepwell.engine.explanations import Explanation
from stepwell.engine.views import (
    RUN_FIELDS,
    AttemptView,
    EntryView,
    HoldView,
    ProgressView,
    RunView,
    SignalView,
    WaitView,
)
from stepwell.errors.records import FailureRecord
from stepwell.http.advice import AdviceBody, advice_bodies
from stepwell.http.operations import Call
from stepwell.model.states import RunStatus


class FailureBody(msgspec.Struct):
    """A recorded error, with its causes. `data` and `trace` are payloads."""

    type: str
    message: str
    code: str
    path: str
    why: str
    fix: str
    advice: list[AdviceBody]
    recorded: str
    now: str
    attempts: int
    data: Any
    trace: Any
    causes: dict[str, FailureBody]


class HoldBody(msgspec.Struct):
    """Who paused something, why, and when."""

    by: str
    reason: str
    at: datetime


_RUN_TYPES: Final = {
    **get_type_hints(RunView),
    "status": RunStatus,
    "failure": FailureBody | None,
    "hold": HoldBody | None,
}
_RunFields: Any = msgspec.defstruct("_RunFields", [(name, _RUN_TYPES[name]) for name in RUN_FIELDS])


class RunBody(_RunFields):  # type: ignore[misc]  # its fields are those of `RunView`
    """One run. `input` and `output` are payloads; `unreadable` says why its row cannot be read, if so."""


class RunPage(msgspec.Struct):
    """Runs, newest first; `next` is the cursor of the page after this one."""

    runs: list[RunBody]
    next: str | None


class ProgressBody(msgspec.Struct):
    """How far a long step has come."""

    path: str
    done: int | None
    total: int | None
    unit: str
    note: str
    turns: int
    at: datetime
    state: Any


class AttemptBody(msgspec.Struct):
    """One failed attempt."""

    number: int
    at: datetime
    error: str
    next_at: datetime | None


class WaitBody(msgspec.Struct):
    """One thing that a run waits for."""

    path: str
    kind: str
    due_at: datetime | None
    names: list[str]
    where: list[str]
    failed_attempts: list[AttemptBody]


class EntryBody(msgspec.Struct):
    """One line of history. `value` is a payload."""

    seq: int
    path: str
    kind: str
    status: str
    attempts: int
    at: datetime
    took: float
    value: Any
    failure: FailureBody | None
    can_undo: bool
    is_undone: bool
    failed_attempts: list[AttemptBody]
    unreadable: str


class HistoryPage(msgspec.Struct):
    """The history of a run, in the order of its commits; `next` is the cursor of the page after this one."""

    run_id: str
    entries: list[EntryBody]
    next: int | None


class ShownRun(msgspec.Struct):
    """One run with what it waits for and what it has started."""

    run: RunBody
    waits: list[WaitBody]
    progress: list[ProgressBody]
    pending_signals: list[str]
    children: list[RunBody]


class Node(msgspec.Struct):
    """A place in a run: what was recorded there, what waits there, and what is below it."""

    name: str
    path: str
    entry: EntryBody | None = None
    waits: list[WaitBody] = []
    below: list[Node] = []


class TreeBody(msgspec.Struct):
    """A run as a tree of its places."""

    run: RunBody
    root: Node


class CauseBody(msgspec.Struct):
    """One reason why a run is where it is, what to do about it, and the reasons of a child."""

    kind: str
    run_id: str
    sentence: str
    next: list[AdviceBody]
    causes: list[CauseBody]


class WhyBody(msgspec.Struct):
    """Why a run is where it is, and what lets it continue."""

    run_id: str
    status: RunStatus
    headline: str
    sentence: str
    next: list[AdviceBody]
    notes: list[str]
    facts: dict[str, Any]
    chain: list[CauseBody]


class ResultBody(msgspec.Struct):
    """How far a run is; `output` once it has completed."""

    run_id: str
    status: RunStatus
    is_ended: bool
    output: Any
    failure: FailureBody | None


class SignalBody(msgspec.Struct):
    """A signal that no run will read where it is."""

    number: int
    target: str
    name: str
    payload: Any
    sent_at: datetime
    is_held: bool
    run_status: RunStatus | None
    reason: str


class SignalPage(msgspec.Struct):
    """Signals, oldest first."""

    signals: list[SignalBody]


def attempt_body(tried: AttemptView) -> AttemptBody:
    """A failed attempt."""
    return AttemptBody(tried.number, tried.at, tried.error, tried.next_at)


def failure_body(call: Call, failure: FailureRecord | None) -> FailureBody | None:
    """A failure as the caller may see it."""
    if failure is None:
        return None
    causes = {name: failure_body(call, cause) for name, cause in failure.causes.items()}
    return FailureBody(
        failure.type,
        failure.message,
        failure.code,
        failure.path,
        failure.why,
        in_requests(failure.advice) or failure.fix,
        advice_bodies(failure.advice),
        failure.recorded,
        failure.now,
        failure.attempts,
        call.show(failure.data),
        call.show(failure.trace or None),
        {name: cause for name, cause in causes.items() if cause is not None},
    )


def run_body(call: Call, run: RunView) -> RunBody:
    """A run as the caller may see it."""
    shown = {name: getattr(run, name) for name in RUN_FIELDS}
    shown["status"] = RunStatus(run.status)
    shown["failure"] = failure_body(call, run.failure)
    shown["input"] = call.show(run.input)
    shown["output"] = call.show(run.output)
    shown["hold"] = hold_body(run.hold)
    return RunBody(**shown)


def hold_body(hold: HoldView | None) -> HoldBody | None:
    """Who paused something."""
    return None if hold is None else HoldBody(hold.by, hold.reason, hold.at)


def entry_body(call: Call, entry: EntryView) -> EntryBody:
    """A line of history as the caller may see it."""
    return EntryBody(
        entry.seq,
        entry.path,
        entry.kind,
        entry.status,
        entry.attempts,
        entry.at,
        entry.took,
        call.show(entry.value),
        failure_body(call, entry.failure),
        entry.can_undo,
        entry.is_undone,
        [attempt_body(tried) for tried in entry.failed_attempts],
        entry.unreadable,
    )


def wait_body(wait: WaitView) -> WaitBody:
    """A wait."""
    tries = [attempt_body(tried) for tried in wait.failed_attempts]
    return WaitBody(wait.path, wait.kind, wait.due_at, list(wait.names), list(wait.where), tries)


def progress_body(call: Call, one: ProgressView) -> ProgressBody:
    """How far a step has come, as the caller may see it."""
    return ProgressBody(one.path, one.done, one.total, one.unit, one.note, one.turns, one.at, call.show(one.state))


def why_body(found: Explanation) -> WhyBody:
    """An explanation."""
    chain = [cause_body(cause) for cause in found.chain]
    return WhyBody(
        found.run_id,
        RunStatus(found.status),
        found.headline,
        found.sentence,
        advice_bodies(found.next),
        list(found.notes),
        found.facts,
        chain,
    )


def cause_body(cause: Cause) -> CauseBody:
    """A cause, with those of a child."""
    below = [cause_body(one) for one in cause.causes]
    return CauseBody(cause.kind, cause.run_id, cause.sentence, advice_bodies(cause.next), below)


def signal_body(call: Call, view: SignalView) -> SignalBody:
    """A signal as the caller may see it."""
    status = None if view.run_status is None else RunStatus(view.run_status)
    payload = call.show(view.payload)
    return SignalBody(view.number, view.target, view.name, payload, view.sent_at, view.is_held, status, view.reason)
