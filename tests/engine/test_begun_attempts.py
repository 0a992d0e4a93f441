"""Bodies whose worker is lost: a stall before their timeout has passed, an attempt after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Context, Retry, RunFailed, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES

QUICK: dict[str, Any] = {"lease": "10s", "sweep_every": "1s"}


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def harness(mode: str, request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    harness = Harness(STORES[request.param](), mode)
    yield harness
    await harness.close()


def hanging(ledger: Ledger) -> Any:
    async def hang() -> str:
        ledger.note("hang")
        if ledger.lines.count("hang") == 1:
            await asyncio.Event().wait()
        return "done"

    return hang


@pytest.mark.parametrize("position", ["first", "later"])
async def test_past_its_timeout_the_only_attempt_is_not_repeated(harness: Harness, ledger: Ledger, position: str):
    @workflow
    async def flow(ctx: Context) -> str:
        if position == "later":
            await ctx.step("before", ledger.body("before"))
        return await ctx.step(step(hanging(ledger), timeout="3s", retry=Retry(max_attempts=1)))

    lost = await harness.worker(flow, **QUICK)
    run = await lost.start(flow)
    await harness.advance("1s")
    lost.crash()
    await harness.worker(flow, **QUICK)
    await harness.advance("1m")

    with pytest.raises(RunFailed, match="its worker was lost while it ran, and its limit of 0:00:03 has passed"):
        await harness.result(run)
    assert ledger.lines.count("hang") == 1
    entry = (await harness.history(run))[-1]
    assert (entry.path, entry.status, entry.attempts) == ("hang", "failed", 1)


async def test_it_is_run_again_if_the_policy_has_another_attempt(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(step(hanging(ledger), timeout="3s"))

    lost = await harness.worker(flow, **QUICK)
    run = await lost.start(flow)
    await harness.advance("1s")
    lost.crash()
    await harness.worker(flow, **QUICK)
    await harness.advance("1m")

    assert await harness.result(run) == "done"
    [entry] = await harness.history(run)
    assert (entry.attempts, [each.error[:12] for each in entry.failed_attempts]) == (2, ["TimeoutError"])


async def test_before_its_timeout_the_death_of_a_worker_is_no_attempt(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(step(hanging(ledger), timeout="10m", retry=Retry(max_attempts=1)))

    lost = await harness.worker(flow, **QUICK)
    run = await lost.start(flow)
    await harness.advance("1s")
    lost.crash()
    await harness.worker(flow, **QUICK)
    await harness.advance("1m")

    assert await harness.result(run) == "done"
    [entry] = await harness.history(run)
    assert (entry.attempts, entry.failed_attempts) == (1, ())


async def test_a_worker_that_leaves_in_order_uses_up_no_attempt(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.receive("go")
        await ctx.step("before", ledger.body("before"))
        return await ctx.step(step(hanging(ledger), timeout="30s", retry=Retry(max_attempts=1)))

    ledger.note("hang")  # so that it does not hang here
    leaving = await harness.worker(flow, **QUICK)
    run = await leaving.start(flow)
    await harness.drain()
    left: list[asyncio.Task[None]] = []

    async def leave(name: str) -> None:
        if name == "runs.apply" and "before" in ledger.lines and not left:
            left.append(asyncio.create_task(leaving.shutdown()))
            await asyncio.sleep(0.001)

    leaving.wire.before = leave
    await leaving.signal(run.run_id, "go")
    await harness.advance("1m")
    await left[0]
    assert ledger.lines == ["hang", "before"]
    harness.nodes.remove(leaving)
    await harness.advance("1h")
    await harness.worker(flow, **QUICK)
    await harness.advance("1m")

    assert await harness.result(run) == "done"


async def test_a_run_that_takes_its_workers_down_names_the_step_that_had_begun(harness: Harness, ledger: Ledger):
    async def deadly() -> None:
        ledger.note("deadly")
        await asyncio.Event().wait()

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("harmless", ledger.body("harmless"))
        await ctx.step(deadly)

    worker = await harness.worker(flow, **QUICK)
    run = await worker.start(flow)
    for _ in range(5):
        await harness.advance("1s")
        worker.crash()
        worker = await harness.worker(flow, **QUICK)
        await harness.advance("15s")

    view = await harness.status(run)
    assert ledger.lines == ["harmless", *["deadly"] * 5]
    assert view.status == "paused"
    assert view.failure is not None
    assert view.failure.path == "deadly"


async def test_the_beginning_of_a_step_is_forgotten_with_its_result(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step(step(ledger.body("timed"), name="timed", timeout="10m"))
        return await ctx.step(hanging(ledger))

    lost = await harness.worker(flow, **QUICK)
    run = await lost.start(flow)
    await harness.advance("1s")
    lost.crash()
    worker = await harness.worker(flow, **QUICK)
    await harness.advance("1m")

    assert await harness.result(run) == "done"
    assert (await worker.do(worker.engine.runs.detail(run.run_id))).history.attempts == ()


async def test_a_step_that_ran_at_most_once_and_is_done_has_no_unknown_attempt(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step(step(ledger.body("charge"), name="charge", at_most_once=True))
        await ctx.receive("go")
        return "done"

    worker = await harness.worker(flow, **QUICK)
    run = await worker.start(flow)
    await harness.drain()

    [entry] = await harness.history(run)
    assert (entry.path, entry.status, entry.attempts, entry.failed_attempts) == ("charge", "done", 1, ())

    await worker.do(worker.engine.repairs.rewind(run.run_id, "charge"))
    await harness.drain()

    [entry] = await harness.history(run)
    assert (entry.status, entry.attempts, ledger.lines) == ("done", 2, ["charge", "charge"])
    assert [each.error for each in entry.failed_attempts] == ["Rewound: the result was dropped"]


async def test_a_step_whose_result_is_supplied_has_no_unknown_attempt(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(step(hanging(ledger), name="charge", at_most_once=True))

    lost = await harness.worker(flow, **QUICK)
    run = await lost.start(flow)
    await harness.advance("1s")
    lost.crash()
    worker = await harness.worker(flow, **QUICK)
    await harness.advance("1m")
    [entry] = await harness.history(run)
    assert [each.error for each in entry.failed_attempts] == ["started, outcome unknown"]

    await worker.do(worker.engine.repairs.skip(run.run_id, "charge", result="charged"))
    await harness.drain()

    assert await harness.result(run) == "charged"
    [entry] = await harness.history(run)
    assert (entry.status, entry.failed_attempts) == ("done", ())


async def test_the_beginning_of_a_step_whose_result_is_supplied_is_no_attempt(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(step(hanging(ledger), name="charge", timeout="10m"))

    @workflow
    async def other(ctx: Context) -> None: ...

    lost = await harness.worker(flow, **QUICK)
    run = await lost.start(flow)
    await harness.advance("1s")
    lost.crash()
    rescuer = await harness.worker(other, **QUICK)
    await harness.advance("1m")
    await rescuer.do(rescuer.engine.repairs.skip(run.run_id, "charge", result="charged"))
    await harness.worker(flow, **QUICK)
    await harness.drain()

    assert await harness.result(run) == "charged"
    [entry] = await harness.history(run)
    assert (entry.status, entry.attempts, entry.failed_attempts) == ("done", 0, ())


async def test_why_names_the_failure_of_the_step_that_is_tried_again(harness: Harness, ledger: Ledger):
    def failing(text: str, name: str, initial: str) -> Any:
        async def fail() -> None:
            raise ValueError(text)

        return step(fail, name=name, retry=Retry(initial=initial, max_attempts=2))

    @workflow
    async def flow(ctx: Context) -> None:
        first = asyncio.ensure_future(ctx.step(failing("of the first", "first", "1h")))
        await asyncio.gather(first, ctx.step(failing("of the second", "second", "1h")))

    worker = await harness.worker(flow, **QUICK)
    run = await worker.start(flow)
    await harness.drain()

    why = await worker.do(worker.engine.explain(run.run_id))
    words = [cause.sentence for cause in why.chain]
    assert [each[each.index(", after") :] for each in words] == [
        ", after ValueError: of the first",
        ", after ValueError: of the second",
    ]
