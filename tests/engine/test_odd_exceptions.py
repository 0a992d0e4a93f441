"""Exceptions that Python treats in a special way, out of bodies and out of workflow code: failures like any other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import (
    Context,
    Engine,
    JoinError,
    Retry,
    RunFailed,
    StepFailed,
    Transaction,
    WorkerSettings,
    step,
    workflow,
)

TWICE = Retry(max_attempts=2, initial="1ms")


class OddStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class OddClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


ODD: dict[str, Callable[[], BaseException]] = {
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "SystemExit": SystemExit,
    "OddStr": OddStr,
    "OddClass": OddClass,
}


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/odd.db"


@pytest.mark.parametrize(
    ("name", "kind"),
    # Out of a coroutine a KeyboardInterrupt is Ctrl-C, and ends the process.
    [(name, kind) for name in ODD for kind in ("def", "async def")] + [("KeyboardInterrupt", "def")],
)
async def test_whatever_a_body_raises_is_a_failed_attempt_that_names_it(url: str, name: str, kind: str):
    make = ODD.get(name, KeyboardInterrupt)
    undone: list[str] = []

    def blocking() -> None:
        raise make()

    async def waiting() -> None:
        raise make()

    body: Any = blocking if kind == "def" else waiting

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(reserve, compensate=undone.append), "one")
        await ctx.step("odd", step(body, retry=TWICE, timeout="30s"))

    def reserve(what: str) -> None:
        return None

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout="60s")
        assert caught.value.status == "compensated"
        assert name in str(caught.value) or name == "CancelledError"
        entry = (await engine.runs.history(run.run_id))[1]
        assert (entry.path, entry.attempts) == ("odd", 1 if name in ("SystemExit", "KeyboardInterrupt") else 2)
        assert undone == ["one"]


@pytest.mark.parametrize("name", ODD)
async def test_a_compensation_that_raises_it_parks_the_run(name: str):
    def undo(_: None) -> None:
        raise ODD[name]()

    @step(compensate=step(undo, retry=TWICE))
    def reserve() -> None:
        return None

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(reserve)
        raise RuntimeError("enough")

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)
        with pytest.raises(Exception, match="incomplete"):
            await run.result(timeout="60s")
        assert (await engine.status(run.run_id)).status == "compensation_failed"


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("name", ODD)
async def test_a_transactional_body_that_raises_it_fails(tmp_path: Path, name: str, kind: str):
    def blocking(tx: Transaction) -> None:
        raise ODD[name]()

    async def waiting(tx: Transaction) -> None:
        raise ODD[name]()

    body: Any = blocking if kind == "def" else waiting

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step("odd", step(body, transaction=True, retry=TWICE))
        except StepFailed as error:
            return error.failure.summary
        return "nothing"

    async with Engine(f"sqlite:///{tmp_path}/odd.db", workflows=[flow]) as engine:
        assert name in await (await engine.start(flow)).result(timeout="60s")


@pytest.mark.parametrize("name", ODD)
async def test_workflow_code_that_raises_it_fails_and_is_undone_at_the_top_and_in_a_branch(url: str, name: str):
    undone: list[str] = []

    def reserve(what: str) -> None:
        return None

    async def work(ctx: Context, _: int = 0) -> None:
        await ctx.step("work", reserve, "work")
        raise ODD[name]()

    async def other(ctx: Context) -> None:
        await ctx.step("other", reserve, "other")

    async def at_the_top(ctx: Context) -> None:
        await work(ctx)

    async def in_a_join(ctx: Context) -> None:
        await ctx.join("j", {"a": work, "b": other})

    async def in_a_quick_join(ctx: Context) -> None:
        await ctx.join("j", {"a": work, "b": other}, on_error="fail_fast")

    async def in_a_race(ctx: Context) -> None:
        await ctx.race("r", {"a": work, "b": work})

    async def in_a_map(ctx: Context) -> None:
        await ctx.map("m", work, [1, 2, 3], limit=2)

    @workflow
    async def flow(ctx: Context, number: int) -> None:
        await ctx.step(step(reserve, compensate=undone.append), str(number))
        await places[number](ctx)

    places = [at_the_top, in_a_join, in_a_quick_join, in_a_race, in_a_map]
    async with Engine(url, workflows=[flow]) as engine:
        for number in range(len(places)):
            run = await engine.start(flow, number)
            with pytest.raises(RunFailed):
                await run.result(timeout="60s")
            assert (await engine.status(run.run_id)).status == "compensated"
    assert undone == ["0", "1", "2", "3", "4"]


async def test_a_cancelled_task_inside_a_branch_is_the_failure_of_that_branch(url: str):
    async def never() -> None:
        await asyncio.Event().wait()

    async def work(ctx: Context) -> None:
        task = asyncio.create_task(ctx.step(never))
        await ctx.sleep("a moment", "1ms")
        task.cancel()
        await task

    @workflow
    async def flow(ctx: Context) -> list[str]:
        try:
            await ctx.join("j", {"a": work})
        except JoinError as error:
            return [str(each) for each in error.errors.values()]
        return []

    async with Engine(url, workflows=[flow]) as engine:
        [said] = await (await engine.start(flow)).result(timeout="60s")
        assert "CancelledError" in said


async def test_the_time_of_a_plain_function_begins_when_a_thread_is_free_for_it(url: str):
    release = threading.Event()

    def hold() -> None:
        release.wait(30)

    def quick(number: int) -> int:
        return number

    async def outlast_the_timeout() -> None:
        await asyncio.sleep(0.4)
        release.set()

    @workflow
    async def flow(ctx: Context) -> list[int]:
        first = asyncio.create_task(ctx.step(hold))
        rest = [asyncio.create_task(ctx.step(f"quick {n}", step(quick, timeout="200ms"), n)) for n in range(5)]
        await ctx.step(outlast_the_timeout)
        await first
        return list(await asyncio.gather(*rest))

    async with Engine(url, workflows=[flow], settings=WorkerSettings(threads_max=1)) as engine:
        assert await (await engine.start(flow)).result(timeout="60s") == [0, 1, 2, 3, 4]
