"""Operations on the record of one run: in pages, as a tree, at an earlier line, and compared with another run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stepwell.check.differences import ComparedEntry, compare
from stepwell.clock import to_datetime
from stepwell.engine.facts import facts_of
from stepwell.engine.histories import NODES_MAX
from stepwell.engine.undos import Undo
from stepwell.engine.views import EntryView, RunView, WaitView
from stepwell.errors import RequestError
from stepwell.http.fields import Limit
from stepwell.http.operations import Call, Reply, look
from stepwell.http.schemas import (
    EntryBody,
    HistoryPage,
    RunBody,
    TreeBody,
    UndoBody,
    UndoList,
    audience_of,
    entry_body,
    failure_body,
    run_body,
)
from stepwell.model.states import EntryKind

Seq = Annotated[int, Meta(ge=0, le=(1 << 53) - 1)]


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Lines after a number: all, those of some kinds (`step,receive`), or those with a text in path, kind or status."""

    limit: Limit = 100
    after: Seq = 0
    kinds: Annotated[str, Meta(max_length=200)] = ""
    text: Annotated[str, Meta(max_length=200)] = ""


class TreeQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`at` is a line of the history: the tree as it was after it. Of a long run only a part is shown: at most `limit`
    places `under` a path, from number `first` on.
    """

    at: Seq | UnsetType = UNSET
    under: Annotated[str, Meta(max_length=2_000)] = ""
    first: Seq = 0
    limit: Annotated[int, Meta(ge=1, le=NODES_MAX)] = 500


class CompareQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`all` also lists the paths at which the runs are equal; at most `limit` paths are listed."""

    all: bool = False
    limit: Limit = 500


class ComparedBody(msgspec.Struct):
    """A path of either run, what differs there, and by how many seconds the second run was slower."""

    path: str
    changes: list[str]
    left: EntryBody | None
    right: EntryBody | None
    slower_by: float


class DifferenceBody(msgspec.Struct):
    """How two runs differ. `equal` and `differing` count paths; `places` has the first of them, in order.

    `facts` are about the runs themselves: each has both values. For a caller that may not see payloads, inputs, outputs
    and recorded values count as equal.
    """

    left: RunBody
    right: RunBody
    is_same: bool
    parts_at: str | None
    facts: dict[str, list[Any]]
    waits: list[list[str]]
    equal: int
    differing: int
    places: list[ComparedBody]


async def show_history(call: Call) -> Reply:
    """What is recorded of a run, line by line."""
    query: HistoryQuery = call.query
    engine, target = call.services.engine, call.path["run"]
    run = await engine.runs.get(target)
    kinds = _kinds(query.kinds)
    matching = None
    if kinds or query.text:
        seqs = await engine.histories.find(run.run_id, kinds=kinds, text=query.text)
        later = [seq for seq in seqs if seq > query.after]
        page = await engine.histories.lines(run.run_id, later[: query.limit])
        matching, has_more = len(seqs), len(later) > query.limit
    else:
        found = await engine.histories.page(run.run_id, after=query.after, limit=query.limit + 1)
        page, has_more = found[: query.limit], len(found) > query.limit
    following = page[-1].seq if page and has_more else None
    return Reply(HistoryPage(run.run_id, [entry_body(call, entry) for entry in page], following, matching))


def _kinds(text: str) -> frozenset[EntryKind]:
    names = [one.strip() for one in text.split(",") if one.strip()]
    known = {kind.name.lower(): kind for kind in EntryKind}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise RequestError(
            f"{unknown[0]!r} is no kind of line", where="kinds", fix=f"choose among {', '.join(sorted(known))}"
        )
    return frozenset(known[name] for name in names)


async def show_entry(call: Call) -> Reply:
    """One line of a history, with its whole value."""
    text = call.path["seq"]
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise RequestError("this is not a line of a history", where="seq", fix="give its number, such as 7")
    return Reply(entry_body(call, await call.services.engine.histories.entry(call.path["run"], int(text))))


async def show_tree(call: Call) -> Reply:
    """The history of a run as a tree."""
    query: TreeQuery = call.query
    at = None if query.at is UNSET else query.at
    found = await call.services.engine.histories.tree(
        call.path["run"], at=at, under=query.under, first=query.first, limit=query.limit
    )
    return Reply(TreeBody(**facts_of(found, audience_of(call))))


async def list_undos(call: Call) -> Reply:
    """The steps of a run that can be undone."""
    engine = call.services.engine
    run = await engine.runs.get(call.path["run"])
    found = await engine.histories.undos(run.run_id)
    return Reply(UndoList(run.run_id, [_undo(call, one) for one in found]))


def _undo(call: Call, one: Undo) -> UndoBody:
    failure, line = failure_body(call, one.failure), one.undo
    if line is None:
        return UndoBody(one.path, one.state, failure)
    return UndoBody(one.path, one.state, failure, to_datetime(line.at), line.took / 1_000_000, line.attempts)


async def show_difference(call: Call) -> Reply:
    """How two runs differ."""
    query: CompareQuery = call.query
    found = compare(await _side(call, call.path["left"]), await _side(call, call.path["right"]))
    differing = [line for line in found.lines if line.is_only_one or line.changes]
    shown = found.lines if query.all else differing
    return Reply(
        DifferenceBody(
            run_body(call, found.left),
            run_body(call, found.right),
            found.is_same,
            None if found.first is None else found.first.path,
            {name: [one, other] for name, one, other in found.facts},
            [list(paths) for paths in found.waits],
            len(found.lines) - len(differing),
            len(differing),
            [_compared(call, line) for line in shown[: query.limit]],
        )
    )


async def _side(call: Call, target: str) -> tuple[RunView, list[EntryView], list[WaitView]]:
    """One run of a comparison. Of values that a caller may not see, it does not tell either whether they are equal."""
    run, entries, waits = await call.services.engine.histories.side(target)
    if call.caller.sees_payloads:
        return run, entries, waits
    return replace(run, input=None, output=None), [replace(entry, value=None) for entry in entries], waits


def _compared(call: Call, line: ComparedEntry) -> ComparedBody:
    return ComparedBody(
        line.path,
        list(line.changes),
        None if line.left is None else entry_body(call, line.left),
        None if line.right is None else entry_body(call, line.right),
        line.slower_by,
    )


OPERATIONS = (
    look(
        "/runs/{run}/history",
        "show_history",
        show_history,
        "What is recorded of a run",
        {200: HistoryPage},
        query=HistoryQuery,
    ),
    look("/runs/{run}/history/{seq}", "show_entry", show_entry, "One line of a history", {200: EntryBody}),
    look(
        "/runs/{run}/tree",
        "show_tree",
        show_tree,
        "A run as a tree of its places, now or at an earlier line",
        {200: TreeBody},
        query=TreeQuery,
    ),
    look("/runs/{run}/undos", "list_undos", list_undos, "What can be undone of a run", {200: UndoList}),
    look(
        "/compare/{left}/{right}",
        "compare_runs",
        show_difference,
        "How two runs differ, by path",
        {200: DifferenceBody},
        query=CompareQuery,
    ),
)
