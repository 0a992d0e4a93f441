"""Leases: what a worker does not begin, and does not record, once its own is over; and what ends no claim."""

from __future__ import annotations

import asyncio
from typing import Any

from stepwell import Context, step, workflow
from stepwell.clock import SECOND
from stepwell.model.commits import Verdict
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def test_a_worker_whose_lease_ran_out_starts_no_body_and_comes_back_as_somebody_new(
    harness: Harness, ledger: Ledger
):
    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.sleep("pause", "1m")
        return str(await ctx.step("work", ledger.body("work", "done")))

    worker = await harness.worker(flow, lease="10s", sweep_every="1s")
    run = await worker.start(flow)
    await harness.drain()
    first = worker.engine._worker
    assert first is not None
    before = first.lease.incarnation
    worker.pause()
    await harness.advance("2m")
    worker.resume()
    await harness.advance("5s")

    assert await harness.result(run) == "done"
    assert first.lease.incarnation != before
    assert ledger.lines == ["work"]


async def test_a_body_that_was_running_when_the_lease_ran_out_commits_nothing(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        name = f"run {len(ledger.lines)}"
        ledger.note(name)
        await asyncio.sleep(30)
        return name

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(slow)

    settings: dict[str, Any] = {"lease": "10s", "sweep_every": "1s"}
    zombie = await harness.worker(flow, **settings)
    run = await zombie.start(flow)
    await harness.advance("5s")
    zombie.pause()
    await harness.worker(flow, **settings)
    await harness.advance("30s")
    zombie.resume()
    await harness.advance("2m")

    assert await harness.result(run) == "run 1"
    assert ledger.lines == ["run 0", "run 1"]
    assert all(applied.verdict is Verdict.APPLIED for _, _, applied in harness.nodes[1].wire.answers)


async def test_a_worker_that_cannot_renew_starts_no_body_after_its_local_deadline(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        for number in range(100):
            await ctx.sleep("tick", "1s")
            await ctx.step("work", step(ledger.body(str(harness.clock.now() // SECOND))))
            assert number >= 0

    worker = await harness.worker(flow, lease="10s", hold_max="5s")
    await worker.start(flow)
    await harness.advance("5s")

    async def no_renewal(name: str) -> None:
        if name == "workers.renew":
            await asyncio.get_running_loop().create_future()

    worker.wire.before = no_renewal
    started = harness.clock.now()
    await harness.advance("1m")

    times = [int(line) for line in ledger.lines]
    assert max(times) * SECOND <= started + 10 * SECOND
    worker.crash()
    await harness.client()


async def test_an_answer_about_the_claim_before_does_not_end_the_next_one(harness: Harness, ledger: Ledger):
    """A look at an owned run was on its way while the run was given up and claimed again: what it tells is over."""

    async def lasts(name: str) -> str:
        ledger.note(name)
        await asyncio.sleep(10)
        return name

    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("first", lasts, "first")
        await ctx.receive("go")
        return await ctx.step("second", lasts, "second")

    worker, client = await harness.worker(flow), await harness.client()
    late: list[str] = []

    async def answer_late(name: str) -> None:
        if name == "views.find" and not late:
            late.append(name)
            await asyncio.sleep(12)

    run = await worker.start(flow)
    await harness.advance("5s")
    worker.wire.after = answer_late
    await client.signal(
        run.run_id, "news"
    )  # the worker looks at the run, and hears of it when it is in its second step
    await harness.advance("6s")
    await client.signal(run.run_id, "go")
    await harness.advance("1m")

    assert late == ["views.find"]
    assert await harness.result(run) == "second"
    assert ledger.lines == ["first", "second"]
