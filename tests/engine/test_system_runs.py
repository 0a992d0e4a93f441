"""System runs are left out of listings, unless they are asked for."""

from __future__ import annotations

from stepwell import Context, workflow
from tests.cases.harness import Harness


@workflow
async def listening(ctx: Context) -> None:
    await ctx.receive("go")


async def test_acts_on_many_runs_are_listed_only_on_request(harness: Harness) -> None:
    worker = await harness.worker(listening)
    runs = [await worker.start(listening) for _ in range(3)]
    await harness.drain()
    for _ in range(2):
        await worker.do(worker.engine.bulks.start("pause", "workflow:listening", by="ann"))
        await harness.advance("5s")
    listing = worker.engine.runs.list
    own = [run.run_id for run in reversed(runs)]

    assert [run.run_id for run in await worker.do(listing())] == own
    first = await worker.do(listing(limit=2))
    assert [run.run_id for run in first] == own[:2]
    assert [run.run_id for run in await worker.do(listing(limit=2, before=first[-1].run_id))] == own[2:]
    assert [run.workflow for run in await worker.do(listing("workflow:stepwell.bulk"))] == ["stepwell.bulk"] * 2
    everything = await worker.do(listing(include_system=True))
    assert sorted({run.workflow for run in everything}) == ["listening", "stepwell.bulk"]
    assert len(everything) == 5
