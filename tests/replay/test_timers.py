"""asyncio's timers in workflow code: durable, recorded only when they fire, and passed in the same order."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from stepwell import Break, ChildFailed, Context, Continue, Rollback, RunPaused, Workflow, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def ended(harness: Harness, flow: Workflow[Any, Any], *more: Workflow[Any, Any], after: str = "3h") -> Any:
    """The result of a run that another worker replays from its beginning half-way."""
    worker = await harness.worker(flow, *more)
    run = await worker.start(flow)
    await harness.advance("10m")
    await harness.takeover(worker, flow, *more)
    await harness.advance(after)
    return await harness.result(run)


async def test_a_timeout_ends_a_wait(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        began = ctx.now()
        try:
            async with asyncio.timeout(3600):
                await ctx.receive("never")
        except TimeoutError:
            await ctx.step("late", ledger.body("late"))
        await ctx.sleep("pause", "1h")
        return [round((ctx.now() - began).total_seconds() / 3600)]

    assert await ended(harness, flow) == [2]
    assert ledger.lines == ["late"]


async def test_a_timeout_that_does_not_fire_records_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        async with asyncio.timeout(60):
            await ctx.step("quick", ledger.body("quick"))
        await asyncio.wait_for(ctx.step("quicker", ledger.body("quicker")), 60)
        await ctx.sleep("pause", "1h")
        return "done"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2h")

    assert await harness.result(run) == "done"
    assert await harness.paths(run) == ["quick", "quicker", "pause"]


async def test_a_timer_that_fires_is_recorded_in_its_scope(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        async def branch(inner: Context) -> str:
            await asyncio.sleep(30)
            return "slept"

        async def body(inner: Context, number: int) -> Continue[int] | Break[int]:
            await asyncio.sleep(1)
            return Break(number) if number == 2 else Continue(number + 1)

        async def item(inner: Context, seconds: int) -> int:
            await asyncio.sleep(seconds)
            return seconds

        await asyncio.sleep(0.5)
        await asyncio.sleep(1)
        await ctx.join("both", {"a": branch, "b": branch})
        await ctx.loop("loop", body, 0)
        await ctx.map("items", item, [1, 2])
        await ctx.sleep("pause", "1h")
        return ["done"]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2h")

    assert await harness.result(run) == ["done"]
    timers = [path for path in await harness.paths(run) if "timer" in path]
    assert timers == [
        "timer",
        "timer#2",
        "both/a/timer",
        "both/b/timer",
        "loop/~0/timer",
        "loop/~1/timer",
        "loop/~2/timer",
        "items/~0/timer",
        "items/~1/timer",
    ]


async def test_a_body_that_runs_out_of_time_is_stopped_and_does_not_run_again(harness: Harness, ledger: Ledger):
    async def slow() -> None:
        ledger.note("begins")
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            ledger.note("told to stop")
            raise

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await asyncio.wait_for(ctx.step(slow), 60)
        except TimeoutError:
            await ctx.sleep("pause", "1h")
            return "late"
        return "in time"

    assert await ended(harness, flow) == "late"
    assert ledger.lines == ["begins", "told to stop"]


async def test_a_deadline_counts_from_the_last_result_however_often_the_code_runs_again(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> list[float]:
        await ctx.sleep("before", "30m")
        began = asyncio.get_running_loop().time()
        assert began == ctx.now().timestamp()
        try:
            async with asyncio.timeout(7200):
                await ctx.receive("never")
        except TimeoutError:
            return [asyncio.get_running_loop().time() - began]
        return []

    assert await ended(harness, flow, after="5h") == [7200.0]


async def test_a_result_and_a_deadline_keep_their_order(harness: Harness, ledger: Ledger):
    async def takes(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found: list[Any] = []

        async def one(name: str, lasts: float, limit: float) -> None:
            try:
                async with asyncio.timeout(limit):
                    found.append(await ctx.step(name, takes, lasts))
            except TimeoutError:
                found.append(f"{name} late")

        await asyncio.gather(one("a", 3, 2), one("b", 1, 2), one("c", 5, 4), one("d", 3, 9))
        await ctx.sleep("pause", "1h")
        return found

    assert await ended(harness, flow) == [1, "a late", 3, "c late"]


async def test_call_later_calls_once_and_can_be_cancelled(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        called: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_later(5, called.append, "five")
        never = loop.call_later(3, called.append, "never")
        assert never.when() == loop.time() + 3
        loop.call_at(loop.time() - 1, called.append, "past")
        assert loop.call_later(math.inf, called.append, "no end").when() == math.inf
        never.cancel()
        assert never.cancelled()
        await asyncio.sleep(10)
        await ctx.step("after", ledger.body("after"))
        return called

    assert await ended(harness, flow) == ["past", "five"]
    assert ledger.lines == ["after"]


async def test_a_timeout_cancels_a_child(harness: Harness):
    @workflow
    async def waiting(ctx: Context) -> None:
        await ctx.receive("never")

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            async with asyncio.timeout(60):
                await ctx.child(waiting)
        except TimeoutError:
            await ctx.sleep("pause", "1h")
            return "late"
        return "in time"

    worker = await harness.worker(flow, waiting)
    run = await worker.start(flow)
    await harness.advance("3h")

    assert await harness.result(run) == "late"
    runs = await worker.do(worker.engine.runs.list())
    assert sorted(view.status for view in runs) == ["cancelled", "completed"]


async def test_a_signal_that_comes_too_late_stays_pending(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        try:
            async with asyncio.timeout(60):
                await ctx.receive("go", name="first")
        except TimeoutError:
            pass
        await ctx.sleep("pause", "1h")
        return [(await ctx.receive("go", name="second")).payload]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10m")
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go", "late")
    await harness.drain()

    assert await harness.result(run) == ["late"]


async def test_a_compensation_may_have_a_timeout(harness: Harness, ledger: Ledger):
    async def undo(ctx: Context) -> None:
        try:
            async with asyncio.timeout(60):
                await ctx.receive("confirmed")
        except TimeoutError:
            await ctx.step("unconfirmed", ledger.body("unconfirmed"))

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(ledger.body("act"), name="act", compensate=undo))
        await asyncio.sleep(1)
        raise Rollback("enough")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")
    await harness.takeover(worker, flow)
    await harness.advance("1h")

    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["act", "unconfirmed"]


async def test_a_timer_of_a_branch_that_lost_does_not_fire(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        async def slow(inner: Context) -> str:
            try:
                await asyncio.wait_for(inner.receive("never"), 3600)
            except TimeoutError:
                await inner.step("late", ledger.body("late"))
            return "slow"

        async def quick(inner: Context) -> str:
            await asyncio.sleep(1)
            return "quick"

        winner = await ctx.race("race", {"slow": slow, "quick": quick})
        await ctx.sleep("pause", "3h")
        return winner.branch

    assert await ended(harness, flow, after="5h") == "quick"
    assert ledger.lines == []


async def test_a_timer_that_the_code_leaves_running_is_reported(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        async def remind() -> None:
            await asyncio.sleep(3600)
            await ctx.step("remind", ledger.body("remind"))

        kept.append(asyncio.create_task(remind()))
        await ctx.step("done", ledger.body("done"))
        return "done"

    kept: list[Any] = []
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunPaused) as caught:
        await harness.result(run)
    assert caught.value.failure is not None
    assert (caught.value.failure.code, caught.value.failure.path) == ("SW122", "timer")


async def test_a_long_timeout_is_not_a_wait_that_lasts_too_long(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        async with asyncio.timeout(24 * 3600):
            for number in range(5):
                await ctx.sleep(f"s{number}", "30m")
        return "done"

    worker = await harness.worker(flow)
    run = await worker.start(flow, max_suspend="1h")
    await harness.advance("3h")

    assert await harness.result(run) == "done"


async def test_a_timeout_around_a_quick_step_costs_no_commit(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def bare(ctx: Context) -> None:
        await ctx.step("a", ledger.body("a"))
        await ctx.step("b", ledger.body("b"))

    @workflow(name="limited")
    async def limited(ctx: Context) -> None:
        async with asyncio.timeout(60):
            await ctx.step("a", ledger.body("a"))
            await ctx.step("b", ledger.body("b"))

    worker = await harness.worker(bare, limited)
    counts = []
    for flow in (bare, limited):
        before = len(harness.answers)
        run = await worker.start(flow)
        await harness.drain()
        await harness.result(run)
        counts.append(len(harness.answers) - before)

    assert counts[0] == counts[1]


async def test_a_failed_child_in_time_is_a_failure(harness: Harness):
    @workflow
    async def failing(ctx: Context) -> None:
        ctx.fail("no")

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await asyncio.wait_for(ctx.child(failing), 60)
        except ChildFailed:
            return "failed"
        return "?"

    assert await ended(harness, flow, failing) == "failed"
