"""Continuing as new: from anywhere in the code, with everything that is not consumed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from stepwell import Context, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def leave(ctx: Context) -> None:
    await ctx.sleep("pause", "2s")
    ctx.continue_as_new(1)


async def from_a_join(ctx: Context) -> None:
    await ctx.join("j", {"leave": leave, "other": lambda c: c.receive("never")})


async def from_a_race(ctx: Context) -> None:
    await ctx.race("r", {"leave": leave, "other": lambda c: c.receive("never")})


async def from_a_loop(ctx: Context) -> None:
    async def body(ctx: Context, state: int) -> Any:
        await leave(ctx)

    await ctx.loop("l", body, 0)


async def from_a_gather(ctx: Context) -> None:
    await asyncio.gather(leave(ctx), ctx.receive("never"))


async def from_a_task_group(ctx: Context) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(leave(ctx))
        group.create_task(ctx.receive("never"))


async def from_a_map(ctx: Context) -> None:
    async def item(ctx: Context, number: int) -> None:
        await (leave(ctx) if number == 1 else ctx.receive("never"))

    await ctx.map("m", item, [0, 1, 2])


async def from_a_nested_join(ctx: Context) -> None:
    await ctx.join("outer", {"inner": from_a_join})


PLACES = [
    from_a_join,
    from_a_race,
    from_a_loop,
    from_a_gather,
    from_a_task_group,
    from_a_map,
    from_a_nested_join,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
async def test_a_run_continues_from_anywhere_in_its_code(harness: Harness, place: Any):
    @workflow
    async def flow(ctx: Context, round: int) -> int:
        if round == 0:
            await place(ctx)
        return round

    worker = await harness.worker(flow)
    run = await worker.start(flow, 0)
    await harness.advance("1m")

    assert await harness.result(run) == 1
    assert (await harness.status(run)).status == "continued"


async def test_unread_signals_move_along_and_consumed_ones_do_not(harness: Harness):
    @workflow
    async def flow(ctx: Context, got: list[int]) -> list[int]:
        got = [*got, (await ctx.receive("m")).payload]
        if len(got) < 3:
            ctx.continue_as_new(got)
        return got

    worker = await harness.worker(flow)
    run = await worker.start(flow, [], key="k")
    for number in range(3):
        await worker.signal("k", "m", number)
    await harness.drain()

    assert await harness.result(run) == [0, 1, 2]


async def test_a_successor_knows_both_times_of_its_predecessor(harness: Harness):
    @workflow
    async def flow(ctx: Context, round: int) -> list[Any]:
        before = ctx.previous
        if round == 0:
            assert before is None
            await ctx.sleep("pause", "1h")
            ctx.continue_as_new(1)
        assert before is not None
        return [
            ctx.generation,
            before.run_id,
            before.finished_at - before.started_at,
            ctx.started_at >= before.finished_at,
        ]

    worker = await harness.worker(flow)
    run = await worker.start(flow, 0)
    await harness.advance("2h")

    result = await run.result()
    assert result[:2] == [2, run.run_id]
    assert result[3] is True
    view = await harness.status(run)
    assert view.started_at is not None
    assert view.ended_at == view.started_at + timedelta(hours=1)


async def test_a_finally_around_it_still_runs_its_steps(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context, round: int) -> int:
        try:
            if round == 0:
                ctx.continue_as_new(1)
        finally:
            await ctx.step("clean up", ledger.body(f"clean up {round}"))
        return round

    worker = await harness.worker(flow)
    run = await worker.start(flow, 0)
    await harness.drain()

    assert await harness.result(run) == 1
    assert ledger.lines == ["clean up 0", "clean up 1"]


async def test_an_input_that_does_not_fit_fails_the_predecessor(harness: Harness):
    @workflow
    async def flow(ctx: Context, round: int) -> int:
        ctx.continue_as_new("not a number")

    worker = await harness.worker(flow)
    run = await worker.start(flow, 0, key="k")
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.type, view.successor) == ("failed", "InvalidInputError", None)


async def test_a_child_that_continues_gives_its_parent_the_last_result(harness: Harness):
    @workflow
    async def child(ctx: Context, round: int) -> str:
        await ctx.sleep("pause", "1m")
        if round < 2:
            ctx.continue_as_new(round + 1)
        return f"round {round}"

    @workflow
    async def parent(ctx: Context) -> str:
        return await ctx.child(child, 0)

    worker = await harness.worker(parent, child)
    run = await worker.start(parent)
    await harness.advance("10m")

    assert await harness.result(run) == "round 2"
