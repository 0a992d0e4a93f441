"""An operator's retry reaches what made the run fail, wherever it stands."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from stepwell import Context, Engine, Retry, RunFailed, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

ONCE = Retry(max_attempts=1)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/retry.db"


class Outage:
    """A step that fails until the outage is over, and counts its executions."""

    def __init__(self) -> None:
        self.is_over = False
        self.calls: Counter[str] = Counter()

    async def call(self, name: str) -> str:
        self.calls[name] += 1
        if not self.is_over and name == "fails":
            raise OSError("down")
        return name


async def test_a_retry_runs_the_failed_branch_of_a_join_again_and_not_the_others(url: str) -> None:
    outage = Outage()
    body = step(outage.call, name="call", retry=ONCE)

    async def good(ctx: Context) -> str:
        return await ctx.step(body, "works")

    async def bad(ctx: Context) -> str:
        return await ctx.step(body, "fails")

    @workflow(name="joined")
    async def joined(ctx: Context) -> list[str]:
        return sorted((await ctx.join("both", {"good": good, "bad": bad})).values())

    async with Engine(url, workflows=[joined]) as engine:
        run = await engine.start(joined)
        with pytest.raises(RunFailed):
            await run.result("60s")

        outage.is_over = True

        assert await engine.repairs.retry(run.run_id) is True
        assert await run.result("60s") == ["fails", "works"]
        assert outage.calls == {"works": 1, "fails": 2}


async def test_a_retry_reaches_the_failed_child_and_its_failed_step(url: str) -> None:
    outage = Outage()
    body = step(outage.call, name="call", retry=ONCE)

    @workflow(name="inner")
    async def inner(ctx: Context) -> str:
        return await ctx.step(body, "fails")

    @workflow(name="outer")
    async def outer(ctx: Context) -> str:
        await ctx.step("before", outage.call, "works")
        return await ctx.child(inner)

    async with Engine(url, workflows=[inner, outer]) as engine:
        run = await engine.start(outer)
        with pytest.raises(RunFailed):
            await run.result("60s")

        outage.is_over = True

        assert await engine.repairs.retry(run.run_id) is True
        assert await run.result("60s") == "fails"
        assert outage.calls == {"works": 1, "fails": 2}
        assert await engine.repairs.retry(run.run_id) is False


async def test_a_clock_that_is_set_back_after_a_retry_gives_no_further_attempts(harness: Harness, ledger: Ledger):
    async def fails() -> None:
        ledger.note("tried")
        raise ConnectionError("no")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("work", step(fails, retry=Retry(max_attempts=2, initial="1s")))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")
    await worker.do(worker.engine.repairs.retry(run.run_id))
    harness.clock.jump_back("30s")
    await harness.advance("2m")

    assert (await harness.status(run)).status == "failed"
    assert ledger.lines == ["tried"] * 4


async def test_a_clock_that_is_set_back_does_not_repeat_what_may_run_once(harness: Harness, ledger: Ledger):
    async def charge() -> str:
        ledger.note("charged")
        await asyncio.sleep(5)
        if len(ledger.lines) == 1:
            raise ConnectionError("no")
        return "paid"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step("charge", step(charge, at_most_once=True))

    fast: dict[str, Any] = {"lease": "10s", "sweep_every": "1s"}
    worker, client = await harness.worker(flow, **fast), await harness.client()
    run = await worker.start(flow)
    await harness.advance("1m")
    await client.do(client.engine.repairs.retry(run.run_id))
    harness.clock.jump_back("30s")
    await harness.advance("1s")
    assert ledger.lines == ["charged"] * 2
    worker.crash()
    await harness.worker(flow, **fast)
    await harness.advance("5m")

    assert ledger.lines == ["charged"] * 2
    with pytest.raises(RunFailed, match="is unknown"):
        await harness.result(run)


@pytest.mark.parametrize("on_error", ["wait_all", "fail_fast"])
async def test_a_retry_does_an_item_again_that_failed_by_its_own_code(harness: Harness, ledger: Ledger, on_error: Any):
    mistakes = [ValueError("a mistake in the code")]

    async def item(ctx: Context, number: int) -> int:
        await ctx.step("work", lambda: ledger.note(f"work {number}"))
        if number == 1 and mistakes:
            raise mistakes[0]
        return number

    @workflow
    async def mapped(ctx: Context) -> list[int]:
        return await ctx.map("all", item, range(2), limit=1, on_error=on_error)

    worker = await harness.worker(mapped)
    run = await worker.start(mapped)
    await harness.advance("1m")
    assert (await harness.status(run)).status == "failed"

    mistakes.clear()
    assert await worker.do(worker.engine.repairs.retry(run.run_id))
    await harness.advance("1m")

    assert await harness.result(run) == [0, 1]
    assert ledger.lines == ["work 0", "work 1"]
