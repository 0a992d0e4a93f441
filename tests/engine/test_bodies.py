"""What step bodies see of each other when one task runs several of them."""

from __future__ import annotations

import asyncio
import itertools
from contextvars import ContextVar

from stepwell import Context, step, workflow
from tests.cases.harness import Harness

_MARK: ContextVar[str] = ContextVar("mark", default="none")


async def test_a_body_does_not_see_the_context_variables_of_the_one_before(harness: Harness):
    async def mark(text: str) -> str:
        before = _MARK.get()
        _MARK.set(text)
        return before

    @workflow
    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step(f"s{n}", mark, str(n)) for n in range(4)]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == ["none"] * 4


async def test_a_body_that_cancels_its_task_and_returns_does_not_hurt_the_next(harness: Harness):
    async def cancel_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "returned"

    async def wait() -> str:
        await asyncio.sleep(0.01)
        return "waited"

    @workflow
    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step("first", cancel_itself), await ctx.step("second", wait)]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == ["returned", "waited"]


async def test_a_long_row_of_steps_that_never_wait_leaves_the_loop_to_others(harness: Harness):
    steps, turns, is_over = 0, [], asyncio.Event()

    async def count() -> int:
        nonlocal steps
        steps += 1
        return steps

    numbered = step(count, repeat=True, name="count")

    @workflow
    async def flow(ctx: Context) -> int:
        for _ in range(500):
            last = await ctx.step(numbered)
        is_over.set()
        return last

    async def others() -> None:
        while not is_over.is_set():
            turns.append(steps)
            await asyncio.sleep(0)

    worker = await harness.worker(flow)
    task = asyncio.get_running_loop().create_task(others())
    run = await worker.start(flow)
    await harness.drain()
    await task

    assert await harness.result(run) == 500
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 40
