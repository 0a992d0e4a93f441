"""Engines that are called from elsewhere: another event loop, a forked process, the code of a workflow."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, RunPaused, SyncEngine, workflow
from stepwell.errors import WrongLoopError


async def _same(number: int) -> int:
    return number


@workflow
async def flow(ctx: Context, number: int) -> int:
    return await ctx.step("same", _same, number)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/homes.db"


async def elsewhere(call: Callable[[], Awaitable[Any]]) -> BaseException | None:
    """What a call raises in the event loop of another thread."""
    raised: list[BaseException | None] = []

    async def ask() -> None:
        await call()

    def view() -> None:
        try:
            asyncio.run(ask())
            raised.append(None)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=view)
    thread.start()
    await asyncio.to_thread(thread.join)
    return raised[0]


async def test_a_call_from_another_event_loop_is_refused_and_hurts_nobody(url: str):
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow, 1)
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: engine.start(flow, 2),
            lambda: engine.runs.start_many(flow, []),
            lambda: run.result(),
            lambda: run.status(),
            lambda: run.signal("go"),
            lambda: engine.cancel(run.run_id),
            lambda: engine.runs.list(),
            lambda: engine.publish("topic"),
            lambda: engine.runs.history(run.run_id),
            lambda: engine.explain(run.run_id),
            lambda: engine.outbox.list_pending(),
            lambda: engine.bulks.list(),
            lambda: engine.workers.list(),
            lambda: engine.holds.list(),
            lambda: engine.runs.state(run.run_id),
            lambda: engine.shutdown(),
        ]
        for call in calls:
            assert isinstance(await elsewhere(call), WrongLoopError)
        assert await run.result(timeout="30s") == 1
        assert await (await engine.start(flow, 3)).result(timeout="30s") == 3


async def test_a_closed_engine_can_be_opened_in_another_loop(url: str):
    engine = Engine(url, workflows=[flow])
    async with engine:
        pass

    async def again() -> None:
        async with engine:
            assert await (await engine.start(flow, 3)).result(timeout="30s") == 3

    assert await elsewhere(again) is None


async def test_workflow_code_that_calls_an_engine_stops_with_the_reason(url: str):
    @workflow
    async def calling(ctx: Context) -> None:
        try:
            await engine.start(flow, 1)
        except Exception:
            pass

    async with Engine(url, workflows=[calling, flow]) as engine:
        with pytest.raises(RunPaused, match="an engine was called in the code of a workflow"):
            await (await engine.start(calling)).result(timeout="30s")
        assert [run.workflow for run in await engine.runs.list()] == ["calling"]


def in_a_child(act: Callable[[], object]) -> str:
    """What an act raises in a forked process: the name of it, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            act()
        except BaseException as error:
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said


def test_a_blocking_engine_is_refused_in_a_forked_process(url: str):
    with SyncEngine(url, workflows=[flow]) as engine:
        run = engine.start(flow, 1)
        assert run.result(timeout="30s") == 1
        assert in_a_child(lambda: engine.start(flow, 2)) == "WrongLoopError"
        assert in_a_child(lambda: run.result()) == "WrongLoopError"
        assert in_a_child(lambda: engine.__exit__(None, None, None)) == "nothing"
        assert engine.start(flow, 4).result(timeout="30s") == 4


async def test_an_engine_is_refused_in_a_forked_process(url: str):
    async with Engine(url, workflows=[flow]) as engine:
        call = engine.start(flow, 2)
        assert in_a_child(lambda: call.send(None)) == "WrongLoopError"
        call.close()
        assert await (await engine.start(flow, 4)).result(timeout="30s") == 4


def test_a_child_may_open_an_engine_of_its_own(tmp_path: Path):
    def act() -> None:
        with SyncEngine(f"sqlite:///{tmp_path}/child.db", workflows=[flow]) as own:
            assert own.start(flow, 5).result(timeout="30s") == 5

    with SyncEngine(f"sqlite:///{tmp_path}/parent.db", workflows=[flow]) as engine:
        assert engine.start(flow, 1).result(timeout="30s") == 1
        assert in_a_child(act) == "nothing"
