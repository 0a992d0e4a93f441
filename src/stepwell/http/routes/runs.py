"""Operations on runs: list and show them, await a result, cancel one."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepwell.check.recorded_tests import file_name, write_test
from stepwell.errors import (
    NotAllowedError,
    NotFoundError,
    RequestError,
    ResultTimeout,
    RollbackIncomplete,
    RunCancelled,
    RunFailed,
    RunPaused,
)
from stepwell.http.acts import ActedBody, act
from stepwell.http.fields import Limit, Name, Text
from stepwell.http.limits import WAIT_MAX_SECONDS
from stepwell.http.operations import Call, FilterText, Reply, look, steer
from stepwell.http.schemas import (
    PendingSignalBody,
    ReasonBody,
    ResultBody,
    RunPage,
    ShownRun,
    WhyBody,
    failure_body,
    progress_body,
    run_body,
    wait_body,
    why_body,
)
from stepwell.model.states import TERMINAL, RunStatus

Cursor = Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[A-Za-z0-9_-]+$")]
_CURSOR = "runs:"
_CHILDREN_MAX = 50  # of a run that is written as a test


class CancelBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason, and whether completed steps are undone."""

    reason: Text = ""
    compensate: bool = True


class RunsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A line of the filter language (docs/filters.md), such as `status:failed since:24h`."""

    q: FilterText = ""
    view: Name | None = None  # a saved view of the caller, or a shared one; `q` narrows it
    limit: Limit = 50
    cursor: Cursor | None = None
    system: bool = False  # also the runs of stepwell's own workflows
    reasons: bool = False  # also where each run is, and why
    payloads: bool = True  # also inputs and outputs


class ResultQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many seconds to wait for the end."""

    wait: Annotated[float, Meta(ge=0, le=WAIT_MAX_SECONDS)] = 0


class ActBody(msgspec.Struct):
    """One act of an operator on a run."""

    at: datetime
    verb: str
    by: str
    before: str
    after: str
    reason: str


class StateValueQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The name that the run publishes under, and how many seconds to wait for it."""

    name: Annotated[str, Meta(max_length=200)] = ""
    wait: Annotated[float, Meta(ge=0, le=WAIT_MAX_SECONDS)] = 0


class StateValueBody(msgspec.Struct):
    """What a run has published; `value` is a payload, and null also if it has published nothing."""

    run_id: str
    name: str
    is_published: bool
    value: Any


class TestBody(msgspec.Struct):
    """A pytest that repeats a run: the text of a file, and its usual name."""

    run_id: str
    file_name: str
    text: str


class ActList(msgspec.Struct):
    """What operators did to a run, oldest first."""

    run_id: str
    acts: list[ActBody]


def write_cursor(run_id: str) -> str:
    """The position of the next page, as an opaque word."""
    return base64.urlsafe_b64encode(f"{_CURSOR}{run_id}".encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> str:
    """The run of a cursor. Raises `RequestError` if it is invalid."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:  # not ASCII, not base64, or not UTF-8
        text = ""
    if not text.startswith(_CURSOR) or text == _CURSOR or "\x00" in text:
        raise RequestError("this is not a cursor", where="cursor", fix="give `next` of the previous page")
    return text.removeprefix(_CURSOR)


async def list_runs(call: Call) -> Reply:
    """Runs, newest first, or in the order of the filter."""
    query: RunsQuery = call.query
    engine = call.services.engine
    text = query.q
    if query.view is not None:
        text = (await engine.saved_views.get(query.view, owner=call.caller.name)).narrowed(text)
    where = call.filter(text, where="q")
    before = None if query.cursor is None else read_cursor(query.cursor)
    found = await engine.runs.list(where, limit=query.limit + 1, before=before, include_system=query.system)
    page = found[: query.limit]
    following = write_cursor(page[-1].run_id) if len(found) > len(page) else None
    reasons = None
    if query.reasons:
        reasons = [ReasonBody(*one) for one in await engine.overviews.reasons(page)]
    shown = page if query.payloads else [replace(run, input=None, output=None) for run in page]
    return Reply(RunPage([run_body(call, run) for run in shown], following, reasons))


