"""A store that refuses for a while: everything goes on afterwards, and no body runs twice for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.errors import (
    ForeignFileError,
    SchemaMismatchError,
    SchemaMissingError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    StoreNotWritableError,
    StoreUnavailableError,
)
from stepwell.ids import RunId
from stepwell.model.workers import Claimant
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

PASSING = (
    StoreError,
    StoreUnavailableError,
    StoreFullError,
    SchemaMissingError,
    SchemaMismatchError,
    ForeignFileError,
    StoreNotWritableError,
    StoreAccessError,
)


@pytest.mark.parametrize("hook", ["before", "after"])
@pytest.mark.parametrize("error", PASSING)
async def test_after_a_store_that_refused_every_run_completes_and_no_body_ran_twice(
    harness: Harness, ledger: Ledger, error: type[StoreError], hook: str
):
    async def work(name: str) -> str:
        ledger.note(name)
        await asyncio.sleep(0.05)
        return name

    @workflow
    async def flow(ctx: Context, name: str) -> str:
        for number in range(10):
            await ctx.step(f"work {number}", work, name)
        await ctx.sleep("pause", "1500ms")
        return await ctx.step("last", work, name)

    worker = await harness.worker(flow, lease="10s", sweep_every="1s")
    runs = [await worker.start(flow, f"r{number}") for number in range(8)]
    await harness.advance("200ms")

    async def refuse(_: str) -> None:
        raise error("not now")

    was = getattr(worker.wire, hook)
    setattr(worker.wire, hook, refuse)
    await harness.advance("2s")
    setattr(worker.wire, hook, was)
    await harness.advance("20s")

    statuses = [await worker.do(worker.engine.status(run.run_id)) for run in runs]
    assert [status.status for status in statuses if status is not None] == ["completed"] * 8
    assert Counter(ledger.lines) == {f"r{number}": 11 for number in range(8)}


async def test_a_start_while_the_store_refuses_succeeds_afterwards(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        return "done"

    worker = await harness.worker(flow)

    async def refuse(_: str) -> None:
        raise SchemaMissingError("not now")

    was, worker.wire.before = worker.wire.before, refuse
    starting = asyncio.ensure_future(worker.start(flow))
    await harness.advance("2s")
    assert not starting.done()
    worker.wire.before = was
    await harness.advance("2s")

    assert await harness.result(await starting) == "done"


async def test_runs_that_a_worker_owns_without_knowing_are_given_back_within_a_lease(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        return "done"

    @workflow
    async def busy(ctx: Context) -> None:
        for number in range(1_000):
            await ctx.step(f"work {number}", nothing)

    async def nothing() -> None:
        await asyncio.sleep(0.01)

    worker, client = await harness.worker(flow, busy, lease="10s"), await harness.client()
    await worker.start(busy)
    worker.wire.drops_hints = True
    known = worker.engine._worker
    assert known is not None
    run = await client.start(flow)
    claimant = Claimant(known.lease.incarnation, 1, ("flow@1",))
    claimed = await worker.wire.behind.runs.claim(claimant)
    assert [each.run.run_id for each in claimed] == [run.run_id]
    await harness.advance("10s")

    status = await worker.do(worker.engine.status(run.run_id))
    assert status is not None
    assert status.status == "completed"


async def test_a_history_that_cannot_be_read_pauses_its_run_and_no_other(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> Any:
        return (await ctx.receive("go")).payload

    first = await harness.worker(flow)
    runs = [await first.start(flow) for _ in range(3)]
    await harness.drain()
    await first.shutdown()
    second = await harness.worker(flow)
    load = second.wire.behind.runs.load

    async def broken(run_ids: list[RunId]) -> Any:
        if runs[1].run_id in run_ids:
            raise ValueError("a row that nobody understands")
        return await load(run_ids)

    second.wire.store.runs.load = broken
    for run in runs:
        await second.signal(run.run_id, "go", 1)
    await harness.advance("5s")

    statuses = [await second.do(second.engine.status(run.run_id)) for run in runs]
    assert [status.status for status in statuses if status is not None] == ["completed", "paused", "completed"]
