"""On a real loop with real threads: blocking steps beside the loop, and a whole engine on a SQLite file."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, ResultTimeout, RunFailed, StepFailed, WorkerSettings, step, workflow


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/threads.db"


async def test_blocking_steps_run_in_threads_and_at_once(url: str):
    meeting = threading.Barrier(3, timeout=10)

    def meet(name: str) -> str:
        meeting.wait()
        return f"{name} {threading.current_thread() is threading.main_thread()}"

    @workflow
    async def flow(ctx: Context) -> list[str]:
        return list(await asyncio.gather(*[ctx.step(name, meet, name) for name in "abc"]))

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        assert await run.result(timeout="60s") == ["a False", "b False", "c False"]


async def test_a_blocking_step_that_outlasts_its_timeout_fails_and_its_late_result_is_nothing(url: str):
    released = threading.Event()

    def stuck() -> str:
        released.wait(10)
        return "late"

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            return await ctx.step(step(stuck, timeout="20ms"))
        except StepFailed as error:
            return error.failure.type

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        try:
            assert await run.result(timeout="60s") == "TimeoutError"
        finally:
            released.set()
        assert [entry.status for entry in await engine.runs.history(run.run_id)] == ["failed"]


async def test_a_blocking_step_that_outlasts_the_deadline_is_waited_for_and_undone(url: str):
    released, lines = threading.Event(), []

    def pay() -> str:
        released.wait(10)
        lines.append("paid")
        return "receipt"

    def refund(receipt: str) -> None:
        lines.append(f"refunded {receipt}")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(pay, compensate=refund))
        await ctx.step("never", lambda: lines.append("never"))

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow, deadline="100ms")
        with pytest.raises(ResultTimeout):
            await run.result(timeout="300ms")
        assert (await run.status()).status == "running"
        released.set()
        with pytest.raises(RunFailed, match="had not ended at its deadline"):
            await run.result(timeout="60s")
        assert (await run.status()).status == "compensated"
    assert lines == ["paid", "refunded receipt"]


async def test_many_runs_with_signals_and_timers_on_a_real_clock(url: str):
    @workflow
    async def flow(ctx: Context, number: int) -> Any:
        await ctx.sleep("nap", "5ms")
        got = (await ctx.receive("go")).payload
        await ctx.step("work", lambda: number)
        return [number, got]

    settings = WorkerSettings(mode="yield")
    async with Engine(url, workflows=[flow], settings=settings) as engine:
        runs = [await engine.start(flow, number, key=f"k{number}") for number in range(30)]
        for number in range(30):
            await engine.signal(f"k{number}", "go", number * 2)
        results = [await run.result(timeout="60s") for run in runs]

    assert results == [[number, number * 2] for number in range(30)]


async def test_an_engine_that_is_closed_leaves_its_runs_to_the_next(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/next.db"
    done: list[str] = []
    begun = asyncio.Event()

    async def first() -> None:
        done.append("first")
        begun.set()

    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step(first)
        await ctx.receive("go")
        await ctx.step("second", lambda: done.append("second"))
        return "done"

    async with Engine(url, workflows=[flow]) as engine:
        await engine.start(flow, key="k")
        await asyncio.wait_for(begun.wait(), 20)
    async with Engine(url) as client:
        await client.signal("k", "go")
    async with Engine(url, workflows=[flow]) as engine:
        assert await engine.result("k", timeout="60s") == "done"

    assert done == ["first", "second"]
