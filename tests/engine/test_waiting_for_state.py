"""Waiting for what a run publishes: as soon as it is there, and no longer than the caller wants."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, SyncEngine, workflow
from stepwell.errors import NotFoundError, ResultTimeout
from stepwell.views import RunView


@dataclass(frozen=True)
class Quote:
    price: int


@workflow
async def quoting(ctx: Context) -> str:
    await ctx.receive("begin")
    ctx.state["quote"] = Quote(7)
    await ctx.receive("end")
    return "done"


@workflow
async def silent(ctx: Context) -> str:
    await ctx.receive("end")
    return "done"


@workflow
async def chained(ctx: Context, left: int) -> str:
    await ctx.receive("begin")
    if left:
        await ctx.continue_as_new(left - 1)
    ctx.publish_state("here")
    return "done"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/state.db"


async def test_state_is_waited_for_until_it_is_published(url: str) -> None:
    async with Engine(url, workflows=[quoting]) as engine:
        run = await engine.start(quoting, key="q")
        waiting = asyncio.create_task(engine.state("q", "quote", wait="60s", as_type=Quote))
        of_handle = asyncio.create_task(run.state("quote", wait="60s"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await run.signal("begin")

        assert await waiting == Quote(7)
        assert await of_handle == {"price": 7}
        assert await engine.state("q", "quote", wait="1ms") == {"price": 7}


async def test_a_caller_that_has_waited_long_enough_is_told(url: str) -> None:
    async with Engine(url, workflows=[quoting]) as engine:
        run = await engine.start(quoting)

        with pytest.raises(ResultTimeout, match="has published no state 'quote' within") as late:
            await engine.state(run.run_id, "quote", wait="50ms")
        assert "why" in late.value.fix or "explain" in late.value.fix
        with pytest.raises(NotFoundError):
            await engine.state("nobody", "quote", wait="1s")


async def test_the_end_of_a_silent_run_ends_the_wait(url: str) -> None:
    async with Engine(url, workflows=[silent]) as engine:
        run = await engine.start(silent)
        waiting = asyncio.create_task(engine.state(run.run_id, wait="60s"))
        await run.signal("end")

        assert await waiting is None


async def test_the_wait_follows_a_run_that_continues_as_new(url: str) -> None:
    async with Engine(url, workflows=[chained]) as engine:
        run = await engine.start(chained, 1, key="c")
        waiting = asyncio.create_task(engine.state(run.run_id, wait="60s"))
        for _ in range(2):
            await asyncio.sleep(0.02)
            await engine.signal("c", "begin", if_missing="hold")

        assert await waiting == "here"


async def test_watch_yields_views(url: str) -> None:
    async with Engine(url, workflows=[quoting]) as engine:
        run = await engine.start(quoting)
        await run.signal("begin")
        await run.signal("end")
        seen: list[Any] = [view async for view in engine.watch(run.run_id)]

        assert all(isinstance(view, RunView) for view in seen)
        assert seen[-1].status == "completed"


def test_the_synchronous_engine_waits_and_watches(tmp_path: Path) -> None:
    with SyncEngine(f"sqlite:///{tmp_path}/s.db", workflows=[quoting]) as engine:
        run = engine.start(quoting)
        run.signal("begin")

        assert engine.state(run.run_id, "quote", wait="60s", as_type=Quote) == Quote(7)
        run.signal("end")
        assert [view.status for view in engine.watch(run.run_id)][-1] == "completed"
