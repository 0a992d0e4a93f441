"""Driving runs: nothing happens by itself, time is skipped, and what can never happen is said at once."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import Context, Continue, RunFailed, step, workflow
from stepwell.testing import Kit, Stuck, SyncKit
from tests.testing.shop import Order, approve, charge, follow, fulfil, parent, plain, quick, rounds


async def test_a_run_is_driven_to_its_result_through_days_of_waiting(stepwell: Kit):
    run = await stepwell.start(fulfil, Order("ann"))
    await run.until("second")
    await run.signal(approve, "mia")

    assert await run.result() == "parcel for ann"
    run.assert_path("reserve", "payment/card/charge", "first", "remind", "second", "approved", "ship")


async def test_nothing_happens_to_a_run_that_is_not_driven(stepwell: Kit):
    run = await stepwell.start(quick, Order("ann"))

    run.assert_status("pending").assert_not_ran("reserve")


def test_a_plain_test_drives_without_await(stepwell: SyncKit):
    run = stepwell.start(quick, Order("ann"))

    assert run.result() == "parcel for ann"


def test_a_plain_workflow_is_driven_as_any_other(stepwell: SyncKit):
    run = stepwell.run(plain, Order("ann"))

    run.assert_output("parcel for ann").assert_path("reserve", "pause", "ship")


async def test_run_drives_to_the_end_whatever_it_is(stepwell: Kit):
    run = await stepwell.run(quick, Order("nobody"))

    run.assert_status("compensated", why="there is no such address").assert_undone("reserve", "charge")
    with pytest.raises(RunFailed):
        await run.result()


async def test_until_waiting_stops_before_any_timer(stepwell: Kit):
    run = await stepwell.start(fulfil, Order("ann"))
    await run.until_waiting()

    run.assert_waiting_on("approve").assert_waiting_on("first").assert_not_ran("remind").assert_within(0)


async def test_until_waiting_sits_out_retries_and_slow_steps(stepwell: Kit):
    stepwell.fail(charge, times=2)
    stepwell.slow("reserve", seconds=25)
    run = await (await stepwell.start(fulfil, Order("ann"))).until_waiting()

    run.assert_waiting_on(approve).assert_attempts(charge, 3)


async def test_step_goes_on_commit_by_commit(stepwell: Kit):
    run = await stepwell.start(quick, Order("ann"))
    await run.step()
    run.assert_ran("reserve").assert_not_ran("charge")

    while run.status != "completed":
        await run.step()
    run.assert_path("reserve", "charge", "ship")


async def test_a_child_is_run_without_being_registered(stepwell: Kit):
    run = await stepwell.run(parent, Order("ann"))

    run.assert_output("child: parcel for ann")


async def test_a_chain_of_continued_runs_is_one_run(stepwell: Kit):
    run = await stepwell.run(rounds, 2)

    run.assert_output("done").assert_path("count", "count", "count")


async def test_two_runs_go_on_at_the_same_time(stepwell: Kit):
    first = await stepwell.start(fulfil, Order("ann"))
    second = await stepwell.start(fulfil, Order("bob"))
    await stepwell.clock.advance(days=3)

    first.assert_ran("remind")
    second.assert_ran("remind")


async def test_a_test_may_have_a_loop_of_its_own(stepwell: Kit):
    beside: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        beside.append("done")

    task = asyncio.create_task(work())
    run = await stepwell.run(quick, Order("ann"))
    await task

    assert (beside, run.status) == (["done"], "completed")
    assert asyncio.current_task() is not None


# --- what can never happen ---


async def test_a_run_that_waits_for_ever_fails_at_once_with_its_why(stepwell: Kit):
    run = await stepwell.start(follow, "ann")

    with pytest.raises(Stuck) as caught:
        await run.result()
    text = str(caught.value)
    assert "the run will never end" in text
    assert "it needs an event of 'Shipped' with customer=" in text
    assert "follow v1  ‖ waiting" in text


async def test_a_run_that_commits_nothing_more_is_stuck(stepwell: Kit):
    run = await (await stepwell.start(follow, "ann")).until_waiting()

    with pytest.raises(Stuck, match="the run will never commit anything"):
        await run.step()


async def test_a_place_that_a_run_does_not_come_to_is_told_with_its_tree(stepwell: Kit):
    run = await stepwell.start(quick, Order("ann"))

    with pytest.raises(AssertionError) as caught:
        await run.until("payment/refund")
    assert "the run is completed and never reached 'payment/refund'" in str(caught.value)
    assert "✓ reserve" in str(caught.value)


async def test_a_body_that_hangs_is_found(stepwell: Kit):
    @step
    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    @workflow
    async def hanging(ctx: Context) -> None:
        await ctx.step(hang)

    run = await stepwell.start(hanging)

    with pytest.raises(Stuck, match=r"hanging run .* is running: worker worker-1 executes it"):
        await run.result()


async def test_a_workflow_that_no_worker_runs_is_told_by_name(stepwell: Kit):
    run = await stepwell.start(quick, Order("ann"))
    await run.result()
    lonely = await stepwell.engine.runs.start_by_name("elsewhere", 3)

    with pytest.raises(Stuck, match="no worker for elsewhere version 3 is alive"):
        await (await stepwell.handle(quick, lonely.run_id)).result()


async def test_a_loop_that_never_waits_is_stopped(stepwell: Kit):
    @step
    async def again() -> None: ...

    @workflow
    async def endless(ctx: Context) -> None:
        while True:
            await ctx.step(again)

    run = await stepwell.start(endless)

    with pytest.raises(AssertionError, match="more than 20 commits without waiting"):
        await run.drive(max_hops=20)


async def test_drive_stops_where_the_run_waits(stepwell: Kit):
    run = await stepwell.start(fulfil, Order("ann"))
    await run.drive()

    run.assert_waiting_on("approve")


@workflow
async def endless(ctx: Context) -> None:
    async def turn(ctx: Context, number: int) -> Continue[int]:
        await ctx.sleep("pause", "1h")
        return Continue(number + 1)

    await ctx.loop("turns", turn, 0)


@workflow
async def chained(ctx: Context, number: int) -> None:
    await ctx.sleep("pause", "1h")
    ctx.continue_as_new(number + 1)


async def test_a_run_that_goes_on_for_ever_is_given_up(stepwell: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.testing.runs.COMMITS_MAX", 50)
    monkeypatch.setattr("stepwell.testing.runs.GENERATIONS_MAX", 10)

    for run in (await stepwell.start(endless), await stepwell.start(chained, 1)):
        with pytest.raises(Stuck, match="did not end within 50 commits or 10 generations: it may be endless"):
            await run.result()
        with pytest.raises(Stuck, match="did not reach 'elsewhere' within 50 commits"):
            await run.until("elsewhere")
