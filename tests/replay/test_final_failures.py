"""What is told of a step that failed for good, and which `except` clause catches it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Failure, Fatal, Retry, Rollback, RunFailed, StepFailed, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

TWICE = Retry(max_attempts=2, initial="1s")


def raising(error: Any) -> Any:
    async def body() -> None:
        raise error

    return body


async def _never() -> None:
    await asyncio.Event().wait()


async def run_to_its_end(harness: Harness, flow: Any) -> Any:
    """The result, before and after a takeover."""
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10m")
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go", if_missing="drop")
    await harness.advance("1m")
    return await harness.result(run)


async def test_a_tried_step_says_why_it_was_not_tried_again(harness: Harness):
    picky = Retry(max_attempts=5, retry_on=(OSError,))

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        tried = [
            await ctx.try_step("exhausted", step(raising(OSError("down")), retry=TWICE)),
            await ctx.try_step("fatal", step(raising(Fatal("no")), retry=TWICE)),
            await ctx.try_step("other", step(raising(KeyError("no")), retry=picky)),
            await ctx.try_step("planned", step(raising(Failure("sold out", {"left": 0})), retry=TWICE)),
            await ctx.try_step("slow", step(_never, timeout="1s", retry=TWICE)),
            await ctx.try_step("slow again", step(_never, timeout="1s", retry=Retry(max_attempts=2, on_timeout=True))),
            await ctx.try_step("unstorable", step(lambda: object(), retry=TWICE)),
        ]
        await ctx.receive("go")
        return [
            [one.ok, one.kind, one.attempts, one.error and one.error.kind, one.error and one.error.data]
            for one in tried
        ]

    assert await run_to_its_end(harness, flow) == [
        [False, "exhausted", 2, "exhausted", None],
        [False, "critical", 1, "critical", None],
        [False, "critical", 1, "critical", None],
        [False, "failure", 1, "failure", {"left": 0}],
        [False, "timeout", 1, "timeout", None],
        [False, "exhausted", 2, "exhausted", None],
        [False, "critical", 1, "critical", None],
    ]


async def test_a_tried_step_does_not_swallow_a_rollback(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(ledger.body("reserve"), name="reserve", compensate=lambda *_: ledger.note("undone")))
        await ctx.try_step("back", raising(Rollback("enough")))
        ledger.note("went on")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    with pytest.raises(RunFailed):
        await harness.result(run)
    assert ledger.lines == ["reserve", "undone"]


async def test_the_data_of_a_failed_run_is_the_value_that_was_given(harness: Harness):
    @workflow
    async def by_code(ctx: Context) -> None:
        ctx.fail("sold out", {"left": [0, 1], "sku": "X"})

    @workflow
    async def by_step(ctx: Context) -> None:
        await ctx.step("sell", raising(Failure("sold out", {"left": [0, 1], "sku": "X"})))

    worker = await harness.worker(by_code, by_step)
    for flow in (by_code, by_step):
        run = await worker.start(flow)
        await harness.advance("1m")
        with pytest.raises(RunFailed) as caught:
            await harness.result(run)
        assert caught.value.failure is not None
        assert caught.value.failure.data == {"left": [0, 1], "sku": "X"}
        view = await harness.status(run)
        assert view.failure is not None
        assert view.failure.data == {"left": [0, 1], "sku": "X"}


def defined() -> type[Exception]:
    class OutOfStock(Exception):
        pass

    OutOfStock.__qualname__ = "OutOfStock"
    return OutOfStock


async def test_a_class_that_is_defined_again_is_still_caught(harness: Harness):
    first, second = defined(), defined()
    catches = [first]

    @step(raises=[first], retry=Retry(max_attempts=2, initial="1s", give_up_on=(first,)))
    async def sell() -> None:
        raise catches[0]("no pears")

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        try:
            await ctx.step(sell)
        except catches[0] as error:
            await ctx.receive("go")
            return [isinstance(error, StepFailed) and error.attempts, type(error).__name__]
        return []

    worker = await harness.worker(flow)
    older = await worker.start(flow)
    await harness.advance("1m")
    catches[0] = second  # the cell of the class is run again, and no other
    newer = await worker.start(flow)
    await harness.advance("1m")
    worker = await harness.takeover(worker, flow)
    for run in (older, newer):
        await worker.signal(run.run_id, "go")
    await harness.advance("1m")

    assert [await harness.result(run) for run in (older, newer)] == [[1, "StepFailed"]] * 2
    catches[0] = first  # code that was loaded before
    again = await worker.start(flow)
    await worker.signal(again.run_id, "go")
    await harness.advance("1m")
    assert await harness.result(again) == [1, "StepFailed"]
