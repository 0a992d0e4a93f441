"""Retention: what the app says, workers carry out, one of them at a time; and what a person erases is gone."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import App, Context, Engine, SyncEngine, workflow
from stepwell.care import Retention
from stepwell.errors import InvalidOptionError, NotFoundError, StepwellError
from stepwell.model.states import RunStatus
from tests.cases.harness import Harness

_DAY = 86_400.0


async def fail() -> None:
    raise ValueError("no")


@workflow
async def quick(ctx: Context, number: int) -> int:
    return number


@workflow
async def parent(ctx: Context, wait: bool) -> str:
    await ctx.child(quick, 1)
    await ctx.spawn(waits)
    return "done"


@workflow
async def waits(ctx: Context) -> str:
    return str((await ctx.receive("go")).payload)


@workflow
async def broken(ctx: Context) -> None:
    await ctx.step("fail", fail)


@workflow
async def forever(ctx: Context, left: int) -> None:
    await ctx.sleep("pause", "1d")
    if left:
        await ctx.continue_as_new(left - 1)


async def test_workers_delete_what_is_past_its_time_and_only_of_their_own_workflows(harness: Harness):
    keeps = Retention(completed="2d", failed="10d")
    node = await harness.worker(quick, broken, parent, waits, retention=keeps)
    await node.start(quick, 1, key="q")
    await node.start(broken, key="b")
    await node.start(parent, False, key="p")
    other = await harness.worker(forever)
    await other.start(forever, 0, key="f")

    await harness.advance(4 * _DAY)
    assert await keys(node) == ["b", "f", "none", "none", "p"]  # its spawned child waits

    [waiting] = await node.do(node.engine.runs.list("workflow:waits"))
    await node.signal(waiting.run_id, "go", 1)
    await harness.advance(3 * _DAY)
    assert await keys(node) == ["b", "f"]
    await harness.advance(5 * _DAY)
    assert await keys(node) == ["f"]  # the worker that has no retention serves it

    [done] = await node.do(node.engine.retention.rounds())
    assert (done.is_running, done.runs) == (False, 0)


async def keys(node: Any) -> list[str]:
    return sorted(run.key or "none" for run in await node.do(node.engine.runs.list()))


async def test_one_worker_makes_a_round_and_another_goes_on_when_it_dies(harness: Harness):
    keeps = Retention(completed="1h")
    one = await harness.worker(quick, retention=keeps)
    two = await harness.worker(quick, retention=keeps)
    for number in range(3):
        await one.start(quick, number)
    care = one.engine.retention

    await harness.advance(2 * _DAY)
    assert await keys(one) == []
    assert await one.do(care.begin_round("a")) is not None  # made lately
    await harness.advance(3_700)
    begun = [await node.do(node.engine.retention.begin_round(name)) for node, name in ((one, "a"), (two, "b"))]
    winners = [answer for answer in begun if answer is None]
    assert len(winners) <= 1
    for node in (one, two):
        node.crash()
    third = await harness.worker(quick, retention=keeps)
    await third.start(quick, 9)
    await harness.advance(_DAY)
    assert await keys(third) == []


async def test_generations_of_a_chain_that_goes_on_are_deleted_except_the_newest(harness: Harness):
    node = await harness.worker(forever, retention=Retention("100d", continued="1h"))
    handle = await node.start(forever, 9, key="f")

    await harness.advance(7.5 * _DAY)

    runs = await node.do(node.engine.runs.list("workflow:forever"))
    assert [run.status for run in runs] == [RunStatus.WAITING, RunStatus.CONTINUED]
    assert (await node.do(node.engine.status("f"))).generation == 8
    with pytest.raises(NotFoundError):
        await node.do(node.engine.runs.get(handle.run_id))


async def test_a_key_finds_its_run_for_as_long_as_its_start_said(harness: Harness):
    node = await harness.worker(quick, retention=Retention("1h"))
    first = await node.start(quick, 1, key="long", dedup="20d")
    await node.start(quick, 1, key="short", dedup="1h")

    await harness.advance(19 * _DAY)
    assert await keys(node) == ["long"]
    again = await node.start(quick, 1, key="long", dedup="20d")
    assert (again.run_id, again.is_new) == (first.run_id, False)
    await harness.advance(2 * _DAY)
    assert await keys(node) == []


async def test_erasing_takes_whole_trees_and_says_what_is_left(harness: Harness):
    node = await harness.worker(quick, broken, parent, waits)
    await node.start(broken, key="b", attributes={"customer": 42})
    await node.start(quick, 7, key="q", attributes={"customer": 42})
    await node.start(quick, 7, key="other", attributes={"customer": 43})
    held = await node.start(parent, False, key="p", attributes={"customer": 42})
    await harness.advance(60)
    care = node.engine.retention

    plan = await node.do(care.erase("attr.customer:42", dry_run=True))
    assert (plan.matched, plan.runs, plan.left) == (3, 2, (held.run_id,))
    assert len(await keys(node)) == 6
    done = await node.do(care.erase("attr.customer:42", by="ann", reason="asked"))
    assert (done.matched, done.runs, done.left) == (3, 2, (held.run_id,))
    assert await keys(node) == ["none", "none", "other", "p"]
    acts = await node.do(node.engine.holds.list_acts())
    assert {(act.verb, act.by) for act in acts} == {("erase", "ann")}
    assert all("42" not in act.reason and "7" not in act.reason.split(":", 1)[1] for act in acts)

    for run in await node.do(node.engine.runs.list("workflow:waits")):
        await node.do(node.engine.cancel(run.run_id))
    await harness.advance(60)
    assert (await node.do(care.erase("attr.customer:42"))).runs == 3
    assert await keys(node) == ["other"]


async def test_a_dry_run_counts_and_changes_nothing(harness: Harness):
    node = await harness.worker(quick, broken)
    for number in range(5):
        await node.start(quick, number)
    await node.start(broken)
    await harness.advance(3 * _DAY)
    care = node.engine.retention

    plan = await node.do(care.prune(Retention(completed="1d"), dry_run=True))

    assert (plan.runs, plan.trees, plan.by_workflow, plan.is_dry) == (5, 5, {"quick": 5}, True)
    assert len(await keys(node)) == 6
    done = await node.do(care.prune(Retention(completed="1d")))
    assert (done.runs, done.by_workflow, done.kept) == (5, {"quick": 5}, {})
    assert (await node.do(care.prune(Retention("1d"), workflows=["quick"]))).runs == 0
    assert (await node.do(care.prune(Retention("1d")))).by_workflow == {"broken": 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retention("0d"),
        lambda: Retention(completed="59m"),
        lambda: Retention(failed=-1),
        lambda: Retention(signals="1s"),
        lambda: Retention(workflows={"w": "30d"}),  # type: ignore[dict-item]
        lambda: Retention(workflows={"w": Retention("1d", workflows={"v": Retention("1d")})}),
        lambda: App(retention="30d"),  # type: ignore[arg-type]
    ],
)
def test_a_retention_that_makes_no_sense_is_rejected(make: Any) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        make()
    assert raised.value.fix


async def test_nothing_is_deleted_if_nobody_says_how_long_it_is_kept() -> None:
    async with Engine("memory://", workflows=[quick]) as engine:
        with pytest.raises(InvalidOptionError, match="nothing says"):
            await engine.retention.prune()
        with pytest.raises(StepwellError):
            await engine.retention.erase("  ")


def test_the_synchronous_engine_prunes_too() -> None:
    with SyncEngine("memory://", workflows=[quick], retention=Retention("1h")) as engine:
        engine.start(quick, 1).result()
        assert engine.retention.prune().runs == 0
        assert engine.retention.erase("workflow:quick").runs == 1


async def test_a_look_ahead_says_what_a_round_deletes_and_where_it_stopped(harness: Harness):
    node = await harness.worker(quick, broken, waits, parent)
    for number in range(4):
        await node.start(quick, number, key=f"q{number}")
    await node.start(broken, key="b")
    await node.start(parent, False, key="p")
    await harness.advance(3 * _DAY)
    care, keeps = node.engine.retention, Retention(completed="2d", failed="10d")

    ahead = await care.look_ahead(keeps)
    assert (ahead.runs, ahead.by_workflow, ahead.is_whole) == (4, {"quick": 4}, True)
    assert ahead.kept.get("active")  # the parent and its child, because another child waits
    part = await care.look_ahead(keeps, seen_max=1)
    assert part.is_whole  # one look reads up to 500 runs
    done = await care.prune(keeps, dry_run=True)
    assert (ahead.runs, ahead.trees, ahead.kept) == (done.runs, done.trees, done.kept)
    with pytest.raises(InvalidOptionError, match="nothing says how long"):
        await care.look_ahead()
