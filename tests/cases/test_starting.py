"""Starting runs: priorities, tags, deadlines, limits of waits, replacing, debouncing, and what becomes of children."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell import (
    AlreadyExistsError,
    ChildFailed,
    Context,
    Failure,
    Start,
    SyncContext,
    step,
    workflow,
)
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


def saga(ledger: Ledger) -> Any:
    """A step that takes effect and can be undone."""

    async def undo(name: str, result: None) -> None:
        ledger.note(f"undo {name}")

    async def act(name: str) -> None:
        ledger.note(name)

    return step(act, compensate=undo)


@workflow
async def waiter(ctx: Context) -> str:
    message = await ctx.receive("go")
    return str(message.payload)


# --- priority and tags ---


async def test_the_most_urgent_of_many_begins_first(harness: Harness, ledger: Ledger):
    @workflow
    async def job(ctx: Context, name: str) -> None:
        await ctx.step("work", ledger.body(name))

    client = await harness.client()
    starts = [Start(name, priority=priority) for name, priority in (("low", -1), ("none", None), ("high", 9))]
    await client.do(client.engine.runs.start_many(job, starts))
    await harness.worker(job, runs_max=1)
    await harness.advance("1s")

    assert ledger.lines == ["high", "none", "low"]


async def test_a_new_run_does_not_take_the_place_of_an_urgent_one(harness: Harness, ledger: Ledger):
    gate = asyncio.Event()

    @workflow
    async def job(ctx: Context, name: str) -> None:
        async def body() -> None:
            ledger.note(name)
            if name == "first":
                await gate.wait()

        await ctx.step("work", body)

    worker = await harness.worker(job, runs_max=1)
    await worker.start(job, "first")
    await harness.drain()
    await worker.start(job, "plain")
    await worker.start(job, "urgent", priority=1)
    gate.set()
    await harness.advance("1s")

    assert ledger.lines == ["first", "urgent", "plain"]


async def test_children_and_successors_are_as_urgent_as_their_run(harness: Harness):
    @workflow
    async def child(ctx: Context) -> None:
        await ctx.receive("go")

    @workflow
    async def parent(ctx: Context, again: bool) -> None:
        if again:
            ctx.continue_as_new(False)
        await ctx.child(child)

    worker = await harness.worker(parent, child)
    run = await worker.start(parent, True, priority=7, tags={"vip"}, deadline="1h", key="k")
    await harness.drain()

    views = {view.workflow: view for view in await worker.engine.runs.list() if view.status != "continued"}
    deadline = (await harness.status(run)).deadline_at
    assert (views["parent"].priority, views["parent"].tags, views["parent"].deadline_at) == (7, {"vip": ""}, deadline)
    assert (views["child"].priority, views["child"].tags, views["child"].deadline_at) == (7, {}, deadline)


async def test_tags_are_shown_with_the_run(harness: Harness):
    worker = await harness.worker(waiter)
    first = await worker.start(waiter, tags={"team": "payments", "region": "eu"})
    second = await worker.start(waiter, tags={"vip", "eu"})

    assert (await harness.status(first)).tags == {"region": "eu", "team": "payments"}
    assert (await harness.status(second)).tags == {"eu": "", "vip": ""}


# --- deadlines ---


async def test_a_run_without_effects_fails_at_once_at_its_deadline(harness: Harness):
    worker = await harness.worker(waiter)
    moment = datetime.fromtimestamp(worker.engine.now() / 1_000_000 + 60, UTC)
    run = await worker.start(waiter, deadline=moment)
    await harness.advance("61s")

    view = await harness.status(run)
    assert (view.status, view.failure.type) == ("failed", "DeadlineExceeded")


async def test_a_deadline_stops_a_running_body(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        async def body() -> None:
            ledger.note("begun")
            await asyncio.sleep(3_600)
            ledger.note("ended")

        await ctx.step("work", body)

    worker = await harness.worker(flow)
    run = await worker.start(flow, deadline="5s")
    await harness.advance("6s")

    assert (await harness.status(run)).failure.code == "SW471"
    await harness.advance("2h")
    assert ledger.lines == ["begun"]


async def test_a_run_that_never_began_fails_at_its_deadline_without_running(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("work", ledger.body("work"))

    client = await harness.client()
    run = await client.start(flow, deadline="5s")
    await harness.advance("6s")
    await harness.worker(flow)
    await harness.advance("1s")

    view = await harness.status(run)
    assert (view.status, view.failure.code) == ("failed", "SW471")
    assert ledger.lines == []


async def test_a_deadline_is_kept_by_whoever_takes_over(harness: Harness):
    worker = await harness.worker(waiter)
    run = await worker.start(waiter, deadline="30m")
    await harness.drain()
    await harness.takeover(worker, waiter)

    assert (await harness.status(run)).failure.code == "SW471"


async def test_a_rollback_takes_longer_than_the_deadline(harness: Harness, ledger: Ledger):
    async def undo(ctx: Context, result: None) -> None:
        await ctx.sleep("patience", "1h")
        ledger.note("undone")

    async def act() -> None:
        ledger.note("done")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(act, compensate=undo))
        raise Failure("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow, deadline="10s", max_suspend="10s")
    await harness.advance("2h")

    view = await harness.status(run)
    assert (view.status, view.failure.type) == ("compensated", "Failure")
    assert ledger.lines == ["done", "undone"]


async def test_a_child_ends_by_its_parents_deadline(harness: Harness):
    @workflow
    async def parent(ctx: Context) -> str:
        try:
            return await ctx.child(waiter)
        except ChildFailed as error:
            return str(error.failure)

    worker = await harness.worker(parent, waiter)
    run = await worker.start(parent, deadline="10s")
    await harness.advance("20s")

    statuses = {view.workflow: view.failure.code for view in await worker.engine.runs.list()}
    assert statuses == {"parent": "SW471", "waiter": "SW471"}
    assert (await harness.status(run)).status == "failed"


async def test_a_retry_of_a_late_run_goes_on_without_a_deadline(harness: Harness):
    worker = await harness.worker(waiter)
    run = await worker.start(waiter, deadline="10s")
    await harness.advance("20s")

    assert await worker.do(worker.engine.repairs.retry(run.run_id))
    await harness.drain()
    await worker.signal(run.run_id, "go", "at last")
    await harness.drain()

    assert await harness.result(run) == "at last"


async def test_a_result_in_time_wins(harness: Harness):
    worker = await harness.worker(waiter)
    run = await worker.start(waiter, deadline="10s")
    await harness.advance("9s")
    await worker.signal(run.run_id, "go", 1)
    await harness.advance("1h")

    assert await harness.result(run) == "1"


# --- the longest wait ---


async def test_each_wait_is_counted_by_itself_and_a_wake_does_not_extend_it(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        async def chatty(ctx: Context) -> None:
            for _ in range(5):
                await ctx.receive("tick")

        async def silent(ctx: Context) -> None:
            await ctx.receive("never")

        await ctx.join("both", {"chatty": chatty, "silent": silent})
        return "unreachable"

    worker = await harness.worker(flow)
    run = await worker.start(flow, max_suspend="1m")
    for _ in range(3):
        await harness.advance("25s")
        if (await harness.status(run)).ended_at is None:
            await worker.signal(run.run_id, "tick")

    view = await harness.status(run)
    assert (view.status, view.failure.path) == ("failed", "both/silent/never")


async def test_a_message_in_time_ends_the_wait(harness: Harness):
    worker = await harness.worker(waiter)
    run = await worker.start(waiter, max_suspend="1m")
    await harness.advance("59s")
    await worker.signal(run.run_id, "go", 1)
    await harness.advance("1h")

    assert await harness.result(run) == "1"


# --- replacing ---


async def test_a_replaced_run_is_undone_while_the_new_one_runs(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context, name: str) -> str:
        await ctx.step(saga(ledger), name)
        message = await ctx.receive("go")
        return str(message.payload)

    worker = await harness.worker(order)
    first = await worker.start(order, "one", key="k")
    await harness.drain()
    second = await worker.start(order, "two", key="k", on_conflict="replace")
    await harness.drain()

    assert (second.is_new, second.replaced) == (True, first.run_id)
    old = await harness.status(first)
    assert (old.status, old.replaced_by) == ("cancelled", second.run_id)
    assert sorted(ledger.lines) == ["one", "two", "undo one"]
    await worker.signal("k", "go", 2)
    await harness.drain()
    assert await harness.result(second) == "2"


async def test_a_batch_that_conflicts_stores_nothing(harness: Harness):
    worker = await harness.worker(waiter)
    first = await worker.start(waiter, key="k")

    with pytest.raises(AlreadyExistsError, match=first.run_id):
        await worker.do(worker.engine.runs.start_many(waiter, [Start(key="a"), Start(key="K")], on_conflict="raise"))

    assert [view.run_id for view in await worker.engine.runs.list()] == [first.run_id]


# --- debouncing ---


@workflow
async def reindex(ctx: Context, version: int) -> int:
    await ctx.sleep("work", "10s")
    return version


async def test_the_last_input_is_run_once_it_is_quiet(harness: Harness):
    worker = await harness.worker(reindex)
    runs = []
    for version in range(3):
        debounced = worker.engine.runs.start_debounced(reindex, version, key="doc", quiet="5s", max_wait="1m")
        runs.append(await worker.do(debounced))
        await harness.advance("4s")
    assert (await harness.status(runs[0])).status == "pending"
    await harness.advance("30s")

    assert [run.is_new for run in runs] == [True, False, False]
    assert {run.run_id for run in runs} == {runs[0].run_id}
    assert await harness.result(runs[0]) == 2
    assert len(await worker.engine.runs.list()) == 1


async def test_calls_without_end_are_run_after_the_longest_wait(harness: Harness):
    worker = await harness.worker(reindex)
    for version in range(12):
        await worker.do(worker.engine.runs.start_debounced(reindex, version, key="doc", quiet="5s", max_wait="10s"))
        await harness.advance("2s")
    await harness.advance("1m")

    results = [view.output for view in await worker.engine.runs.list()]
    assert results == [11, 9, 4]  # each run takes as long as five calls


async def test_a_call_while_it_runs_is_run_after_it(harness: Harness):
    worker = await harness.worker(reindex)
    first = await worker.do(worker.engine.runs.start_debounced(reindex, 1, key="doc", quiet="1s"))
    await harness.advance("2s")
    second = await worker.do(worker.engine.runs.start_debounced(reindex, 2, key="doc", quiet="1s"))
    await harness.advance("3s")
    assert (await harness.status(second)).status == "pending"
    await harness.advance("1m")

    one, two = await harness.status(first), await harness.status(second)
    assert (one.output, two.output) == (1, 2)
    assert two.started_at is not None
    assert one.ended_at is not None
    assert two.started_at >= one.ended_at


async def test_a_debounced_start_survives_a_crash(harness: Harness):
    client = await harness.client()
    run = await client.do(client.engine.runs.start_debounced(reindex, 1, key="doc", quiet="5s"))
    client.crash()
    await harness.worker(reindex)
    await harness.advance("1m")

    assert await harness.result(run) == 1


# --- children ---


@pytest.mark.parametrize("on_parent_close", ["leave", "cancel"])
async def test_a_parent_that_fails_leaves_its_children_unless_they_are_tied(
    harness: Harness, ledger: Ledger, on_parent_close: Any
):
    @workflow
    async def child(ctx: Context) -> None:
        await ctx.step(saga(ledger), "child")
        await ctx.receive("go")

    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.child(child, on_parent_close=on_parent_close)

    worker = await harness.worker(parent, child)
    run = await worker.start(parent, max_suspend="5s")
    await harness.advance("10s")

    statuses = {view.workflow: view.status for view in await worker.engine.runs.list()}
    assert (await harness.status(run)).status == "failed"
    assert statuses["child"] == ("cancelled" if on_parent_close == "cancel" else "waiting")
    assert ledger.lines == (["child", "undo child"] if on_parent_close == "cancel" else ["child"])


@pytest.mark.parametrize("on_parent_close", ["leave", "cancel"])
async def test_children_of_a_plain_workflow_may_be_tied_to_it(harness: Harness, on_parent_close: Any):
    @workflow
    def parent(ctx: SyncContext) -> None:
        ctx.children(waiter, [None, None], on_parent_close=on_parent_close)

    worker = await harness.worker(parent, waiter)
    run = await worker.start(parent, max_suspend="5s")
    await harness.advance("10s")

    assert (await harness.status(run)).status == "failed"
    children = [view.status for view in await worker.engine.runs.list(f"parent:{run.run_id}")]
    assert children == ["cancelled" if on_parent_close == "cancel" else "waiting"] * 2


@pytest.mark.parametrize("on_parent_close", ["leave", "cancel"])
async def test_a_spawned_run_outlives_its_parent_unless_it_is_tied(harness: Harness, on_parent_close: Any):
    @workflow
    async def parent(ctx: Context) -> str:
        return await ctx.spawn(waiter, on_parent_close=on_parent_close)

    worker = await harness.worker(parent, waiter)
    run = await worker.start(parent)
    await harness.drain()

    spawned = await harness.status(await harness.result(run))
    assert spawned.status == ("cancelled" if on_parent_close == "cancel" else "waiting")


async def test_a_cancel_reaches_all_descendants_root_first(harness: Harness, ledger: Ledger):
    @workflow
    async def leaf(ctx: Context) -> None:
        await ctx.step(saga(ledger), f"leaf {ctx.run_id}")
        await ctx.receive("go")

    @workflow
    async def middle(ctx: Context) -> None:
        await ctx.children(leaf, [None, None])

    @workflow
    async def root(ctx: Context) -> None:
        await ctx.spawn(waiter)
        await ctx.child(middle)

    worker = await harness.worker(root, middle, leaf, waiter)
    run = await worker.start(root)
    await harness.drain()
    assert await worker.do(worker.engine.cancel(run.run_id, "enough"))
    await harness.drain()

    views = await worker.engine.runs.list()
    assert {(view.workflow, view.status, view.reason) for view in views} == {
        ("root", "cancelled", "enough"),
        ("middle", "cancelled", "enough"),
        ("leaf", "cancelled", "enough"),
        ("waiter", "waiting", ""),
    }
    assert sum(line.startswith("undo leaf") for line in ledger.lines) == 2


async def test_children_in_bulk_may_be_tied(harness: Harness):
    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.children(waiter, [None, None], on_parent_close="cancel")

    worker = await harness.worker(parent, waiter)
    run = await worker.start(parent, max_suspend="5s")
    await harness.advance("10s")

    views = await worker.engine.runs.list()
    assert (await harness.status(run)).status == "failed"
    assert [view.status for view in views if view.workflow == "waiter"] == ["cancelled", "cancelled"]


async def test_a_policy_that_does_not_exist_fails_the_parent_and_starts_nothing(harness: Harness):
    @workflow
    async def parent(ctx: Context) -> None:
        policy: Any = "kill"
        await ctx.child(waiter, on_parent_close=policy)

    worker = await harness.worker(parent, waiter)
    run = await worker.start(parent)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.code) == ("failed", "SW103")
    assert len(await worker.engine.runs.list()) == 1
