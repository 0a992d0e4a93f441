"""The same test on every store; each begins with an empty one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from examples import approval, order_saga
from stepwell import Break, Context, Continue, StepContext, SyncContext, step, workflow
from stepwell.testing import Kit, SyncKit, kit, send
from tests.testing.shop import Order, approve, fulfil, import_rows, parent, plain, quick, rounds

STORES = ["memory", "sqlite", "postgres"]


@pytest.mark.stepwell(stores=STORES)
async def test_a_test_runs_on_each_store(stepwell: Kit):
    run = await stepwell.start(fulfil, Order("ann"), key="order-1")
    await run.until("second")
    await run.signal(approve, "mia")

    assert await run.result() == "parcel for ann"
    assert len(stepwell.world.list_runs()) == 1


@pytest.mark.stepwell(stores=STORES)
def test_each_begins_with_an_empty_store(stepwell: SyncKit):
    assert stepwell.world.list_runs() == []
    stepwell.run(quick, Order("ann"), key="order-1")


@pytest.mark.stepwell(stores=STORES)
def test_children_plain_workflows_and_chains_run_on_each_store(stepwell: SyncKit):
    stepwell.run(parent, Order("ann")).assert_output("child: parcel for ann")
    stepwell.run(plain, Order("ann")).assert_output("parcel for ann")
    stepwell.run(rounds, 1).assert_output("done")


@pytest.mark.stepwell(stores=["sqlite"])
def test_a_sqlite_store_is_a_file_of_the_test(stepwell: SyncKit, tmp_path: Path):
    stepwell.run(quick, Order("ann"))

    assert (tmp_path / "stepwell-test.db").stat().st_size > 0


# --- every primitive, replayed at every commit and swept ---


async def double(number: int) -> int:
    await asyncio.sleep(number)
    return 2 * number


async def fast(ctx: Context) -> int:
    return await ctx.step("fast", double, 1)


async def slow(ctx: Context) -> int:
    return await ctx.step("slow", double, 5)


async def count(ctx: Context, total: int) -> Continue[int] | Break[int]:
    total += await ctx.step("one", double, 1)
    return Continue(total) if total < 6 else Break(total)


async def item(ctx: Context, number: int) -> int:
    return await ctx.step("double", double, number)


@workflow
async def everything(ctx: Context) -> list[Any]:
    token = await ctx.once("token", lambda: "t")
    both = await ctx.join("both", {"fast": fast, "slow": slow})
    winner = await ctx.race("race", {"fast": fast, "slow": slow})
    total = await ctx.loop("rounds", count, 0)
    doubled = await ctx.map("items", item, [3, 1, 2], limit=2)
    gathered = await asyncio.gather(ctx.step("x", double, 2), ctx.step("y", double, 1))
    await ctx.sleep("nap", "1h")
    rows = await ctx.step(import_rows, 3)
    return [token, sorted(both.items()), winner.branch, total, doubled, gathered, rows, round(ctx.random(), 3)]


@step
def import_in_a_thread(ctx: StepContext, rows: int) -> int:
    for done in range(int(ctx.state or 0), rows):
        ctx.checkpoint(done + 1)
    return rows


@workflow
def everything_plain(ctx: SyncContext) -> list[Any]:
    rows = ctx.step(import_in_a_thread, 3)
    ctx.sleep("nap", "1h")
    return [rows, ctx.step("sum", sum, [1, 2])]


@pytest.mark.stepwell(stores=STORES)
@pytest.mark.parametrize("flow", [everything, everything_plain], ids=["async", "plain"])
def test_every_primitive_gives_the_same_replayed_or_not(stepwell: SyncKit, flow):
    with kit(always_replay=False) as live:
        expected = live.run(flow).result()

    stepwell.run(flow).assert_output(expected)


@pytest.mark.parametrize("flow", [everything, everything_plain], ids=["async", "plain"])
def test_a_sweep_finds_nothing_in_any_primitive(stepwell: SyncKit, flow):
    stepwell.run(flow).assert_status("completed")
    report = stepwell.crash_everywhere(flow)

    assert report.ok == report.points > 0


SAGA = order_saga.Order("1", "a lamp", 40, "Lamp Street 1")
MOON = order_saga.Order("2", "a rocket", 900, "the moon")
EXAMPLES: dict[str, tuple[Any, Any, list[Any]]] = {
    "order saga": (order_saga.fulfil, SAGA, []),
    "order saga undone": (order_saga.fulfil, MOON, []),
    "approval": (approval.approve_expense, approval.Expense("1", 80), [send("approve", "Ann")]),
    "approval without an answer": (approval.approve_expense, approval.Expense("1", 80), []),
}


@pytest.mark.parametrize(("flow", "given", "script"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_sweep_finds_nothing_in_the_examples(stepwell: SyncKit, flow, given, script):
    report = stepwell.crash_everywhere(flow, given, script=script)

    assert report.ok == report.points > 0
