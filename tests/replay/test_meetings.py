"""What happens where two features meet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, StepContext, Transaction, done, step, timer, workflow
from tests.cases.harness import Harness
from tests.cases.stores import STORES


@pytest.fixture(params=["live", "yield"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_signals_seen_before_a_transactional_step_are_consumed_by_the_next_work_though_its_worker_dies(mode: str):
    harness = Harness(STORES["sqlite"](), mode)

    @step(transaction=True)
    def write(tx: Transaction) -> str:
        return "written"

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        seen = ctx.signals.latest("news")
        written = await ctx.step(write)
        await ctx.once("used", lambda: True)
        return [seen.payload if seen else None, written]

    client = await harness.client()
    run = await client.start(flow, key="k")
    await client.signal("k", "news", "sunny")
    worker = await harness.worker(flow, lease="5s")

    async def die(name: str) -> None:
        if name == "transactions.perform":
            worker.crash()

    worker.wire.after = die
    await harness.drain()
    await harness.worker(flow, lease="5s", sweep_every="1s")
    await harness.advance("30s")

    assert await harness.result(run) == ["sunny", "written"]
    assert await client.do(client.engine.signals.list_unread(run.run_id)) == []
    await harness.close()


async def test_a_child_that_is_awaited_again_is_another_wait_with_a_limit_of_its_own(mode: str):
    harness = Harness(STORES["sqlite"](), mode)

    @workflow
    async def slow(ctx: Context) -> str:
        await ctx.sleep("long", "15s")
        return "slow"

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        child = ctx.child(slow)
        first = await ctx.wait_any(child=done(child), late=timer("6s"))
        return [first.label, await child]

    worker = await harness.worker(flow, slow)
    run = await worker.start(flow, max_suspend="10s")
    await harness.advance("1m")

    assert await harness.result(run) == ["late", "slow"]
    await harness.close()


async def test_what_comes_while_a_transaction_is_on_its_way_is_recorded_after_it(mode: str):
    harness = Harness(STORES["sqlite"](), mode)

    @step(transaction=True)
    def write(tx: Transaction) -> str:
        return "written"

    async def waits(ctx: Context) -> str:
        await ctx.sleep("short", 0.2)
        return "waited"

    async def writes(ctx: Context) -> str:
        return await ctx.step(write)

    @workflow
    async def flow(ctx: Context) -> dict[str, Any]:
        return await ctx.join("both", {"waits": waits, "writes": writes})

    worker = await harness.worker(flow)

    async def take_long(name: str) -> None:
        if name == "transactions.perform":
            await asyncio.sleep(1)

    worker.wire.before = take_long
    run = await worker.start(flow)
    await harness.advance("20s")

    assert await harness.result(run) == {"waits": "waited", "writes": "written"}
    assert [entry.path for entry in await harness.history(run)][:2] == ["both/writes/write", "both/waits/short"]
    await harness.close()


async def test_what_a_loser_of_a_race_said_last_is_not_kept(mode: str):
    harness = Harness(STORES["sqlite"](), mode)

    async def beats(info: StepContext) -> None:
        for number in range(100):
            info.heartbeat(number)  # the first is written at once, the others within a second
            await asyncio.sleep(0.1)

    async def lasts() -> str:
        await asyncio.sleep(0.55)
        return "won"

    async def loser(ctx: Context) -> None:
        await ctx.step(beats)

    async def winner(ctx: Context) -> str:
        return await ctx.step(lasts)

    @workflow
    async def flow(ctx: Context) -> Any:
        won = await ctx.race("race", {"loser": loser, "winner": winner})
        await ctx.receive("go")
        return won.value

    worker = await harness.worker(flow)
    run = await worker.start(flow, key="k")
    await harness.advance("10s")

    view = await harness.status(run)
    assert (view.status, view.progress) == ("waiting", ())
    await worker.signal("k", "go")
    await harness.advance("10s")
    assert await harness.result(run) == "won"
    await harness.close()
