"""A worker that leaves begins nothing, also when a history arrives late."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, ResultTimeout, workflow
from stepwell.addresses import open_store
from stepwell.environment import system_environment


async def test_no_body_begins_when_a_history_arrives_while_the_worker_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def note(what: str) -> str:
        ran.append(what)
        return what

    @workflow
    async def noting(ctx: Context) -> str:
        await ctx.step("before", note, "before")
        await ctx.receive("go")
        return await ctx.step("after", note, "after")

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Engine(url, workflows=[noting]) as engine:
        run = await engine.start(noting, key="k")
        with pytest.raises(ResultTimeout):
            await run.result(timeout="300ms")
    store = open_store(url, system_environment())
    load, retire = store.runs.load, store.workers.retire
    is_loading, leaves = asyncio.Event(), asyncio.Event()

    async def load_late(run_ids: Any) -> Any:
        histories = await load(run_ids)
        is_loading.set()
        await leaves.wait()
        return histories

    async def retire_slowly(incarnation: Any) -> None:
        leaves.set()
        for _ in range(20):
            await asyncio.sleep(0)
        await retire(incarnation)

    monkeypatch.setattr(store.runs, "load", load_late)
    monkeypatch.setattr(store.workers, "retire", retire_slowly)
    async with Engine(store, workflows=[noting]) as engine:
        await engine.signal("k", "go")
        await asyncio.wait_for(is_loading.wait(), 60)
    assert ran == ["before"]

    async with Engine(url, workflows=[noting]) as engine:
        assert await engine.result("k") == "after"
    assert ran == ["before", "after"]
