"""Which versions and patches runs still need."""

from __future__ import annotations

from typing import Any

from stepwell import Context, Fatal, workflow
from stepwell.check.inflight import Code
from stepwell.check.versions import PatchUse, patch_uses
from stepwell.engine.versions import version_uses
from stepwell.replay.registry import Registry
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


def flow(ledger: Ledger, version: int = 1, *, is_patched: bool = False, at: str = "first") -> Any:
    async def refuse() -> None:
        raise Fatal("no")

    @workflow(name="flow", version=version)
    async def run(ctx: Context, fails: bool) -> str:
        if is_patched and at == "first" and ctx.patched("look first"):
            await ctx.step("look", ledger.body("look"))
        await ctx.step("a", ledger.body("a"))
        if fails:
            await ctx.step("refuse", refuse)
        await ctx.receive("go")
        if is_patched and at == "last" and ctx.patched("look last"):
            await ctx.step("look", ledger.body("look"))
        return "done"

    return run


async def uses(node: Node) -> dict[int, Any]:
    views = node.wire.store.views
    found = version_uses(await views.tally_runs(), await views.list_workers(), node.wire.store.now())
    return {use.version: use for use in found if use.workflow == "flow"}


async def test_each_version_says_how_much_it_is_needed(harness: Harness, ledger: Ledger):
    worker = await harness.worker(flow(ledger, 1), flow(ledger, 2))
    for version, fails in ((1, False), (1, True), (2, False), (2, False)):
        await worker.start(flow(ledger, version), fails, key=f"{version}{fails}{len(ledger.lines)}")
        await harness.drain()

    found = await uses(worker)

    assert list(found) == [2, 1]
    assert found[1][2:6] == (1, 1, 1, 1)
    assert found[2][2:6] == (2, 2, 0, 1)
    assert not found[1].may_retire
    assert not found[2].is_unserved
    assert found[2].last_at is not None


async def test_a_version_whose_runs_have_ended_may_retire(harness: Harness, ledger: Ledger):
    worker = await harness.worker(flow(ledger, 1))
    run = await worker.start(flow(ledger, 1), False)
    await harness.drain()
    assert not (await uses(worker))[1].may_retire
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert (await uses(worker))[1].may_retire


async def test_a_failed_run_keeps_its_version_because_it_may_be_retried(harness: Harness, ledger: Ledger):
    worker = await harness.worker(flow(ledger, 1))
    await worker.start(flow(ledger, 1), True)
    await harness.drain()

    use = (await uses(worker))[1]
    assert (use.live, use.redrivable, use.may_retire) == (0, 1, False)


async def test_a_version_that_no_worker_has_waits_and_says_so(harness: Harness, ledger: Ledger):
    worker = await harness.worker(flow(ledger, 1))
    run = await worker.start(flow(ledger, 1), False)
    await harness.drain()
    worker = await harness.deploy(worker, flow(ledger, 2))
    await worker.signal(run.run_id, "go")
    await harness.advance("1h")

    assert (await uses(worker))[1].is_unserved
    assert (await harness.status(run)).status == "waiting"
    why = await worker.do(worker.engine.explain(run.run_id))
    assert "no worker for flow version 1 is alive" in why.sentence

    worker = await harness.deploy(worker, flow(ledger, 2), flow(ledger, 1))
    await harness.advance("1h")
    assert await harness.result(run) == "done"


async def test_patches_are_counted_by_the_path_that_runs_took(harness: Harness, ledger: Ledger):
    before, after = flow(ledger), flow(ledger, is_patched=True)
    worker = await harness.worker(before)
    old = await worker.start(before, False, key="old")
    await harness.advance("1s")
    worker = await harness.deploy(worker, after)
    await worker.start(after, False, key="new")
    await harness.advance("1s")
    wire, code = worker.wire.store, Code(Registry([after]))

    # The old run stands where it stood: what it will do is known from the code alone.
    assert await patch_uses(wire) == [PatchUse("flow", "look first", 0, 1, 1)]
    assert await patch_uses(wire, code=code) == [PatchUse("flow", "look first", 1, 1, 0)]
    assert not (await patch_uses(wire, code=code))[0].may_delete
    assert await patch_uses(wire, workflow="other") == []

    await worker.signal(old.run_id, "go")
    await harness.drain()
    assert await patch_uses(wire) == [PatchUse("flow", "look first", 0, 1, 0)]
    assert (await patch_uses(wire))[0].may_delete


async def test_a_run_that_took_the_old_path_is_counted_from_the_record_alone(harness: Harness, ledger: Ledger):
    def twice(is_patched: bool) -> Any:
        @workflow(name="flow")
        async def run(ctx: Context) -> None:
            if is_patched and ctx.patched("p"):
                await ctx.step("look", ledger.body("look"))
            await ctx.step("a", ledger.body("a"))
            await ctx.receive("go")
            await ctx.receive("end")

        return run

    worker = await harness.worker(twice(False))
    run = await worker.start(twice(False))
    await harness.drain()
    worker = await harness.deploy(worker, twice(True))
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await patch_uses(worker.wire.store) == [PatchUse("flow", "p", 1, 0, 0)]


async def test_a_patch_that_a_run_has_not_come_to_is_no_reason_to_keep_it(harness: Harness, ledger: Ledger):
    after = flow(ledger, is_patched=True, at="last")
    worker = await harness.worker(after)
    await worker.start(after, False)
    await harness.drain()

    assert await patch_uses(worker.wire.store, code=Code(Registry([after]))) == []
