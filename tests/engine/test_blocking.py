"""Code that blocks the event loop is named; records of ctx.log have a place; a history has a limit."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, RunPaused, SyncContext, WorkerSettings, step, workflow
from stepwell.logs import JsonFormatter
from stepwell.worker import blocking


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "BLOCKED_SECONDS", 0.05)


def busy(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@step
async def hog() -> str:
    busy(0.4)
    return "done"


@step
def threaded() -> str:
    time.sleep(0.3)
    return "done"


@step
async def polite() -> str:
    await asyncio.sleep(0.3)
    return "done"


@workflow
async def hogging(ctx: Context) -> str:
    return await ctx.step(hog)


@workflow
async def busy_code(ctx: Context) -> str:
    busy(0.4)
    return "done"


@workflow
async def quiet(ctx: Context) -> str:
    await ctx.step(threaded)
    return await ctx.step(polite)


@pytest.mark.parametrize(("flow", "what", "path"), [(hogging, "step hog", "hog"), (busy_code, "workflow", None)])
async def test_what_blocks_the_loop_is_named_with_its_stack(
    flow: Any, what: str, path: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "stepwell.worker"):
        async with Engine("memory:", workflows=[flow]) as engine:
            run = await engine.start(flow, key="k")
            assert await run.result("60s") == "done"

    records = [record for record in caplog.records if "SW140" in record.getMessage()]
    assert len(records) == 1
    text = records[0].getMessage()
    assert what in text
    assert run.run_id in text
    assert "in busy" in text
    assert "write the step as `def`" in text or "move the call into a step" in text
    assert (records[0].run, records[0].key, records[0].path) == (run.run_id, "k", path)  # type: ignore[attr-defined]


async def test_a_step_that_blocks_nothing_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "stepwell.worker"):
        async with Engine("memory:", workflows=[quiet]) as engine:
            assert await (await engine.start(quiet)).result("60s") == "done"

    assert not [record for record in caplog.records if "SW140" in record.getMessage()]


@workflow
async def talking(ctx: Context) -> str:
    ctx.log.warning("at the top", extra={"path": "my own"})

    async def inner(ctx: Context, number: int) -> int:
        ctx.log.warning("item %d", number)
        return number

    await ctx.map("rows", inner, [7])
    return "done"


@workflow
def plain_talking(ctx: SyncContext) -> str:
    ctx.log.warning("plain")
    return "done"


async def test_records_of_the_code_say_where_they_come_from(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "stepwell.workflow"):
        async with Engine("memory:", workflows=[talking, plain_talking]) as engine:
            run = await engine.start(talking, key="k")
            await run.result("60s")
            plain = await engine.start(plain_talking)
            await plain.result("60s")

    top, item, other = [record for record in caplog.records if record.name == "stepwell.workflow"]
    assert (top.run, top.key, top.workflow, top.path) == (run.run_id, "k", "talking", "my own")  # type: ignore[attr-defined]
    assert (item.run, item.path) == (run.run_id, "rows/~0")  # type: ignore[attr-defined]
    assert other.run == plain.run_id  # type: ignore[attr-defined]
    assert f'"run": "{run.run_id}"' in JsonFormatter().format(item)


async def one(number: int) -> int:
    return number


@workflow
async def long(ctx: Context) -> int:
    for number in range(30):
        await ctx.step(f"one {number}", one, number)
    return 30


async def test_a_run_with_too_long_a_history_is_warned_of_and_then_paused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/long.db"
    with caplog.at_level(logging.WARNING, "stepwell.worker"):
        async with Engine(url, workflows=[long], settings=WorkerSettings(entries_max=20)) as engine:
            run = await engine.start(long)
            with pytest.raises(RunPaused, match="has 21 entries") as paused:
                await run.result("60s")
    assert "entries_max=40" in paused.value.fix
    assert [record for record in caplog.records if "has 17 entries" in record.getMessage()]

    async with Engine(url, workflows=[long], settings=WorkerSettings(entries_max=100)) as engine:
        await engine.holds.resume(run.run_id)
        assert await engine.result(run.run_id, timeout="60s") == 30
