"""What a run costs, counted in transactions: the figures that do not depend on the machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stepwell import Context, Engine, Workflow, step, workflow
from stepwell.environment import system_environment
from stepwell.sinks import EmittedEvent, handler
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.writer import Writer


@step
async def tick(number: int) -> int:
    return number + 1


numbered = tick
later = tick.options(name="later", durability="deferred")


@workflow
async def sequence(ctx: Context, steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = await ctx.step(numbered, number)
    return number


@workflow
async def deferred(ctx: Context, steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = await ctx.step(later, number)
    return number


@workflow
async def fan_out(ctx: Context, width: int) -> int:
    return sum(await asyncio.gather(*(ctx.step(numbered, number) for number in range(width))))


@workflow
async def waits(ctx: Context) -> str:
    return str((await ctx.receive("go")).payload)


@workflow
async def parent(ctx: Context) -> int:
    return await ctx.child(sequence, 1)


@workflow
async def emitting(ctx: Context, steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = await ctx.step(numbered.options(emits="ticked"), number)
        await ctx.emit("tick", number)
    return number


@asynccontextmanager
async def counted(path: Path, **options: Any) -> AsyncIterator[tuple[Engine, SqliteDatabase]]:
    environment, database = system_environment(), SqliteDatabase(str(path / "costs.db"))
    store = SqliteStore(environment, path / "costs.db", runner=Writer(database))
    workflows: list[Workflow[Any, Any]] = [sequence, deferred, fan_out, waits, parent, emitting]
    async with Engine(store, workflows=workflows, environment=environment, **options) as engine:
        yield engine, database


async def test_a_one_step_run_costs_two_commits(tmp_path: Path) -> None:
    async with counted(tmp_path) as (engine, database):
        before = database.commits
        assert await (await engine.start(sequence, 1)).result("60s") == 1

        assert database.commits - before == 2


async def test_sequential_steps_cost_one_commit_each_and_one_for_the_start(tmp_path: Path) -> None:
    async with counted(tmp_path) as (engine, database):
        before = database.commits
        assert await (await engine.start(sequence, 20)).result("60s") == 20

        assert database.commits - before == 21


async def test_deferred_steps_cost_no_commit_of_their_own(tmp_path: Path) -> None:
    async with counted(tmp_path) as (engine, database):
        before = database.commits
        assert await (await engine.start(deferred, 20)).result("60s") == 20

        assert database.commits - before == 2


async def test_steps_that_end_together_share_their_commits(tmp_path: Path) -> None:
    async with counted(tmp_path) as (engine, database):
        before = database.commits
        assert await (await engine.start(fan_out, 100)).result("60s") == 5050

        assert database.commits - before <= 4


async def test_a_signal_to_a_run_that_waits_here_wakes_it_in_its_own_transaction(tmp_path: Path) -> None:
    async with counted(tmp_path) as (engine, database):
        run = await engine.start(waits)
        while (await run.status()).status != "waiting":  # noqa: ASYNC110  it parks by itself, within a few rounds
            await asyncio.sleep(0)
        before = database.commits
        await run.signal("go", "now")
        assert await run.result("60s") == "now"

        # The signal with its wake-up and claim; what was received, with the end of the run.
        assert database.commits - before == 2


async def test_a_child_is_started_and_claimed_with_its_parents_own_commit(tmp_path: Path) -> None:
    async with counted(tmp_path) as (engine, database):
        before = database.commits
        assert await (await engine.start(parent)).result("60s") == 1

        # Start; park with the child started; the child's end with the parent's wake-up; claim; the parent's end.
        assert database.commits - before <= 6


async def test_emitting_costs_no_commit_of_its_own(tmp_path: Path) -> None:
    async def never(event: EmittedEvent) -> None:
        await asyncio.sleep(60)

    async with counted(tmp_path, sinks=[handler(never)], lifecycle=True) as (engine, database):
        # Nothing is handed over while it is counted: another process does that, whenever it likes.
        assert engine._worker is not None
        for relay in engine._worker._relays:
            await relay.drain(0.0)
        before = database.commits
        assert await (await engine.start(emitting, 20)).result("60s") == 20

        assert database.commits - before == 21
        assert len(await engine.outbox.list_pending()) == 41
