"""Crashes at one place, and at all of them; and replay at every commit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from stepwell import Context, StepContext, StepwellError, Transaction, step, workflow
from stepwell.testing import CrashFound, Diverged, Kit, SyncKit, advance, cancel, kit, publish, send
from tests.testing.shop import Order, Shipped, approve, charge, follow, fulfil, parent, plain, quick, rounds

HANGING = """
from stepwell import StepContext, SyncContext, step, workflow
from stepwell.testing import kit

@step
def rows(ctx: StepContext) -> None:
    for done in range(int(ctx.state or 0), 3):
        ctx.checkpoint(done + 1)

@workflow
def load(ctx: SyncContext) -> None:
    ctx.step(rows)

with kit() as world:
    world.run(load)
    print(world.crash_everywhere(load).points)
"""

# --- at one place ---


@pytest.mark.parametrize(
    ("when", "began"), [("before_run", 2), ("after_run_before_record", 2), ("after_record", 1)], ids=lambda value: value
)
async def test_a_worker_dies_and_another_takes_over(stepwell: Kit, when, began: int):
    stepwell.crash_at("charge", when=when)
    run = await stepwell.run(quick, Order("ann"))

    run.assert_output("parcel for ann").assert_attempts("charge", began).assert_ran_once("reserve", "ship")
    assert [worker.is_alive for worker in stepwell.world.nodes] == [False, True]


async def test_a_body_that_was_killed_before_it_ran_did_nothing(stepwell: Kit):
    ran: list[int] = []

    def pay(order: Order) -> str:
        ran.append(1)
        return "paid"

    stepwell.mock("charge", side_effect=pay)
    stepwell.crash_at("charge", when="before_run")
    await stepwell.run(quick, Order("ann"))

    assert ran == [1]


async def test_a_crash_is_found_by_function_and_in_a_compensation(stepwell: Kit):
    stepwell.crash_at(charge, when="after_record")
    stepwell.crash_at("reserve~undo")
    run = await stepwell.run(quick, Order("nobody"))

    run.assert_status("compensated").assert_undone("reserve", "charge").assert_attempts("reserve~undo", 2)


async def test_an_assertion_about_once_sees_a_second_body(stepwell: Kit):
    stepwell.crash_at("charge", when="after_run_before_record")
    run = await stepwell.run(quick, Order("ann"))

    with pytest.raises(AssertionError, match="charge began 2 times, not once"):
        run.assert_ran_once("charge")


def test_a_crash_that_never_comes_fails_the_test_at_its_end():
    with (
        pytest.raises(AssertionError, match=r'crash_at\(.chrage., when="after_record"\) never happened'),
        kit() as made,
    ):
        made.crash_at("chrage", when="after_record")
        made.run(quick, Order("ann"))


def test_a_moment_that_there_is_not_is_refused(stepwell: SyncKit):
    with pytest.raises(StepwellError, match="when is 'later'"):
        stepwell.crash_at("charge", when="later")  # type: ignore[arg-type]


def test_a_plain_workflow_survives_a_crash(stepwell: SyncKit):
    stepwell.crash_at("pause", when="after_record")

    assert stepwell.run(plain, Order("ann")).assert_path("reserve", "pause", "ship").result() == "parcel for ann"


# --- replayed at every commit ---


@workflow
async def forgetful(ctx: Context) -> list[str]:
    seen: list[str] = []
    for name in ("a", "b"):
        seen.append(await ctx.step(name, quickly, name))
    return seen


async def quickly(name: str) -> str:
    return name


PASSES: list[str] = []


@workflow
async def passing(ctx: Context) -> None:
    PASSES.append("begins")
    await ctx.step("a", quickly, "a")
    await ctx.step("b", quickly, "b")


@pytest.mark.parametrize(("always_replay", "passes"), [(True, 2), (False, 1)])
def test_code_is_replayed_after_every_commit_unless_told_otherwise(always_replay: bool, passes: int):
    PASSES.clear()
    with kit(always_replay=always_replay) as made:
        made.run(passing)

    assert len(PASSES) == passes


@step(at_most_once=True)
async def risky() -> str:
    return "done"


@workflow
async def risking(ctx: Context) -> str:
    await ctx.step("before", quickly, "b")
    return await ctx.step(risky)


async def test_replaying_does_not_take_a_begun_step_for_a_lost_one(stepwell: Kit):
    (await stepwell.run(risking)).assert_output("done").assert_ran_once("risky")


VISITS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _never_visited() -> None:
    VISITS.clear()


@workflow
async def wandering(ctx: Context) -> None:
    VISITS[ctx.run_id] += 1
    await ctx.step(f"visit {VISITS[ctx.run_id]}", quickly, "x")
    await ctx.step("last", quickly, "y")


async def test_code_that_does_something_else_when_it_is_replayed_fails_the_test(stepwell: Kit):
    with pytest.raises(Diverged) as caught:
        await stepwell.run(wandering)
    assert "the workflow is not deterministic" in str(caught.value)
    assert "visit 1" in str(caught.value)


@workflow
async def leaving(ctx: Context) -> None:
    VISITS[ctx.run_id] += 1
    if VISITS[ctx.run_id] == 1:
        await ctx.step("visit 1", quickly, "x")
        await ctx.step("visit 2", quickly, "x")


def test_a_divergence_that_nobody_looked_at_fails_the_test_at_its_end():
    with pytest.raises(Diverged), kit() as made:
        made.start(leaving)
        made.world.settle()


def test_a_divergence_can_be_a_warning_or_nothing():
    with kit(nondeterminism="warn") as made, pytest.warns(UserWarning, match="not deterministic"):
        made.run(leaving, run_id="warned").assert_status("paused", why="without visiting 1 recorded operation")
    with kit(nondeterminism="off") as made:
        made.run(leaving, run_id="let-pass").assert_status("paused")


# --- everywhere ---


async def test_a_correct_workflow_survives_a_crash_anywhere(stepwell: Kit):
    report = await stepwell.crash_everywhere(fulfil, Order("ann"), script=[send(approve, "mia")])

    assert str(report).startswith(f"{report.points} points, {report.points} ok\n")
    assert report.points == 3 * len(report.commits) >= 9
    assert {path for point in report.commits for path in point.paths} >= {"reserve", "payment/card/charge", "ship"}


async def test_compensations_are_swept_too(stepwell: Kit):
    stepwell.mock("ship", raises=ValueError("broken"))
    report = await stepwell.crash_everywhere(quick, Order("ann"))

    assert {"reserve~undo", "charge~undo"} <= {path for point in report.commits for path in point.paths}


@pytest.mark.parametrize(
    ("flow", "given", "script"),
    [
        (fulfil, Order("ann"), [advance("3d"), send("approve", "mia")]),
        (fulfil, Order("ann"), [cancel("enough")]),
        (fulfil, Order("ann"), []),
        (follow, "ann", [publish(Shipped("ann"))]),
        (parent, Order("ann"), []),
        (parent, Order("nobody"), []),
        (plain, Order("ann"), []),
        (rounds, 2, []),
        (risking, None, []),
    ],
    ids=["timers", "cancel", "expiry", "event", "child", "failing child", "plain", "continued", "at most once"],
)
def test_what_happens_from_outside_is_part_of_a_sweep(stepwell: SyncKit, flow, given, script):
    is_same = flow is not risking  # whose outcome is unknown after some of the crashes
    report = stepwell.crash_everywhere(flow, given, script=script, same_result=is_same)

    assert report.ok == report.points > 0


@step(transaction=True)
async def book(tx: Transaction, seat: str) -> int:
    tx.execute("insert into seats values (?)", [seat])
    return len(tx.execute("select * from seats"))


@workflow
async def booking(ctx: Context) -> int:
    return await ctx.step(book, "7a")


@pytest.mark.stepwell(stores=["sqlite"])
async def test_a_transactional_step_writes_its_rows_once_wherever_a_worker_dies(stepwell: Kit):
    for when in ("before_run", "after_run_before_record", "after_record"):
        async with kit(store="sqlite") as made:
            await made.engine.transact(lambda tx: tx.execute("create table seats (seat text)"))
            made.crash_at("book", when=when)
            (await made.run(booking)).assert_output(1)


@pytest.mark.stepwell(stores=["memory", "sqlite", "postgres"])
async def test_a_sweep_runs_on_every_store(stepwell: Kit):
    report = await stepwell.crash_everywhere(quick, Order("nobody"), at_most_once=[])

    assert report.ok == report.points > 0


async def test_a_path_that_was_promised_and_never_ran_is_a_mistake(stepwell: Kit):
    with pytest.raises(CrashFound, match="at_most_once names 'chrage', but no body ran at that path"):
        await stepwell.crash_everywhere(quick, Order("ann"), at_most_once=["chrage"])


async def test_a_run_that_never_ends_cannot_be_swept(stepwell: Kit):
    with pytest.raises(CrashFound, match="does not end even without a crash"):
        await stepwell.crash_everywhere(follow, "ann")


async def test_a_finding_names_the_commit_and_what_differed(stepwell: Kit):
    sent: list[str] = []

    def pay(order: Order) -> str:
        sent.append("charged")
        return "paid"

    stepwell.mock("charge", side_effect=pay)
    outside: dict[str, Any] = {"effects": sent, "before_each": sent.clear}

    with pytest.raises(CrashFound) as caught:
        await stepwell.crash_everywhere(quick, Order("ann"), at_most_once="charge", **outside)
    text = str(caught.value)
    assert "points, " in text.splitlines()[0]
    assert "(charge), the worker died before it:" in text
    assert "the effect 'charged' happened twice instead of once" in text
    assert "charge was promised at most once, and its body began 2 times without reading its idempotency key" in text


async def test_a_finding_shows_the_first_difference_and_a_diff_of_both_histories(stepwell: Kit):
    executions: list[int] = []

    @step
    async def reserve() -> str:
        return "seat 7"

    @step
    async def pay(way: str) -> str:
        return f"paid by {way}"

    @workflow
    async def booking(ctx: Context) -> str:
        await ctx.step(reserve)
        if len(executions) == 1:
            await ctx.step("card", pay, "card")
            return await ctx.step("receipt", pay, "card")
        return await ctx.step("cash", pay, "cash")

    report = await stepwell.crash_everywhere(booking, before_each=lambda: executions.append(1), check=False)

    second = next(finding for finding in report.findings if finding.crash is None)
    assert second.difference.splitlines() == [
        "another output: 'paid by cash' instead of 'paid by card'",
        "another path: not card, receipt, but cash",
        "first difference, at card:",
        '  expected  ✓ card → "paid by card"',
        '  got       ✓ cash → "paid by cash"',
        "histories (- expected, + this execution):",
        '    ✓ reserve → "seat 7"',
        '  - ✓ card → "paid by card"',
        '  - ✓ receipt → "paid by card"',
        '  + ✓ cash → "paid by cash"',
    ]
    missed = next(finding for finding in report.findings if "never made" in finding.difference)
    assert missed.crash is not None
    assert missed.difference.splitlines()[:4] == [
        f"this execution never made {missed.crash.point}: the workflow does not do the same each time; "
        "its last commit was commit 2 (cash)",
        "first difference, at card:",
        '  expected  ✓ card → "paid by card"',
        '  got       ✓ cash → "paid by cash"',
    ]
    assert "the same as: without any crash, executed a second time" in str(report)


async def test_a_sweep_that_only_reports_raises_nothing(stepwell: Kit):
    report = await stepwell.crash_everywhere(quick, Order("ann"), at_most_once=["charge"], check=False)

    assert 0 < report.ok < report.points
    assert all(finding.crash is not None and finding.crash.way != "ack lost" for finding in report.findings)


async def test_a_body_that_looks_at_its_key_may_run_again(stepwell: Kit):
    @step
    async def pay(ctx: StepContext) -> str:
        return ctx.idempotency_key

    @workflow
    async def paying(ctx: Context) -> str:
        return await ctx.step(pay)

    await stepwell.crash_everywhere(paying, at_most_once=["pay"])


async def test_a_body_that_was_killed_before_it_came_to_its_key_is_no_finding(stepwell: Kit):
    @step
    async def pay(ctx: StepContext) -> str:
        await asyncio.sleep(5)
        return ctx.idempotency_key

    @workflow
    async def paying(ctx: Context) -> list[str]:
        return list(await asyncio.gather(ctx.step(pay), ctx.step("other", quickly, "x")))

    await stepwell.crash_everywhere(paying, at_most_once=["pay"])


async def test_a_body_that_looks_at_its_key_only_sometimes_is_found(stepwell: Kit):
    ran: list[str] = []

    @step
    def pay(ctx: StepContext) -> str:
        ran.append("pay")
        return ctx.idempotency_key if len(ran) % 2 else "blind"

    @workflow
    async def paying(ctx: Context) -> None:
        await ctx.step(pay)

    with pytest.raises(CrashFound, match="without reading its idempotency key"):
        await stepwell.crash_everywhere(paying, at_most_once=["pay"], before_each=ran.clear)


async def test_results_may_be_compared_in_part(stepwell: Kit):
    count = iter(range(10_000))
    stepwell.mock("ship", side_effect=lambda order: f"parcel {next(count)}")

    with pytest.raises(CrashFound, match="another output"):
        await stepwell.crash_everywhere(quick, Order("ann"))
    await stepwell.crash_everywhere(quick, Order("ann"), same_result=lambda parcel: parcel.split()[0])


def test_threads_of_dead_workers_do_not_keep_the_process_alive():
    """A body in a thread waits for its checkpoint, and the worker that would make it durable is killed."""
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60, check=True)

    assert int(done.stdout) > 0
