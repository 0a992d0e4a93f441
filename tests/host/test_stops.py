"""A stop that is cut short: by a timeout of the host, by Ctrl-C. Whatever was open is closed all the same."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import pytest

from stepwell import Context, Engine, StepContext, WorkerSettings, workflow

FAR = "60s"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/stops.db"


def stepwell_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("stepwell")}


async def until_only(threads: set[threading.Thread], tasks: set[asyncio.Task[object]]) -> None:
    """Return when nobody else is left."""
    async with asyncio.timeout(30):
        while stepwell_threads() - threads or asyncio.all_tasks() - tasks:
            gc.collect()
            await asyncio.sleep(0.01)


async def test_an_engine_whose_shutdown_is_cancelled_leaves_nothing_behind(url: str):
    begun, released = asyncio.Event(), asyncio.Event()

    async def lasting(info: StepContext) -> int:
        begun.set()
        await released.wait()
        return info.attempt

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step(lasting)

    threads, tasks = stepwell_threads(), asyncio.all_tasks()
    settings = WorkerSettings(lease=FAR)
    engine = Engine(url, workflows=[flow], settings=settings)
    await engine.__aenter__()
    run = await engine.start(flow, key="k")
    await begun.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await engine.shutdown(grace=60)
    await until_only(threads, tasks)

    released.set()
    async with Engine(url, workflows=[flow], settings=settings) as another:
        # At once, and not after the lease: what was left was given back.
        async with asyncio.timeout(30):
            assert await another.result(run.run_id, timeout="29s") == 1
        assert [worker.name for worker in await another.workers.list()] != []
    await until_only(threads, tasks)


async def test_a_program_that_is_cancelled_twice_waits_for_no_body(tmp_path: Path):
    begun = asyncio.Event()

    async def lasting() -> None:
        begun.set()
        await asyncio.sleep(60)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(lasting)

    async def program() -> None:
        async with Engine(f"sqlite:///{tmp_path}/stops.db", workflows=[flow]) as engine:
            await engine.start(flow)
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(60)  # it cleans up

    running = asyncio.ensure_future(program())
    await begun.wait()
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0.01)
    async with asyncio.timeout(8):  # less than the usual grace time
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 8])
async def test_a_close_that_is_cancelled_at_any_of_its_waits_ends_its_threads(url: str, turns: int):
    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step("one", lambda: 1)

    threads, tasks = stepwell_threads(), asyncio.all_tasks()
    engine = Engine(url, workflows=[flow])
    await engine.__aenter__()
    assert await (await engine.start(flow)).result(timeout=FAR) == 1
    stopping = asyncio.ensure_future(engine.shutdown())
    for _ in range(turns):
        await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping])
    await until_only(threads, tasks)

    async with Engine(url, workflows=[flow]) as another:
        assert await (await another.start(flow)).result(timeout=FAR) == 1
