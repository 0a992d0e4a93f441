"""Parked runs go on by themselves when code that fits them is deployed, and only then."""

from __future__ import annotations

from typing import Any

from stepwell import Context, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


def paying(ledger: Ledger, *names: str, version: int = 1) -> Any:
    @workflow(name="pay", version=version)
    async def pay(ctx: Context) -> str:
        for name in names:
            await ctx.step(name, ledger.body(name))
        await ctx.receive("approve")
        await ctx.step("ship", ledger.body("ship"))
        return "shipped"

    return pay


async def parked(harness: Harness, ledger: Ledger) -> tuple[Any, Any]:
    """A run that was parked by a worker whose code did not fit it; with that worker."""
    worker = await harness.worker(paying(ledger, "reserve"))
    run = await worker.start(paying(ledger, "reserve"))
    await harness.drain()
    worker = await harness.deploy(worker, paying(ledger, "look", "reserve"))
    await worker.signal(run.run_id, "approve")
    await harness.drain()
    assert (await harness.status(run)).status == "paused"
    return worker, run


async def test_a_parked_run_shows_both_sides_and_what_it_waits_for(harness: Harness, ledger: Ledger):
    worker, run = await parked(harness, ledger)

    why = await worker.do(worker.engine.explain(run.run_id))
    assert "; recorded: step reserve · now: it asks for look)" in why.sentence
    assert why.notes == (
        "It continues by itself once a worker with code that fits it starts.",
        "Signals that it has not asked for yet: approve.",
    )


async def test_it_goes_on_by_itself_when_fitting_code_is_deployed(harness: Harness, ledger: Ledger):
    worker, run = await parked(harness, ledger)
    await harness.deploy(worker, paying(ledger, "reserve"))
    await harness.drain()

    assert await harness.result(run) == "shipped"
    assert ledger.lines == ["reserve", "ship"]
    acts = await harness.nodes[-1].wire.store.views.list_audit(run.run_id)
    assert [(act.verb, act.by.partition(": ")[2]) for act in acts] == [("resume", "its code fits")]


async def test_it_stays_parked_under_code_that_does_not_fit_either(harness: Harness, ledger: Ledger):
    worker, run = await parked(harness, ledger)
    worker = await harness.deploy(worker, paying(ledger, "examine", "reserve"))
    await harness.advance("5h")

    assert (await harness.status(run)).status == "paused"
    assert ledger.lines == ["reserve"]
    assert await worker.wire.store.views.list_audit(run.run_id) == []


async def test_the_worker_that_parked_it_leaves_it_alone(harness: Harness, ledger: Ledger):
    @workflow(name="twice", names="unique")
    async def twice(ctx: Context) -> None:
        await ctx.step("x", ledger.body("x"))
        await ctx.step("x", ledger.body("x"))

    worker = await harness.worker(twice)
    run = await worker.start(twice)
    await harness.advance("5h")

    assert (await harness.status(run)).status == "paused"
    assert await worker.wire.store.views.list_audit(run.run_id) == []


async def test_another_version_is_not_tried_on_it(harness: Harness, ledger: Ledger):
    worker, run = await parked(harness, ledger)
    await harness.deploy(worker, paying(ledger, "reserve", version=2))
    await harness.advance("5h")

    assert (await harness.status(run)).status == "paused"


async def test_while_old_workers_are_there_it_is_tried_again_until_a_new_one_has_it(harness: Harness, ledger: Ledger):
    old, run = await parked(harness, ledger)
    await harness.worker(paying(ledger, "reserve"))
    await harness.advance("20h")
    await old.shutdown()
    harness.nodes.remove(old)
    await harness.advance("100h")

    assert await harness.result(run) == "shipped"
    assert ledger.lines == ["reserve", "ship"]


async def test_a_run_that_took_its_workers_down_waits_for_a_person(harness: Harness, ledger: Ledger):
    flow = paying(ledger, "reserve")
    worker = await harness.worker(flow, stalls_max=1, lease="3s", sweep_every="2s")

    @workflow(name="pay")
    async def deadly(ctx: Context) -> str:
        async def kill() -> None:
            worker.crash()

        await ctx.step("kill", kill)
        return "never"

    await worker.shutdown()
    harness.nodes.remove(worker)
    worker = await harness.worker(deadly, stalls_max=1, lease="3s", sweep_every="2s")
    run = await (await harness.client()).start(deadly)
    await harness.drain()
    await harness.worker(deadly, stalls_max=1, lease="3s", sweep_every="2s")
    await harness.advance("10m")

    view = await harness.status(run)
    assert (view.status, view.failure.code if view.failure else "") == ("paused", "SW202")
