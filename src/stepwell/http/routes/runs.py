"""Operations on runs: list and show them, await a result, cancel one."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepwell.engine.views import EntryView, WaitView, entry_views, progress_views, run_view, wait_views
from stepwell.errors import (
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
    EntryBody,
    HistoryPage,
    Node,
    ResultBody,
    RunPage,
    ShownRun,
    TreeBody,
    WaitBody,
    WhyBody,
    entry_body,
    failure_body,
    progress_body,
    run_body,
    wait_body,
    why_body,
)
from stepwell.model.states import TERMINAL, RunStatus

Cursor = Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[A-Za-z0-9_-]+$")]
_CURSOR = "runs:"


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


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Lines after a number."""

    limit: Limit = 100
    after: Annotated[int, Meta(ge=0, le=(1 << 53) - 1)] = 0


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
    return Reply(RunPage([run_body(call, run) for run in page], following))


async def show_run(call: Call) -> Reply:
    """One run with what it waits for and what it started."""
    engine = call.services.engine
    detail = await engine.runs.detail(call.path["run"])
    return Reply(
        ShownRun(
            run_body(call, run_view(detail.run, fetch=engine.runs.fetch)),
            [wait_body(call, wait) for wait in wait_views(detail)],
            [progress_body(call, one) for one in progress_views(detail, engine.runs.fetch)],
            [signal.name for signal in detail.signals],
            [run_body(call, run_view(child)) for child in detail.children],
        )
    )


async def show_history(call: Call) -> Reply:
    """What is recorded of a run, line by line."""
    query: HistoryQuery = call.query
    detail = await call.services.engine.runs.detail(call.path["run"])
    found = entry_views(detail, query.after, call.services.engine.runs.fetch)
    page = found[: query.limit]
    following = page[-1].seq if len(found) > len(page) else None
    return Reply(HistoryPage(detail.run.run_id, [entry_body(call, entry) for entry in page], following))


async def show_tree(call: Call) -> Reply:
    """The history of a run as a tree."""
    engine = call.services.engine
    detail = await engine.runs.detail(call.path["run"])
    entries = entry_views(detail, fetch=engine.runs.fetch)
    root = grow(entries, wait_views(detail), lambda entry: entry_body(call, entry), lambda wait: wait_body(call, wait))
    return Reply(TreeBody(run_body(call, run_view(detail.run, fetch=engine.runs.fetch)), root))


def grow(entries: list[EntryView], waits: list[WaitView], entry_of: Any, wait_of: Any) -> Node:
    """The tree of entries and waits, in the order of the first entry below each place."""
    root = Node("", "")
    places: dict[str, Node] = {"": root}

    def place(path: str) -> Node:
        found = places.get(path)
        if found is None:
            above, _, name = path.rpartition("/")
            found = places[path] = Node(name, path)
            place(above).below.append(found)
        return found

    for entry in entries:
        body: EntryBody = entry_of(entry)
        place(entry.path).entry = body
    for wait in waits:
        body_of_wait: WaitBody = wait_of(wait)
        place(wait.path).waits.append(body_of_wait)
    return root


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
    look(
        "/runs/{run}/history",
        "show_history",
        show_history,
        "What is recorded of a run",
        {200: HistoryPage},
        query=HistoryQuery,
    ),
    look("/runs/{run}/tree", "show_tree", show_tree, "A run as a tree of its places", {200: TreeBody}),
    look("/runs/{run}/why", "explain_run", why, "Why a run is where it is", {200: WhyBody}),
    look(
        "/runs/{run}/result",
        "await_result",
        result,
        "The result, by long poll; 202 while the run has not ended",
        {200: ResultBody, 202: ResultBody},
        query=ResultQuery,
    ),
    look("/runs/{run}/acts", "list_run_acts", list_acts, "What operators did to a run", {200: ActList}),
    steer("/runs/{run}/cancel", "cancel_run", cancel, "Cancel a run and its children", ActedBody, CancelBody),
)