async def show_run(call: Call) -> Reply:
    """One run with what it waits for and what it started."""
    engine = call.services.engine
    found = await engine.overviews.stand(call.path["run"])
    return Reply(
        ShownRun(
            run_body(call, found.run),
            [wait_body(call, wait) for wait in found.waits],
            [progress_body(call, one) for one in found.progress],
            [signal.name for signal in found.signals],
            [run_body(call, child) for child in found.children],
            [PendingSignalBody(one.number, one.name, call.show(one.payload), one.sent_at) for one in found.signals],
            ReasonBody(*found.reason),
        )
    )


async def why(call: Call) -> Reply:
    """Why a run is where it is, and what lets it continue."""
    return Reply(why_body(call, await call.services.engine.explain(call.path["run"])))


async def result(call: Call) -> Reply:
    """The result of a run, or of its newest successor; waits for the end as long as `wait` allows."""
    engine, target = call.services.engine, call.path["run"]
    output: Any = None
    try:
        output = await engine.result(target, timeout=call.query.wait, output_hint=Any)
    except (ResultTimeout, RunFailed, RunCancelled, RunPaused, RollbackIncomplete):
        pass
    view = await engine.status(target)
    while view is not None and view.successor is not None:
        view = await engine.status(view.successor)
    if view is None:
        raise NotFoundError("run", target)
    is_ended = RunStatus(view.status) in TERMINAL
    shown = call.show(output) if view.status == RunStatus.COMPLETED else None
    failure = failure_body(call, view.failure)
    body = ResultBody(view.run_id, RunStatus(view.status), is_ended, shown, failure)
    return Reply(body, 200 if is_ended else 202)


async def await_state(call: Call) -> Reply:
    """What a run has published under a name; with `wait`, as soon as it has."""
    query: StateValueQuery = call.query
    engine, target = call.services.engine, call.path["run"]
    view = await engine.runs.get(target)
    try:
        value = await engine.state(target, query.name, wait=query.wait or None)
    except ResultTimeout:
        value = None
    return Reply(StateValueBody(view.run_id, query.name, value is not None, call.show(value)))


async def show_test(call: Call) -> Reply:
    """A pytest that repeats a run."""
    if not call.caller.sees_payloads:
        raise NotAllowedError(
            "a test has the payloads of its run",
            why=f"{call.caller.name} may not see payloads",
            fix="ask with a token that sees payloads",
        )
    engine = call.services.engine
    detail = await engine.runs.detail(call.path["run"])
    children = [await engine.runs.detail(child.run_id) for child in detail.children[:_CHILDREN_MAX] if not child.damage]
    text = write_test(detail, workflow=engine.runs.workflow_of(detail.run), children=children, fetch=engine.runs.fetch)
    return Reply(TestBody(detail.run.run_id, file_name(detail), text))


async def list_acts(call: Call) -> Reply:
    """What operators did to a run."""
    target = call.path["run"]
    found = await call.services.engine.runs.list_acts(target)
    acts = [ActBody(one.at, one.verb, one.by, one.before, one.after, one.reason) for one in found]
    return Reply(ActList(found[0].run_id if found else target, acts))


async def cancel(call: Call) -> Reply:
    """Cancel a run and its children."""
    body: CancelBody = call.body
    return await act(
        call,
        lambda engine, target: engine.cancel(target, body.reason, compensate=body.compensate, by=call.caller.name),
        "be cancelled",
        "a run that has not ended",
        (RunStatus.CANCELLED, RunStatus.CANCELLING, RunStatus.COMPENSATING),
    )


OPERATIONS = (
    look("/runs", "list_runs", list_runs, "Runs, newest first", {200: RunPage}, query=RunsQuery),
    look("/runs/{run}", "show_run", show_run, "One run, with its waits and children", {200: ShownRun}),
    look("/runs/{run}/why", "explain_run", why, "Why a run is where it is", {200: WhyBody}),
    look(
        "/runs/{run}/result",
        "await_result",
        result,
        "The result, by long poll; 202 while the run has not ended",
        {200: ResultBody, 202: ResultBody},
        query=ResultQuery,
    ),
    look(
        "/runs/{run}/state/value",
        "await_state",
        await_state,
        "What a run has published under a name, by long poll",
        {200: StateValueBody},
        query=StateValueQuery,
    ),
    look("/runs/{run}/test", "show_test", show_test, "A pytest that repeats the run", {200: TestBody}),
    look("/runs/{run}/acts", "list_run_acts", list_acts, "What operators did to a run", {200: ActList}),
    steer("/runs/{run}/cancel", "cancel_run", cancel, "Cancel a run and its children", ActedBody, CancelBody),
)
