"""Joins and races: who is told to stop, what stays of them, and what comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, JoinError, Retry, RunFailed, StepFailed, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

ONCE = Retry(max_attempts=1)


def after(ledger: Ledger, name: str, seconds: float) -> Any:
    async def body() -> str:
        ledger.note(f"{name} begins")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ledger.note(f"{name} is told to stop")
            raise
        ledger.note(f"{name} ends")
        return name

    return step(body, name="work")


async def outcome(harness: Harness, flow: Any, *others: Any) -> Any:
    worker = await harness.worker(flow, *others)
    run = await worker.start(flow)
    await harness.advance("10m")
    worker = await harness.takeover(worker, flow, *others)
    await worker.signal(run.run_id, "go", if_missing="drop")
    await harness.advance("1m")
    return await harness.result(run)


async def test_fail_fast_tells_the_others_to_stop(harness: Harness, ledger: Ledger):
    async def bad(ctx: Context) -> None:
        await ctx.sleep("pause", "5s")
        await ctx.step("work", step(ledger.failing("bad"), retry=ONCE))

    @workflow
    async def flow(ctx: Context) -> list[str]:
        branches: dict[str, Any] = {"bad": bad, "slow": lambda c: c.step(after(ledger, "slow", 60))}
        try:
            await ctx.join("both", branches, on_error="fail_fast")
        except JoinError as error:
            found = list(error.errors)
        await ctx.receive("go")
        return found

    assert await outcome(harness, flow) == ["bad"]
    assert ledger.lines == ["slow begins", "bad", "slow is told to stop"]


async def test_the_first_of_any_outcome_wins_if_asked_for(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        branches: dict[str, Any] = {
            "bad": lambda c: c.step("work", step(ledger.failing("bad"), retry=ONCE)),
            "slow": lambda c: c.step(after(ledger, "slow", 60)),
        }
        try:
            await ctx.race("first", branches, first="settled")
        except StepFailed as error:
            found = error.failure.message
        await ctx.receive("go")
        return found

    assert await outcome(harness, flow) == "bad failed"


async def test_a_loser_that_refuses_to_stop_records_nothing(harness: Harness, ledger: Ledger):
    async def stubborn(ctx: Context) -> None:
        try:
            await ctx.receive("never")
        except asyncio.CancelledError:
            await ctx.step("revenge", ledger.body("revenge"))

    @workflow
    async def flow(ctx: Context) -> str:
        won = await ctx.race("first", {"stubborn": stubborn, "quick": lambda c: c.sleep("pause", "5s")})
        await ctx.receive("go")
        return won.branch

    assert await outcome(harness, flow) == "quick"
    assert ledger.lines == []


async def test_signals_that_a_loser_had_consumed_stay_consumed_and_others_stay_queued(harness: Harness, ledger: Ledger):
    async def listener(ctx: Context) -> None:
        await ctx.receive("m")
        await ctx.receive("never")

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        await ctx.race("first", {"listener": listener, "quick": lambda c: c.sleep("pause", "1m")})
        return [message.payload for message in await ctx.receive_many("m", timeout="1m")]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    await worker.signal(run.run_id, "m", 1)
    await harness.drain()
    await worker.signal(run.run_id, "m", 2)
    await harness.advance("2m")

    assert await harness.result(run) == [2]


async def test_the_children_of_a_loser_are_cancelled(harness: Harness, ledger: Ledger):
    @workflow
    async def child(ctx: Context) -> None:
        await ctx.receive("never")

    @workflow
    async def flow(ctx: Context) -> str:
        branches: dict[str, Any] = {
            "child": lambda c: c.child(child, key="loser"),
            "quick": lambda c: c.sleep("pause", "1m"),
        }
        return (await ctx.race("first", branches)).branch

    worker = await harness.worker(flow, child)
    run = await worker.start(flow)
    await harness.advance("2m")

    assert await harness.result(run) == "quick"
    assert (await harness.status("loser")).status == "cancelled"


async def test_nested_races_and_joins_leave_only_what_won(harness: Harness, ledger: Ledger):
    async def inner(ctx: Context) -> str:
        return (
            await ctx.race("inner", {"a": lambda c: c.step(after(ledger, "a", 2)), "b": lambda c: c.sleep("b", "1h")})
        ).branch

    async def both(ctx: Context) -> Any:
        return await ctx.join("both", {"x": inner, "y": inner})

    @workflow
    async def flow(ctx: Context) -> Any:
        won = await ctx.race("outer", {"both": both, "never": lambda c: c.receive("never")})
        await ctx.receive("go")
        return won.value

    assert await outcome(harness, flow) == {"x": "a", "y": "a"}
    assert ledger.counts == {"a begins": 2, "a ends": 2}


@pytest.mark.parametrize("kind", ["join", "race"])
async def test_branches_without_sense_are_refused(harness: Harness, kind: str):
    @workflow
    async def flow(ctx: Context, given: int) -> None:
        bad: Any = [{"a/b": lambda c: None}, {"a": 7}][given]
        await getattr(ctx, kind)("x", bad)

    worker = await harness.worker(flow)
    runs = [await worker.start(flow, given) for given in range(2)]
    await harness.drain()

    kinds = []
    for run in runs:
        with pytest.raises(RunFailed) as caught:
            await harness.result(run)
        kinds.append(caught.value.failure.type)
    assert kinds == ["InvalidNameError", "InvalidOptionError"]


async def test_a_join_of_nothing_is_done_and_a_race_of_nobody_is_refused(harness: Harness):
    @workflow
    async def joins(ctx: Context) -> dict[str, Any]:
        return await ctx.join("x", {})

    @workflow
    async def races(ctx: Context) -> None:
        await ctx.race("x", {})

    worker = await harness.worker(joins, races)
    joined, raced = await worker.start(joins), await worker.start(races)
    await harness.drain()

    assert await harness.result(joined) == {}
    with pytest.raises(RunFailed, match="has no branches"):
        await harness.result(raced)


async def test_a_branch_result_that_its_annotation_refuses_is_the_branchs_failure(harness: Harness):
    async def wrong(ctx: Context) -> int:
        return "text"  # type: ignore[return-value]

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.join("j", {"wrong": wrong})
        except JoinError as error:
            return error.errors["wrong"].failure.type  # type: ignore[attr-defined]
        return "stored"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == "InvalidInputError"


async def test_cancelling_the_task_around_a_join_stops_its_branches(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        task = asyncio.create_task(ctx.join("j", {"slow": lambda c: c.step(after(ledger, "slow", 60))}))
        await ctx.sleep("a while", "5s")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ctx.receive("go")
        return "cancelled"

    assert await outcome(harness, flow) == "cancelled"
    assert ledger.lines[:2] == ["slow begins", "slow is told to stop"]


async def test_a_failed_fan_out_names_its_parts_and_the_first_cause(harness: Harness, ledger: Ledger):
    async def bad(ctx: Context) -> None:
        raise ValueError("no such order")

    async def bad_step(ctx: Context, number: int = 0) -> None:
        if number % 2 == 0:
            await ctx.step("work", step(ledger.failing("bad"), retry=ONCE))

    @workflow
    async def flow(ctx: Context, kind: str) -> None:
        await ctx.receive("go")
        match kind:
            case "join":
                await ctx.join("both", {"good": lambda c: c.sleep("pause", "1s"), "bad": bad, "worse": bad_step})
            case "one":
                await ctx.join("both", {"bad": bad})
            case "map":
                await ctx.map("all", bad_step, range(12))
            case _:
                await ctx.race("first", {"a": bad_step, "b": bad})

    async def failure(kind: str) -> str:
        worker = await harness.worker(flow)
        run = await worker.start(flow, kind)
        await worker.signal(run.run_id, "go")
        await harness.advance("1m")
        view = await harness.status(run)
        assert view.failure is not None
        with pytest.raises(RunFailed) as caught:
            await harness.result(run)
        assert caught.value.title == f"run {run.run_id} failed: {view.failure.type}: {view.failure.message}"
        return view.failure.message

    assert await failure("one") == "branch bad of both failed: ValueError: no such order"
    assert await failure("join") == "2 branches of both failed (bad, worse); bad: ValueError: no such order"
    assert await failure("map") == (
        "6 items of all failed (0, 2, 4, 6, 8 and 1 more); 0: step all/~0/work failed after 1 attempt: "
        "ValueError: bad failed"
    )
    assert await failure("race") == "all branches of first failed (b, a); b: ValueError: no such order"


async def test_a_replay_raises_a_failed_fan_out_with_the_words_that_were_recorded(harness: Harness, ledger: Ledger):
    async def item(ctx: Context, number: int) -> None:
        raise ValueError("no such order")

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.map("all", item, [1])
        except JoinError as error:
            found = str(error)
        ledger.note(found)
        await ctx.receive("go")
        return found

    found = await outcome(harness, flow)

    assert found == "SW452  item 0 of all failed: ValueError: no such order\n  where   all"
    assert set(ledger.lines) == {found}
