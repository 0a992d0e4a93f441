"""Watching runs: every watcher is told of its own run, and together they ask the store seldom."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from stepwell.engine import watches
from stepwell.model.runs import Run
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.views import RunView

WATCHERS = 40


@workflow
async def gate(ctx: Context) -> None:
    """Waits for a signal."""
    await ctx.receive("go")


async def _statuses(engine: Engine, run_id: str, told: list[str]) -> None:
    async for run in engine.runs.watch(run_id):
        told.append(run.status)


async def test_many_watchers_look_together_and_each_hears_how_its_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    async with Engine(f"sqlite:///{tmp_path}/x.db", workflows=[gate]) as engine:
        views = engine._backend.store.views
        find, find_many = views.find, views.find_many

        async def find_slowly(target: str) -> Run | None:
            await asyncio.sleep(0.01)  # as if the store were elsewhere
            return await find(target)

        async def counted_many(targets: Sequence[str]) -> list[Run | None]:
            asked.append(len(targets))
            return await find_many(targets)

        started = [await engine.start(gate) for _ in range(WATCHERS)]
        told: list[list[str]] = [[] for _ in started]
        watchers = [
            asyncio.ensure_future(_statuses(engine, one.run_id, into)) for one, into in zip(started, told, strict=True)
        ]
        await asyncio.sleep(0.7)  # longer than a pause of so many: all of them listen now
        monkeypatch.setattr(views, "find", find_slowly)
        monkeypatch.setattr(views, "find_many", counted_many)
        engine.runs._watches._changes._heard(Hint(HintKind.CHANGED))
        async with asyncio.timeout(30):
            while max(asked, default=0) <= WATCHERS // 2:  # noqa: ASYNC110  only the store knows
                await asyncio.sleep(0.01)
        await asyncio.gather(*(engine.signal(one.run_id, "go") for one in started))
        await asyncio.gather(*watchers)

    assert [one[-1] for one in told] == ["completed"] * WATCHERS
    assert watches.POLL_RATE.watchers == 0


async def test_a_watcher_that_leaves_is_called_no_more(tmp_path: Path) -> None:
    async with Engine(f"sqlite:///{tmp_path}/x.db", workflows=[gate]) as engine:
        started = await engine.start(gate)
        first, second = engine.runs.watch(started.run_id), engine.runs.watch(started.run_id)
        assert await anext(first) == await anext(second)
        await first.aclose()
        await engine.signal(started.run_id, "go")
        seen = [run.status async for run in second]

        assert seen[-1] == "completed"
        assert not engine.runs._watches._changes._waiting


async def test_a_watch_yields_the_run_only_when_it_has_changed(tmp_path: Path) -> None:
    async with Engine(f"sqlite:///{tmp_path}/x.db", workflows=[gate]) as engine:
        started = await engine.start(gate)
        watching = engine.runs.watch(started.run_id)
        seen: list[RunView] = []

        async def collect() -> None:
            async for run in watching:
                seen.append(run)

        task = asyncio.ensure_future(collect())
        await asyncio.sleep(2.5)  # two seconds without a change
        quiet = len(seen)
        await engine.signal(started.run_id, "go")
        await task

    assert all(isinstance(run, RunView) for run in seen)
    assert all(one != next_one for one, next_one in itertools.pairwise(seen[:quiet]))
    assert seen[-1].status == "completed"


def test_pauses_end_at_moments_that_many_share() -> None:
    pace = watches.PollRate()
    pace.watchers = 200

    ends = {round(now + pace.rest(now), 6) for now in (10.001, 10.02, 10.05, 10.099)}

    assert len(ends) == 1
    assert all(pace.rest(now) >= pace.pause() for now in (0.0, 0.3, 7.77))
