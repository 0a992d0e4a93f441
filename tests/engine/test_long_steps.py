"""Long steps on a real loop with real threads; and what is refused before anything runs."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from stepwell import (
    Budget,
    Context,
    Engine,
    Retry,
    RunCancelled,
    RunFailed,
    StepContext,
    StepFailed,
    StepwellError,
    step,
    workflow,
)
from stepwell.errors import InvalidOptionError, OutsideStepError

ONCE = Retry(max_attempts=1)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/long.db"


async def test_a_body_in_a_thread_keeps_its_state_and_yields(url: str):
    begun: list[Any] = []

    def load(info: StepContext) -> list[Any]:
        page = info.state_as(int, 0)
        begun.append((page, threading.current_thread() is threading.main_thread()))
        while page < 5:
            page += 1
            info.count(rows=1)
            info.progress(page, 5)
            info.heartbeat(page)
            info.checkpoint(page)
            if info.should_yield():
                info.yield_(page)
        return [page, info.attempt]

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        return await ctx.step(step(load, budget=Budget(rows=2)))

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        assert await run.result("60s") == [5, 1]
        assert begun == [(0, False), (2, False), (4, False)]
        assert (await engine.runs.detail(run.run_id)).history.progress == ()


async def test_a_checkpoint_in_a_thread_is_durable_when_it_returns(url: str):
    reached, released = threading.Event(), threading.Event()

    def load(info: StepContext) -> None:
        info.checkpoint({"page": 3})
        reached.set()
        released.wait(10)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(load)

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await asyncio.to_thread(reached.wait, 10)
        [seen] = (await run.status()).progress
        released.set()
        assert (seen.path, seen.state) == ("load", {"page": 3})
        await run.result("60s")


async def test_a_body_in_a_thread_hears_of_a_cancel(url: str):
    started, stopped = threading.Event(), threading.Event()

    def load(info: StepContext) -> None:
        started.set()
        while not info.cancelled:
            stopped.wait(0.005)
        assert info.should_yield()
        stopped.set()

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(load)

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await asyncio.to_thread(started.wait, 10)
        await run.cancel()
        assert await asyncio.to_thread(stopped.wait, 10)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_heartbeat_after_a_cancel_raises(url: str, kind: str):
    begun, stopped, lines = threading.Event(), threading.Event(), []

    def beat(info: StepContext) -> None:
        begun.set()
        try:
            while True:
                info.heartbeat()
                stopped.wait(0.001)
        except asyncio.CancelledError:
            stopped.set()
            raise

    async def beat_here(info: StepContext) -> None:
        begun.set()
        await asyncio.to_thread(beat, info)

    def reserve() -> None:
        return None

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(reserve, compensate=lambda _: lines.append("undone")))
        await ctx.step("beat", step(beat if kind == "def" else beat_here, retry=ONCE))

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        assert await asyncio.to_thread(begun.wait, 10)
        await run.cancel()
        assert await asyncio.to_thread(stopped.wait, 10)
        with pytest.raises(RunCancelled):
            await run.result("20s")
        assert lines == ["undone"]


@pytest.mark.parametrize("verb", ["heartbeat", "checkpoint"])
async def test_a_thread_that_was_given_up_stops_at_its_next_word(url: str, verb: str):
    stopped = threading.Event()

    def load(info: StepContext) -> None:
        try:
            while True:
                getattr(info, verb)(1)
                stopped.wait(0.005)
        except asyncio.CancelledError:
            stopped.set()
            raise

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(step(load, timeout="50ms", retry=ONCE))
        except StepFailed as error:
            return error.failure.type
        return "done"

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        assert await run.result("60s") == "TimeoutError"
        assert await asyncio.to_thread(stopped.wait, 10)


async def test_a_coroutine_may_hand_its_context_to_a_thread(url: str):
    def work(info: StepContext) -> int:
        info.checkpoint(5)
        return int(info.state)

    async def load(info: StepContext) -> int:
        return await asyncio.to_thread(work, info)

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step(load)

    async with Engine(url, workflows=[flow]) as engine:
        assert await (await engine.start(flow)).result("60s") == 5


async def test_a_yield_inside_a_task_group_is_a_yield():
    async def load(info: StepContext) -> int:
        if info.state is None:
            async with asyncio.TaskGroup() as group:
                group.create_task(turn(info))
        return int(info.state)

    async def turn(info: StepContext) -> None:
        info.yield_(8)

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step(load)

    async with Engine("memory:", workflows=[flow]) as engine:
        assert await (await engine.start(flow)).result("60s") == 8


# --- what is refused -----------------------------------------------------------------------------


async def plain(number: int) -> int:
    return number


async def long(info: StepContext) -> None:
    info.yield_(1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": "-5s"}, "cannot read the duration"),
        ({"budget": -5}, "is negative"),
        ({"budget": 0}, "budget: time is 0"),
        ({"budget": "soon"}, "cannot read the duration 'soon'"),
        ({"budget": "30s", "at_most_once": True}, "step 'long' has a budget"),
        ({"budget": "30s", "isolate": "process"}, "step 'long' has a budget"),
    ],
    ids=str,
)
def test_a_budget_without_meaning_is_refused_when_the_step_is_defined(options: dict[str, Any], said: str):
    with pytest.raises(InvalidOptionError, match=said) as caught:
        step(long, **options)
    assert caught.value.fix


@pytest.mark.parametrize("limits", [{"rows": -1}, {"rows": 0}, {"bytes": -7}, {"rows": 1.5}, {"time": "0s"}], ids=str)
def test_a_budget_of_nothing_is_refused(limits: dict[str, Any]):
    with pytest.raises(InvalidOptionError, match="budget: ") as caught:
        Budget(**limits)
    assert all((caught.value.fix, caught.value.why))


def test_a_budget_that_nobody_could_ask_about_is_refused():
    with pytest.raises(InvalidOptionError, match="step 'plain' has a budget"):
        step(plain, budget="30s")


async def test_a_direct_call_of_a_long_step_says_that_it_is_none():
    info = StepContext("r", "w", "long", 1, True, "r:long")

    with pytest.raises(OutsideStepError, match="`yield_` of the context of step long was used outside"):
        await long(info)


def isolated(info: StepContext) -> None:
    info.heartbeat(1)


async def test_a_body_in_a_process_of_its_own_cannot_keep_a_state():
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(isolated, isolate="process", retry=ONCE))

    async with Engine("memory:", workflows=[flow]) as engine:
        with pytest.raises(RunFailed, match="`heartbeat` of the context of step isolated"):
            await (await engine.start(flow)).result("60s")


async def test_counting_down_is_refused(url: str):
    async def load(info: StepContext) -> str:
        try:
            info.count(rows=-1)
        except StepwellError as error:
            return f"{error.code} {error.title}"
        return ""

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(step(load, budget=Budget(rows=5)))

    async with Engine(url, workflows=[flow]) as engine:
        assert await (await engine.start(flow)).result("60s") == "SW103 count: rows is -1"
