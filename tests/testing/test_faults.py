"""Mocks and faults meet bodies by path, by glob or by function; nothing else of the engine is replaced."""

from __future__ import annotations

import pytest

from stepwell import Context, StepContext, StepwellError, step, workflow
from stepwell.testing import InjectedFailure, Kit, SyncKit
from tests.testing.shop import CardDeclined, Order, charge, fulfil, quick, release, ship


async def test_a_mock_gives_a_value_by_path(stepwell: Kit):
    stepwell.mock("ship", returns="a pigeon")

    (await stepwell.run(quick, Order("ann"))).assert_output("a pigeon")


async def test_a_mock_is_found_by_function(stepwell: Kit):
    stepwell.mock(ship, returns="a pigeon")

    (await stepwell.run(quick, Order("ann"))).assert_output("a pigeon")


async def test_a_mock_is_found_by_glob(stepwell: Kit):
    stepwell.mock("payment/*/charge", raises=CardDeclined("no funds"))
    run = await stepwell.run(fulfil, Order("ann"))

    run.assert_status("compensated", why="no funds").assert_undone("reserve").assert_attempts("payment/card/charge", 3)


async def test_a_mock_of_another_path_changes_nothing(stepwell: Kit):
    stepwell.mock("shipp", returns="a pigeon")

    (await stepwell.run(quick, Order("ann"))).assert_output("parcel for ann")


async def test_a_side_effect_gets_what_the_step_gets(stepwell: Kit):
    stepwell.mock("ship", side_effect=lambda order: f"drone for {order.customer}")

    (await stepwell.run(quick, Order("ann"))).assert_output("drone for ann")


async def test_a_side_effect_may_be_a_coroutine(stepwell: Kit):
    async def drone(order: Order) -> str:
        return f"drone for {order.customer}"

    stepwell.mock("ship", side_effect=drone)

    (await stepwell.run(quick, Order("ann"))).assert_output("drone for ann")


async def test_a_mocked_value_is_checked_like_a_real_one(stepwell: Kit):
    stepwell.mock("ship", returns=object())

    (await stepwell.run(quick, Order("ann"))).assert_status("compensated", why="UnserialisableError")


async def test_a_mock_with_times_gives_way_to_the_real_body(stepwell: Kit):
    stepwell.mock("charge", raises=CardDeclined("try again"), times=1)
    run = await stepwell.run(quick, Order("ann"))

    run.assert_status("completed").assert_attempts("charge", 2)


async def test_the_last_mock_counts(stepwell: Kit):
    stepwell.mock("ship", returns="a")
    stepwell.mock("ship", returns="b", times=1)

    (await stepwell.run(quick, Order("ann"))).assert_output("b")
    (await stepwell.run(quick, Order("ann"))).assert_output("a")


async def test_fail_fails_so_many_attempts(stepwell: Kit):
    stepwell.fail("charge", times=2)
    run = await stepwell.run(quick, Order("ann"))

    run.assert_status("completed").assert_attempts("charge", 3)
    assert [attempt.number for attempt in run.history()[1].failed_attempts] == [1, 2]


async def test_fail_without_times_fails_for_good(stepwell: Kit):
    stepwell.fail(charge)

    (await stepwell.run(quick, Order("ann"))).assert_status("compensated", why="InjectedFailure")


async def test_a_failing_compensation_stalls_the_rollback(stepwell: Kit):
    stepwell.fail("reserve~undo")
    run = await stepwell.run(quick, Order("nobody"))

    run.assert_status("compensation_failed", why="InjectedFailure").assert_undone("charge")
    with pytest.raises(AssertionError, match="reserve is not undone"):
        run.assert_undone("reserve")


async def test_a_compensation_is_found_by_its_own_function(stepwell: Kit):
    undone: list[str] = []
    stepwell.mock(release, side_effect=lambda order, reservation: undone.append(reservation))
    await stepwell.run(quick, Order("nobody"))

    assert undone == ["reservation of nobody"]


async def test_a_slow_step_takes_the_time_of_the_test(stepwell: Kit):
    stepwell.slow("ship", seconds=90)
    run = await stepwell.run(quick, Order("ann"))

    run.assert_output("parcel for ann").assert_within(90)
    with pytest.raises(AssertionError, match="the run took 90 s; the limit is 89 s"):
        run.assert_within(89)


async def test_a_step_runs_into_its_timeout(stepwell: Kit):
    stepwell.time_out(charge)
    run = await stepwell.run(quick, Order("ann"))

    run.assert_status("compensated", why="TimeoutError").assert_within(30).assert_undone("reserve")


async def test_a_step_without_a_timeout_cannot_run_into_one(stepwell: Kit):
    stepwell.time_out("reserve")

    with pytest.raises(StepwellError, match="step reserve has no timeout, so it cannot time out"):
        await stepwell.run(quick, Order("ann"))


async def test_cleared_faults_are_gone(stepwell: Kit):
    stepwell.fail("charge")
    stepwell.slow("ship", seconds=9)
    stepwell.clear_faults()

    (await stepwell.run(quick, Order("ann"))).assert_status("completed").assert_within(0)


async def test_a_mock_of_a_step_with_a_context_gets_the_context(stepwell: Kit):
    @step
    async def pay(ctx: StepContext, amount: int) -> str:
        return "never"

    @workflow
    async def paying(ctx: Context) -> str:
        return await ctx.step(pay, 7)

    stepwell.mock(pay, side_effect=lambda ctx, amount: f"{ctx.path} {ctx.attempt} {amount}")

    (await stepwell.run(paying)).assert_output("pay 1 7")


@pytest.mark.parametrize(
    "given",
    [{}, {"returns": 1, "raises": ValueError()}, {"raises": ValueError(), "side_effect": print}],
    ids=["nothing", "value and error", "error and effect"],
)
def test_a_mock_does_one_thing(stepwell: SyncKit, given: dict):
    with pytest.raises(StepwellError, match="a mock needs exactly one effect"):
        stepwell.mock("ship", **given)


def test_a_fault_that_never_happens_is_refused(stepwell: SyncKit):
    with pytest.raises(StepwellError, match="times is 0"):
        stepwell.fail("ship", times=0)
    with pytest.raises(StepwellError, match="a delay must be positive"):
        stepwell.slow("ship", seconds=0)


def test_what_fail_raises_has_a_name_of_its_own():
    assert issubclass(InjectedFailure, Exception)
