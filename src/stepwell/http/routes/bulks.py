"""Operations on bulk acts: order one, follow it, list its outcomes, and stop it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stepwell.engine.bulk_verbs import check_options
from stepwell.engine.bulks import NAMED_MAX, BulkItem, BulkView
from stepwell.engine.views import RunView
from stepwell.http.fields import KeyText, Limit
from stepwell.http.idempotency import reserve
from stepwell.http.operations import Call, FilterText, Operation, Reply, look, steer
from stepwell.http.roles import Permission
from stepwell.ids import SystemIds
from stepwell.model.states import RunStatus

Verb = Literal["cancel", "pause", "wake", "resume", "retry", "resume_rollback", "mark_undone", "rewind", "redrive"]
Outcome = Literal["done", "before", "refused"]
State = Literal["planned", "running", "aborting", "paused", "done", "aborted", "failed"]


class BulkIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to do to the runs of a filter, or to named runs; `options` are the options of the verb."""

    verb: Verb
    where: FilterText | None = None
    runs: Annotated[list[KeyText], Meta(max_length=NAMED_MAX)] = []
    options: dict[str, Any] = {}
    dry_run: bool = False


class BulkSampleBody(msgspec.Struct):
    """One of the runs that a planned act would find."""

    run_id: str
    key: str | None
    workflow: str
    version: int
    status: RunStatus


class BulkBody(msgspec.Struct):
    """A bulk act. A planned one has no name; `statuses` counts the runs that it would find, and `samples` are some of
    them.
    """

    name: str | None
    run_id: str | None
    verb: str
    by: str
    where: str
    state: State
    matched: int
    done: int
    before: int
    refused: int
    began_at: datetime | None
    ended_at: datetime | None
    sample: list[str]
    reason: str = ""
    statuses: dict[str, int] = {}  # of the runs that a planned one would find
    samples: list[BulkSampleBody] = []


class BulkList(msgspec.Struct):
    """The latest bulk acts, newest first."""

    bulks: list[BulkBody]


class BulkItemBody(msgspec.Struct):
    """The outcome for one run, and why it was refused. `key` and `workflow` are null if the run is gone."""

    run_id: str
    key: str | None
    workflow: str | None
    version: int | None
    outcome: Outcome
    status: str
    why: str


class BulkItemPage(msgspec.Struct):
    """The outcomes so far; `next` is the `after` of the next page, if there is one."""

    items: list[BulkItemBody]
    next: int | None


class BulksQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many bulk acts."""

    limit: Limit = 50


class ItemsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The outcomes after the first `after`; only those of one kind, if it is given."""

    outcome: Outcome | None = None
    limit: Limit = 100
    after: Annotated[int, Meta(ge=0, le=(1 << 53) - 1)] = 0


async def start(call: Call) -> Reply:
    """Order a bulk act, once for each `Idempotency-Key`. A worker executes it."""
    body: BulkIn = call.body
    options = check_options(body.verb, body.options)
    if body.where is not None:
        call.filter(body.where, where="where")
    if body.dry_run:
        return Reply(await _plan(call, body))
    run_id, key = None, call.headers.get("idempotency-key")
    if key is not None:
        own = SystemIds(call.services.clock).uuid()
        run_id = await reserve(call, f"bulk by {call.caller.name}", key, own)
    bulk = await call.services.engine.bulks.start(
        body.verb, body.where, runs=body.runs, by=call.caller.name, run_id=run_id, **options
    )
    call.after = f"{body.verb} {bulk.name}"
    return Reply(_body(call, bulk), 202)


async def _plan(call: Call, body: BulkIn) -> BulkBody:
    found = await call.services.engine.bulks.preview(body.where, runs=body.runs)
    samples = [
        BulkSampleBody(run.run_id, run.key, run.workflow, run.version, RunStatus(run.status)) for run in found.sample
    ]
    return BulkBody(
        None,
        None,
        body.verb,
        call.caller.name,
        body.where or "",
        "planned",
        found.matched,
        0,
        0,
        0,
        None,
        None,
        [run.run_id for run in samples],
        statuses=dict(found.statuses),
        samples=samples,
    )


async def list_bulks(call: Call) -> Reply:
    """The latest bulk acts."""
    return Reply(BulkList([_body(call, one) for one in await call.services.engine.bulks.list(limit=call.query.limit)]))


async def show(call: Call) -> Reply:
    """One bulk act."""
    return Reply(_body(call, await call.services.engine.bulks.get(call.path["bulk"])))


async def list_items(call: Call) -> Reply:
    """The outcome for each run."""
    query: ItemsQuery = call.query
    engine, last = call.services.engine, query.after + query.limit
    items = await engine.bulks.items(call.path["bulk"])
    if query.outcome is not None:
        items = [one for one in items if one.outcome == query.outcome]
    page = items[query.after : last]
    runs = await engine.runs.find_many([one.run_id for one in page])
    bodies = [_item_body(one, run) for one, run in zip(page, runs, strict=True)]
    return Reply(BulkItemPage(bodies, last if len(items) > last else None))


def _item_body(item: BulkItem, run: RunView | None) -> BulkItemBody:
    key, workflow, version = (None, None, None) if run is None else (run.key, run.workflow, run.version)
    return BulkItemBody(item.run_id, key, workflow, version, item.outcome, item.status, item.why)  # type: ignore[arg-type]


async def abort(call: Call) -> Reply:
    """Stop a bulk act after its current chunk of runs."""
    bulks, name = call.services.engine.bulks, call.path["bulk"]
    call.before = (await bulks.get(name)).state
    await bulks.abort(name)
    bulk = await bulks.get(name)
    call.after = bulk.state
    return Reply(_body(call, bulk))


def _body(call: Call, bulk: BulkView) -> BulkBody:
    return BulkBody(
        bulk.name,
        bulk.run_id,
        bulk.verb,
        bulk.by,
        call.show_filter(bulk.where),
        bulk.state,  # type: ignore[arg-type]
        bulk.matched,
        bulk.done,
        bulk.before,
        bulk.refused,
        bulk.began_at,
        bulk.ended_at,
        [],
        bulk.reason,
    )


OPERATIONS = (
    Operation(
        method="POST",
        path="/bulks",
        name="start_bulk",
        permission=Permission.STEER,
        handler=start,
        summary="Act on many runs",
        answers={202: BulkBody, 200: BulkBody},
        body=BulkIn,
        takes_key=True,
    ),
    look("/bulks", "list_bulks", list_bulks, "The latest bulk acts", {200: BulkList}, query=BulksQuery),
    look("/bulks/{bulk}", "show_bulk", show, "One bulk act", {200: BulkBody}),
    look(
        "/bulks/{bulk}/items",
        "list_bulk_items",
        list_items,
        "The outcome for each run",
        {200: BulkItemPage},
        query=ItemsQuery,
    ),
    steer("/bulks/{bulk}/abort", "abort_bulk", abort, "Stop a bulk act", BulkBody),
)
