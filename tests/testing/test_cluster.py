"""Several workers with leases as in production: killed, disconnected, and with wrong clocks."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import Context, StepwellError, step, workflow
from stepwell.testing import Kit, Stuck, SyncKit
from tests.testing.shop import Order, approve, fulfil, quick

BEGAN: list[str] = []


@step
async def work(seconds: int) -> str:
    BEGAN.append("begins")
    await asyncio.sleep(seconds)
    BEGAN.append("ends")
    return "done"


@workflow
async def working(ctx: Context, seconds: int) -> str:
    return await ctx.step(work, seconds)


@pytest.fixture(autouse=True)
def _nothing_began() -> None:
    BEGAN.clear()


async def test_runs_are_shared_among_workers(stepwell: Kit):
    first, second = stepwell.workers(2, runs_max=1)
    runs = [await stepwell.start(working, 60) for _ in range(2)]
    for run in runs:
        assert await run.result() == "done"

    assert {one.worker for one in stepwell.world.begun} == {first.name, second.name}


async def test_a_killed_worker_is_relieved_by_another(stepwell: Kit):
    workers = stepwell.workers(2)
    run = await stepwell.start(working, 60)
    await stepwell.clock.advance(seconds=5)
    holder = next(one for one in workers if one.name == stepwell.world.begun[0].worker)
    stepwell.kill(holder)

    assert await run.result() == "done"
    assert BEGAN == ["begins", "begins", "ends"]
    run.assert_attempts("work", 2)


async def test_without_a_worker_left_a_run_is_stuck_and_says_so(stepwell: Kit):
    (only,) = stepwell.workers(1)
    run = await stepwell.start(working, 60)
    await stepwell.clock.advance(seconds=5)
    stepwell.kill(only)

    with pytest.raises(Stuck, match="no worker for working version 1 is alive"):
        await run.result()


async def test_a_worker_that_is_cut_off_loses_its_run_when_its_lease_is_over(stepwell: Kit):
    workers = stepwell.workers(2, lease="10s")
    run = await stepwell.start(working, 60)
    await stepwell.clock.advance(seconds=5)
    holder = next(one for one in workers if one.name == stepwell.world.begun[0].worker)
    stepwell.partition(holder)
    await stepwell.clock.advance(seconds=8)
    run.assert_attempts("work", 1)
    await stepwell.clock.advance(seconds=10)
    run.assert_attempts("work", 2)
    stepwell.heal(holder)

    assert await run.result() == "done"
    run.assert_status("completed")


async def test_what_a_worker_did_while_it_was_cut_off_is_not_recorded(stepwell: Kit):
    workers = stepwell.workers(2, lease="10s")
    run = await stepwell.start(working, 14)
    await stepwell.clock.advance(seconds=2)
    holder = next(one for one in workers if one.name == stepwell.world.begun[0].worker)
    stepwell.partition(holder)
    await stepwell.clock.advance(seconds=20)
    stepwell.heal(holder)
    await run.result()

    run.assert_attempts("work", 2)
    assert len([entry for entry in run.history() if entry.path == "work"]) == 1


async def test_a_worker_with_a_wrong_clock_changes_nothing(stepwell: Kit):
    fast, slow = stepwell.workers(2)
    stepwell.skew(fast, seconds=3)
    stepwell.skew(slow, seconds=-3)
    run = await (await stepwell.start(fulfil, Order("ann"))).until_waiting()
    await run.signal(approve, "mia")

    assert await run.result() == "parcel for ann"


def test_workers_come_before_the_first_start(stepwell: SyncKit):
    stepwell.run(quick, Order("ann"))

    with pytest.raises(StepwellError, match="the test has a worker already"):
        stepwell.workers(2)


def test_the_worker_of_a_plain_test_cannot_be_disconnected(stepwell: SyncKit):
    stepwell.run(quick, Order("ann"))

    with pytest.raises(StepwellError, match="has a lease that never expires"):
        stepwell.partition(stepwell.world.nodes[0])


def test_a_dead_worker_cannot_be_killed_again(stepwell: SyncKit):
    first, _ = stepwell.workers(2)
    stepwell.kill(first)

    with pytest.raises(StepwellError, match="it was killed"):
        stepwell.kill(first)
