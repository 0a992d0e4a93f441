"""What a worker counts while it works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from stepwell import Context, Engine, Fatal, Retry, RunFailed, WorkerSettings, step, workflow
from stepwell.hooks import Metrics
from stepwell.model.runs import NewRun
from stepwell.telemetry.metrics import render

TRIES: list[int] = []


@step(retry=Retry(max_attempts=3, initial=0.001))
async def flaky() -> str:
    TRIES.append(1)
    if len(TRIES) < 3:
        raise ValueError("not yet")
    return "done"


@step
async def give_up() -> None:
    raise Fatal("never")


@workflow
async def patient(ctx: Context) -> str:
    await ctx.receive("go")
    return await ctx.step(flaky)


@workflow
async def hopeless(ctx: Context) -> None:
    await ctx.step(give_up)


@workflow
async def dozing(ctx: Context) -> None:
    await ctx.sleep("nap", 0.01)


@asynccontextmanager
async def engine_with(*observers: Any, path: Path) -> AsyncIterator[Engine]:
    async with Engine(
        f"sqlite:///{path}/metrics.db",
        workflows=[patient, hopeless, dozing],
        hooks=observers,
        settings=WorkerSettings(hold_max=0),
    ) as engine:
        yield engine


async def samples(engine: Engine) -> dict[str, float]:
    text = render(await engine.figures())
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def until(engine: Engine, name: str, value: float) -> dict[str, float]:
    async with asyncio.timeout(20):
        while (found := await samples(engine)).get(name) != value:  # noqa: ASYNC110  other tasks count
            await asyncio.sleep(0.01)
    return found


async def test_starts_ends_bodies_retries_and_resumes_are_counted(tmp_path: Path) -> None:
    TRIES.clear()
    async with engine_with(Metrics(), path=tmp_path) as engine:
        waiting = await engine.start(patient)
        failing = await engine.start(hopeless)
        with pytest.raises(RunFailed):
            await failing.result()
        before = await until(engine, 'stepwell_runs{status="waiting"}', 1)
        assert before["stepwell_worker_runs"] == 0
        assert before["stepwell_resume_seconds_count"] == 0
        await waiting.signal("go")
        await waiting.result()
        await (await engine.start(dozing)).result()
        found = await until(engine, "stepwell_worker_runs", 0)

    assert found['stepwell_runs_started_total{workflow="patient"}'] == 1
    assert found['stepwell_runs_ended_total{workflow="patient",status="completed"}'] == 1
    assert found['stepwell_runs_ended_total{workflow="hopeless",status="failed"}'] == 1
    assert found['stepwell_bodies_total{workflow="patient",outcome="failed"}'] == 2
    assert found['stepwell_bodies_total{workflow="patient",outcome="succeeded"}'] == 1
    assert found['stepwell_bodies_total{workflow="hopeless",outcome="failed"}'] == 1
    assert found['stepwell_retries_total{workflow="patient"}'] == 2
    assert found["stepwell_resume_seconds_count"] >= 2
    assert found["stepwell_commit_runs_count"] == found["stepwell_commit_seconds_count"] > 0
    assert found["stepwell_commit_entries_total"] >= 4
    assert found['stepwell_runs{status="waiting"}'] == 0
    assert found["stepwell_workers_alive"] == 1


async def test_a_replay_counts_no_body_again(tmp_path: Path) -> None:
    TRIES.clear()
    TRIES.extend([1, 1])
    async with engine_with(Metrics(), path=tmp_path) as engine:
        run = await engine.start(patient)
        await run.signal("go")
        await run.result()
    async with engine_with(metrics := Metrics(), path=tmp_path) as engine:
        await engine.start(hopeless)
        await until(engine, 'stepwell_runs_ended_total{workflow="hopeless",status="failed"}', 1)
        assert not [name for name in await samples(engine) if "patient" in name]
        assert metrics.read()


async def test_runs_that_nobody_claims_are_the_depth_of_the_queue(tmp_path: Path) -> None:
    async with Engine(f"sqlite:///{tmp_path}/metrics.db", workflows=[patient], worker=False) as engine:
        await engine.start(patient)
        await engine.start(patient, delay="1h")
        found = await samples(engine)
    assert found["stepwell_ready_runs"] == 1
    assert found["stepwell_ready_oldest_seconds"] >= 0
    assert found['stepwell_runs{status="pending"}'] == 2
    assert found["stepwell_workers_alive"] == 0


async def test_an_observer_that_breaks_is_logged_and_hurts_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ValueError(f"{name} is broken")

    TRIES.clear()
    with caplog.at_level(logging.ERROR, "stepwell.worker"):
        async with engine_with(Broken(), metrics := Metrics(), path=tmp_path) as engine:
            run = await engine.start(patient)
            await run.signal("go")
            assert await run.result() == "done"
            found = await until(engine, 'stepwell_runs_ended_total{workflow="patient",status="completed"}', 1)
    assert found['stepwell_bodies_total{workflow="patient",outcome="succeeded"}'] == 1
    assert "observer Broken failed" in caplog.text
    assert metrics.read()


async def test_an_observer_can_add_tags_to_a_run_that_starts_and_change_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Meddling(Metrics):
        def starting(self, new: NewRun) -> NewRun:
            return new._replace(tags=(("team", "shop"),), key="theirs", priority=7)

    class Forgetful(Metrics):
        def starting(self, new: NewRun) -> NewRun:
            return cast("NewRun", None)

    with caplog.at_level(logging.ERROR, "stepwell.worker"):
        async with engine_with(Meddling(), Forgetful(), path=tmp_path) as engine:
            run = await engine.start(patient, key="ours")
            view = await run.status()
    assert (view.key, view.priority, view.tags) == ("ours", 0, {"team": "shop"})
    assert "observer Forgetful failed" in caplog.text
