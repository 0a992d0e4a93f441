"""The workflow of a bulk act: find all runs, then act on them in chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from stepwell.clock import Instant
from stepwell.engine.bulk_verbs import Nouns, find_verb, refusal
from stepwell.engine.bulks import ABORT, ACT, OUTCOMES, PAGE, VERSION, BulkItem, BulkOrder, check_matched
from stepwell.engine.filters import parse_filter
from stepwell.engine.system_runs import BULK
from stepwell.errors import RequestError
from stepwell.replay.context import Context
from stepwell.replay.steps import step
from stepwell.replay.workflows import Workflow, workflow

CHUNK: Final = 20  # runs per step: how many are repeated after a crash, and how soon an abort takes effect


@dataclass(frozen=True, slots=True)
class Found:
    """One page of matching runs."""

    runs: list[str]
    cursor: str | None  # of the next one


def bulk_workflow(engine: Nouns) -> Workflow[BulkOrder, dict[str, Any]]:
    """The workflow, acting through an engine."""

    @step
    async def find(order: BulkOrder, before: str | None) -> Found:
        page = await engine.runs.list(parse_filter(order.where, Instant(order.at)), limit=PAGE, before=before)
        runs = [run.run_id for run in page if run.workflow != BULK]
        return Found(runs, page[-1].run_id if len(page) == PAGE else None)

    @step
    async def act(order: BulkOrder, by: str, runs: list[str]) -> list[BulkItem]:
        return [await _act_on(engine, order, by, run_id) for run_id in runs]

    async def find_all(ctx: Context, order: BulkOrder) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await ctx.step("find", find, order, cursor)
            found += page.runs
            check_matched(len(found), order.where)
            if page.cursor is None:
                return found
            cursor = page.cursor

    @workflow(name=BULK, version=VERSION, unread="discard")
    async def bulk(ctx: Context, order: BulkOrder) -> dict[str, Any]:
        runs = order.runs or await find_all(ctx, order)
        by = f"{order.by} by {ctx.key or ctx.run_id}".strip()  # the audit distinguishes the acts of one person
        counts: dict[str, Any] = {"state": "done", "matched": len(runs), **dict.fromkeys(OUTCOMES, 0)}
        ctx.publish_state(counts)
        for first in range(0, len(runs), CHUNK):
            if ctx.signals.has(ABORT):
                counts["state"] = "aborted"
                break
            for item in await ctx.step(ACT, act, order, by, runs[first : first + CHUNK]):
                counts[item.outcome] += 1
            ctx.publish_state(counts)
        ctx.publish_state(counts)
        return counts

    return bulk


async def _act_on(engine: Nouns, order: BulkOrder, by: str, run_id: str) -> BulkItem:
    verb, why = find_verb(order.verb), ""
    try:
        is_done = await _is_done(engine, order, by, run_id) or await verb.act(engine, run_id, order.options, by)
    except RequestError as error:  # also if it was deleted since it was found
        is_done, why = False, refusal(error)
    now = await engine.runs.find(run_id)
    if now is None:
        return BulkItem(run_id, "refused", "gone", why)
    if is_done:
        return BulkItem(run_id, "done", now.status)
    if verb.was_done(now):
        return BulkItem(run_id, "before", now.status)
    return BulkItem(run_id, "refused", now.status, why)


async def _is_done(engine: Nouns, order: BulkOrder, by: str, run_id: str) -> bool:
    """Whether this act was already done, and the worker died before it was recorded."""
    return any((act.verb, act.by) == (order.verb, by) for act in await engine.runs.list_acts(run_id))
