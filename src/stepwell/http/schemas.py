"""The types of answers, from which the JSON and the OpenAPI document are made."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, get_type_hints

import msgspec

from stepwell.advice import in_requests
from stepwell.engine.causes import Cause
from stepwell.engine.explanations import Explanation
from stepwell.engine.facts import FAILURE_FIELDS, Audience, facts_of, failure_facts, shown_fields
from stepwell.engine.histories import PlaceView, PublishedView, TreeView
from stepwell.engine.views import (
    AttemptView,
    EntryView,
    HoldView,
    ProgressView,
    RunView,
    SignalView,
    WaitView,
)
from stepwell.errors.records import FailureRecord
from stepwell.http.advice import AdviceBody
from stepwell.http.operations import Call
from stepwell.model.states import RunStatus


def fields_of(view: type, **types: Any) -> Any:
    """A struct with the shown fields of a view, in their order. `types` has the types that differ in JSON."""
    hints = {**get_type_hints(view), **types}
    return msgspec.defstruct(f"{view.__name__}Fields", [(name, hints[name]) for name, _ in shown_fields(view)])


_FAILURE_TYPES: Final = {**get_type_hints(FailureRecord), "advice": list[AdviceBody], "trace": Any}
_FailureFields: Any = msgspec.defstruct(
    "FailureFields", [(name, _FAILURE_TYPES[name]) for name in FAILURE_FIELDS if name != "causes"]
)


class FailureBody(_FailureFields):  # type: ignore[misc]  # its fields are those of `FailureRecord`
    """A recorded error, with its causes. `data` and `trace` are payloads."""

    causes: dict[str, FailureBody]


class HoldBody(fields_of(HoldView)):  # type: ignore[misc]
    """Who paused something, why, and when."""


ShownAttribute = str | bool | int | float
"""Times are texts, and so are numbers that a double does not have."""

_RunViewFields: Any = fields_of(
    RunView,
    status=RunStatus,
    failure=FailureBody | None,
    hold=HoldBody | None,
    attributes=dict[str, ShownAttribute],
)


class RunBody(_RunViewFields):  # type: ignore[misc]
    """One run. `input` and `output` are payloads; `unreadable` tells why its row cannot be read, if so."""


class RunPage(msgspec.Struct):
    """Runs, newest first; `next` is the cursor of the page after this one.

    `reasons` tells where each run is and why, if it was asked for.
    """

    runs: list[RunBody]
    next: str | None
    reasons: list[ReasonBody] | None = None


class ProgressBody(fields_of(ProgressView)):  # type: ignore[misc]
    """The progress of a long step. `state` is a payload."""


class AttemptBody(fields_of(AttemptView)):  # type: ignore[misc]
    """One failed attempt."""


class WaitBody(fields_of(WaitView, failed_attempts=list[AttemptBody])):  # type: ignore[misc]
    """One thing that a run waits for."""


_EntryViewFields: Any = fields_of(EntryView, failure=FailureBody | None, failed_attempts=list[AttemptBody])


class EntryBody(_EntryViewFields):  # type: ignore[misc]
    """One line of history. `value` is a payload."""


class HistoryPage(msgspec.Struct):
    """The history of a run, in the order of its commits; `next` is the cursor of the page after this one.

    `matching` is how many lines of the whole history fit, if only some were asked for.
    """

    run_id: str
    entries: list[EntryBody]
    next: int | None
    matching: int | None = None


class ReasonBody(msgspec.Struct):
    """Where a run is, and why, in one line; both are empty for a run that needs no explanation."""

    where: str
    why: str


class PendingSignalBody(msgspec.Struct):
    """A signal that a run has not received yet. `payload` is a payload."""

    number: int
    name: str
    payload: Any
    sent_at: datetime


class ShownRun(msgspec.Struct):
    """One run with what it waits for and what it has started: its newest children, at most a hundred.

    `pending` has the oldest signals that it has not received yet, at most a hundred; `pending_signals` are their names.
    """

    run: RunBody
    waits: list[WaitBody]
    progress: list[ProgressBody]
    pending_signals: list[str]
    children: list[RunBody]
    pending: list[PendingSignalBody]
    reason: ReasonBody


class Node(fields_of(PlaceView, entry=EntryBody | None, waits=list[WaitBody], progress=ProgressBody | None, below=Any)):  # type: ignore[misc]
    """A place in a run: its entry, its waits, and the places below it. `count`, `failed` and `retried` are the lines at
    it and below it; `children` is how many places are directly below, of which `below` may have only some, and `number`
    is its own number among those beside it. `omitted` is the size of a value that is left out. `open_since` is for a
    look into the past: it had begun then, and had not ended.
    """

    below: list[Node]


class PublishedBody(fields_of(PublishedView)):  # type: ignore[misc]
    """What a run has published under a name. `value` is a payload; it is null if `is_known` is false, because it has
    changed since.
    """


class TreeBody(fields_of(TreeView, run=RunBody, root=Node, published=list[PublishedBody])):  # type: ignore[misc]
    """A run as a tree of its places, after line `at` of `last`. `is_past` if more was recorded later."""


class UndoBody(msgspec.Struct):
    """A step that can be undone, and what became of its undo. `at`, `took` and `attempts` are those of an undo that was
    done; `took` is in seconds.
    """

    path: str
    state: Literal["undone", "failed", "not undone", "next", "kept"]
    failure: FailureBody | None
    at: datetime | None = None
    took: float | None = None
    attempts: int | None = None


class UndoList(msgspec.Struct):
    """The steps that can be undone, last in first out: the order of a rollback."""

    run_id: str
    undos: list[UndoBody]


class CauseBody(fields_of(Cause, next=list[AdviceBody], causes=list[Any])):  # type: ignore[misc]
    """One reason why a run is where it is, what to do about it, and the reasons of a child."""

    causes: list[CauseBody]


_ExplanationFields: Any = fields_of(Explanation, status=RunStatus, next=list[AdviceBody], chain=list[CauseBody])


class WhyBody(_ExplanationFields):  # type: ignore[misc]
    """Why a run is where it is, and what lets it continue."""


class ResultBody(msgspec.Struct):
    """The status of a run; `output` once it has completed."""

    run_id: str
    status: RunStatus
    is_ended: bool
    output: Any
    failure: FailureBody | None


class SignalBody(fields_of(SignalView, run_status=RunStatus | None)):  # type: ignore[misc]
    """A signal that no run will read."""


class SignalPage(msgspec.Struct):
    """Signals, oldest first."""

    signals: list[SignalBody]


def audience_of(call: Call) -> Audience:
    """How values are shown to the caller: payloads only to callers who may see them."""
    return Audience(lambda moment: moment, call.show, lambda advice: AdviceBody(**advice.as_http()), in_requests)


def failure_body(call: Call, failure: FailureRecord | None) -> FailureBody | None:
    """A failure as the caller may see it."""
    return None if failure is None else FailureBody(**failure_facts(failure, audience_of(call)))


def run_body(call: Call, run: RunView) -> RunBody:
    """A run as the caller may see it."""
    return RunBody(**facts_of(run, audience_of(call)))


def entry_body(call: Call, entry: EntryView) -> EntryBody:
    """A line of history as the caller may see it."""
    return EntryBody(**facts_of(entry, audience_of(call)))


def wait_body(call: Call, wait: WaitView) -> WaitBody:
    """A wait."""
    return WaitBody(**facts_of(wait, audience_of(call)))


def progress_body(call: Call, one: ProgressView) -> ProgressBody:
    """The progress of a step, as the caller may see it."""
    return ProgressBody(**facts_of(one, audience_of(call)))


def why_body(call: Call, found: Explanation) -> WhyBody:
    """An explanation."""
    return WhyBody(**facts_of(found, audience_of(call)))


def signal_body(call: Call, view: SignalView) -> SignalBody:
    """A signal as the caller may see it."""
    return SignalBody(**facts_of(view, audience_of(call)))
