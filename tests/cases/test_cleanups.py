"""Blocks with a clean-up: it runs once, on every way out of the block, also after a crash and for a cancel."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from stepwell import (
    Break,
    Context,
    Continue,
    Fatal,
    Retry,
    RunFailed,
    StepContext,
    StepFailed,
    SyncContext,
    Workflow,
    step,
    workflow,
)
from stepwell.errors import InvalidOptionError
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger

LINES: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    LINES.clear()


async def release(lock: str) -> None:
    LINES.append(f"release {lock}")


@step(retry=Retry(max_attempts=1))
async def break_down(lock: str) -> None:
    LINES.append(f"try to release {lock}")
    raise Fatal("the lock is stuck")


class Lock(NamedTuple):
    name: str
    held: timedelta


@step
async def release_typed(info: StepContext, lock: Lock) -> None:
    LINES.append(f"release {lock.name} after {lock.held}")


async def act(what: str) -> str:
    LINES.append(what)
    return what


async def begun(harness: Harness, flow: Workflow[Any, Any], after: str = "1m", **options: Any) -> tuple[Node, Any]:
    worker = await harness.worker(flow)
    run = await worker.start(flow, **options)
    await harness.advance(after)
    return worker, run


@workflow
async def holding(ctx: Context, how: str = "wait") -> str:
    async with ctx.cleanup(release, "lock"):
        await ctx.step("work", act, "work")
        await ctx.sleep("nap", "10m")
        if how == "fail":
            ctx.fail("no")
        if how == "continue":
            ctx.continue_as_new("wait")
        if how == "wait":
            await ctx.receive("go")
    await ctx.step("after", act, "after")
    return "done"


async def test_it_runs_when_the_block_ends(harness: Harness):
    worker, run = await begun(harness, holding)
    worker = await harness.takeover(worker, holding)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    await harness.takeover(worker, holding)

    assert await harness.result(run) == "done"
    assert LINES == ["work", "release lock", "after"]
    assert await harness.paths(run) == ["work", "nap", "go", "release", "after"]


@pytest.mark.parametrize("when", ["sleeping", "waiting"])
async def test_it_runs_when_the_run_is_cancelled(harness: Harness, when: str):
    worker, run = await begun(harness, holding, after="1m" if when == "sleeping" else "20m")
    await worker.do(run.cancel("enough"))
    await harness.advance("1m")

    assert (await harness.status(run)).status == "cancelled"
    assert LINES == ["work", "release lock"]


async def test_it_does_not_run_twice_when_the_run_is_cancelled_after_it(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        async with ctx.cleanup(release, "lock"):
            await ctx.step("work", act, "work")
        await ctx.receive("never")

    worker, run = await begun(harness, flow)
    await worker.do(run.cancel())
    await harness.advance("1m")

    assert (await harness.status(run)).status == "cancelled"
    assert LINES == ["work", "release lock"]


async def test_it_runs_when_the_block_fails_and_when_the_run_meets_its_deadline(harness: Harness):
    worker = await harness.worker(holding)
    failing = await worker.start(holding, "fail")
    await harness.advance("20m")
    with pytest.raises(RunFailed):
        await harness.result(failing)
    assert LINES == ["work", "release lock"]

    late = await worker.start(holding, "wait", deadline="5m")
    await harness.advance("20m")
    assert (await harness.status(late)).status == "compensated"
    assert LINES == ["work", "release lock"] * 2


async def test_it_runs_before_the_run_continues_as_new(harness: Harness):
    worker, run = await begun(harness, holding, after="15m", input="continue")
    await worker.signal(run.run_id, "go")
    await harness.advance("30m")

    assert await harness.result(run) == "done"
    assert LINES == ["work", "release lock", "work", "release lock", "after"]


async def test_it_runs_for_a_branch_that_lost_at_once_and_after_a_crash(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        async def slow(inner: Context) -> None:
            async with inner.cleanup(release, "lock"):
                await inner.receive("never")

        async def quick(inner: Context) -> None:
            await inner.sleep("nap", "5m")

        winner = await ctx.race("race", {"slow": slow, "quick": quick})
        await ctx.sleep("long", "3h")
        return winner.branch

    worker, run = await begun(harness, flow, after="6m")
    assert LINES == ["release lock"]
    await harness.takeover(worker, flow)
    await harness.advance("3h")

    assert await harness.result(run) == "quick"
    assert LINES == ["release lock"]
    assert "race/slow/release" in await harness.paths(run)


async def test_it_runs_for_what_ran_out_of_time_or_was_cancelled(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        async def held(name: str) -> None:
            async with ctx.cleanup(f"release {name}", release, name):
                await ctx.receive(name)

        try:
            async with asyncio.timeout(60):
                await held("a")
        except TimeoutError:
            await ctx.step("late", act, "late")
        task = asyncio.create_task(held("b"))
        await ctx.sleep("nap", "1m")
        task.cancel()
        await asyncio.wait([task])
        await ctx.sleep("long", "3h")
        return "done"

    worker, run = await begun(harness, flow, after="30m")
    assert sorted(LINES) == ["late", "release a", "release b"]
    await harness.takeover(worker, flow)
    await harness.advance("3h")

    assert await harness.result(run) == "done"
    assert sorted(LINES) == ["late", "release a", "release b"]


async def test_the_run_waits_for_it_before_it_ends(harness: Harness):
    async def slowly(lock: str) -> None:
        await asyncio.sleep(120)
        LINES.append(f"release {lock}")

    @workflow
    async def flow(ctx: Context) -> str:
        async def slow(inner: Context) -> None:
            async with inner.cleanup("release", slowly, "lock"):
                await inner.receive("never")

        async def quick(inner: Context) -> None:
            await inner.sleep("nap", "1m")

        await ctx.race("race", {"slow": slow, "quick": quick})
        return "done"

    _, run = await begun(harness, flow, after="2m")
    assert (await harness.status(run)).status == "running"
    await harness.advance("5m")

    assert await harness.result(run) == "done"
    assert LINES == ["release lock"]


async def test_a_clean_up_in_a_loop_leaves_nothing_behind(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> int:
        async def body(inner: Context, number: int) -> Continue[int] | Break[int]:
            async with inner.cleanup(release, f"{number}"):
                await inner.step("work", act, f"work {number}")
            return Break(number) if number == 40 else Continue(number + 1)

        found = await ctx.loop("loop", body, 0, trim_every=5, keep=2)
        await ctx.receive("go")
        return found

    worker, run = await begun(harness, flow)
    assert len(await harness.paths(run)) <= 8
    await worker.do(run.cancel())
    await harness.advance("1m")
    assert (await harness.status(run)).status == "cancelled"
    assert LINES.count("release 3") == 1
    assert len(LINES) == 82


async def test_a_clean_up_that_fails_is_the_failure_and_is_tried_again_by_the_rollback(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        async with ctx.cleanup(break_down, "lock"):
            await ctx.step("work", act, "work")

    _worker, run = await begun(harness, flow)

    view = await harness.status(run)
    assert view.status == "compensation_failed"
    assert LINES == ["work", "try to release lock", "try to release lock"]
    assert view.failure is not None
    assert "break_down" in view.failure.path


async def test_code_may_catch_the_failure_of_a_clean_up(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        try:
            async with ctx.cleanup(break_down, "lock"):
                await ctx.step("work", act, "work")
        except StepFailed:
            return "caught"
        return "?"

    _worker, run = await begun(harness, flow)

    assert await harness.result(run) == "caught"
    assert LINES == ["work", "try to release lock"]


@workflow
def plainly(ctx: SyncContext) -> str:
    with ctx.cleanup(release, "lock"):
        ctx.step("work", act, "work")
        ctx.sleep("nap", "10m")
        ctx.receive("go")
    ctx.step("after", act, "after")
    return "done"


@pytest.mark.parametrize("way", ["end", "cancel"])
async def test_a_clean_up_gets_its_arguments_as_it_declares_them(harness: Harness, way: str):
    @workflow
    async def flow(ctx: Context) -> None:
        async with ctx.cleanup(release_typed, Lock("door", timedelta(hours=1))):
            await ctx.receive("go")

    worker, run = await begun(harness, flow)
    worker = await harness.takeover(worker, flow)
    if way == "end":
        await worker.signal(run.run_id, "go")
    else:
        await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("1m")

    assert LINES == ["release door after 1:00:00"]


async def test_a_plain_workflow_cleans_up_once(harness: Harness):
    worker, run = await begun(harness, plainly)
    worker = await harness.takeover(worker, plainly)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "done"
    assert LINES == ["work", "release lock", "after"]


async def test_a_plain_branch_that_lost_and_a_cancelled_plain_run_are_cleaned_up(harness: Harness):
    @workflow
    def flow(ctx: SyncContext) -> None:
        def slow(inner: SyncContext) -> None:
            with inner.cleanup(release, "branch"):
                inner.receive("never")

        def quick(inner: SyncContext) -> None:
            inner.sleep("nap", "1m")

        ctx.race("race", {"slow": slow, "quick": quick})
        with ctx.cleanup(release, "run"):
            ctx.receive("go")

    worker, run = await begun(harness, flow, after="5m")
    assert LINES == ["release branch"]
    await worker.do(run.cancel())
    await harness.advance("1m")

    assert (await harness.status(run)).status == "cancelled"
    assert LINES == ["release branch", "release run"]


async def test_a_clean_up_that_cannot_work_is_refused_in_its_line(harness: Harness, ledger: Ledger):
    async def with_context(ctx: Context) -> None: ...

    found: list[str] = []

    @workflow
    async def flow(ctx: Context) -> None:
        tries: list[Any] = [
            lambda: ctx.cleanup("a", with_context),
            lambda: ctx.cleanup("b", release),
            lambda: ctx.cleanup("c", release, "lock", more=1),
            lambda: ctx.cleanup("d", step(release, compensate=act), "lock"),
            lambda: ctx.cleanup("e"),  # type: ignore[call-overload]
        ]
        for each in tries:
            try:
                each()
            except InvalidOptionError as error:
                found.append(error.fix)

    _worker, run = await begun(harness, flow)

    await harness.result(run)
    assert len(found) == (5 if harness.mode == "live" else len(found))
    assert any("ctx.cleanup(release, lock)" in str(fix) for fix in found)


async def test_a_block_that_is_made_and_not_entered_is_reported(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        ctx.cleanup(release, "lock")

    _, run = await begun(harness, flow)

    assert (await harness.status(run)).status == "paused"
    assert LINES == []
