"""New code under runs that have begun: gates, patches, and what an old worker does with a newer pin."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Break, Context, Continue, Fatal, RunPaused, StepFailed, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def begun(harness: Harness, flow: Any) -> tuple[Any, Any]:
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    return worker, run


async def go(harness: Harness, worker: Any, run: Any) -> Any:
    await worker.signal(run.run_id, "go")
    await harness.drain()
    return await harness.result(run)


def old(ledger: Ledger) -> Any:
    @workflow(name="flow")
    async def flow(ctx: Context) -> Any:
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("go")
        return await ctx.step("b", ledger.body("b", "old"))

    return flow


async def test_a_gate_before_what_was_passed_is_closed_for_old_runs_and_open_for_new(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def new(ctx: Context) -> Any:
        if ctx.patched("check first"):
            await ctx.step("check", ledger.body("check"))
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("go")
        return await ctx.step("b", ledger.body("b", "new"))

    worker, run = await begun(harness, old(ledger))
    worker = await harness.deploy(worker, new)
    fresh = await worker.start(new)
    await harness.drain()

    assert await go(harness, worker, run) == "new"
    assert await go(harness, worker, fresh) == "new"
    assert ledger.lines == ["a", "check", "a", "b", "b"]


async def test_a_gate_after_what_was_passed_is_open_for_old_runs_too(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def new(ctx: Context) -> Any:
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("go")
        if ctx.version("later", 3) == 3:
            await ctx.step("check", ledger.body("check"))
        return await ctx.step("b", ledger.body("b", "new"))

    worker, run = await begun(harness, old(ledger))
    worker = await harness.deploy(worker, new)

    assert await go(harness, worker, run) == "new"
    assert ledger.lines == ["a", "check", "b"]


async def test_a_gate_before_the_place_where_a_run_waits_is_closed(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def new(ctx: Context) -> Any:
        await ctx.step("a", ledger.body("a"))
        if ctx.patched("before the wait"):
            await ctx.step("check", ledger.body("check"))
        await ctx.receive("go")
        return await ctx.step("b", ledger.body("b", "new"))

    worker, run = await begun(harness, old(ledger))
    worker = await harness.deploy(worker, new)

    assert await go(harness, worker, run) == "new"
    assert ledger.lines == ["a", "b"]


async def test_a_pin_is_kept_for_ever(harness: Harness, ledger: Ledger):
    def flow(latest: int) -> Any:
        @workflow(name="flow")
        async def flow(ctx: Context) -> list[int]:
            first = ctx.version("gate", latest)
            await ctx.step("a", ledger.body("a"))
            await ctx.receive("go")
            return [first]

        return flow

    worker, run = await begun(harness, flow(2))
    worker = await harness.deploy(worker, flow(5))

    assert await go(harness, worker, run) == [2]


async def test_code_that_is_older_than_a_pin_stops_the_run(harness: Harness, ledger: Ledger):
    def flow(latest: int) -> Any:
        @workflow(name="flow")
        async def flow(ctx: Context) -> int:
            pinned = ctx.version("gate", latest)
            await ctx.receive("go")
            return pinned

        return flow

    worker, run = await begun(harness, flow(3))
    worker = await harness.deploy(worker, flow(2))
    with pytest.raises(RunPaused, match="pinned to version 3 of gate, and this code has only versions up to 2"):
        await go(harness, worker, run)

    worker = await harness.deploy(worker, flow(3))
    assert await worker.do(worker.engine.holds.resume(run.run_id))
    await harness.drain()
    assert await harness.result(run) == 3


async def test_a_deprecated_patch_lets_patched_runs_pass(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def patched(ctx: Context) -> str:
        assert ctx.patched("p")
        await ctx.receive("go")
        return "patched"

    @workflow(name="flow")
    async def deprecated(ctx: Context) -> str:
        ctx.deprecated("p")
        await ctx.receive("go")
        return "deprecated"

    worker, run = await begun(harness, patched)
    worker = await harness.deploy(worker, deprecated)

    assert await go(harness, worker, run) == "deprecated"


async def test_a_gate_inside_a_loop_is_decided_per_iteration(harness: Harness, ledger: Ledger):
    def flow(is_new: bool) -> Any:
        async def body(ctx: Context, seen: list[str]) -> Continue[list[str]] | Break[list[str]]:
            version = ctx.version("gate", 2) if is_new else 1
            await ctx.step("work", ledger.body("work"))
            await ctx.receive("go")
            seen = [*seen, f"version {version}"]
            return Break(seen) if len(seen) == 3 else Continue(seen)

        @workflow(name="flow")
        async def flow(ctx: Context) -> list[str]:
            nothing: list[str] = []
            return await ctx.loop("l", body, nothing)

        return flow

    worker, run = await begun(harness, flow(False))
    await worker.signal(run.run_id, "go")
    await harness.drain()
    worker = await harness.deploy(worker, flow(True))
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await go(harness, worker, run) == ["version 1", "version 1", "version 2"]
    assert ledger.counts == {"work": 3}


async def test_a_new_version_of_a_workflow_leaves_old_runs_to_the_old_code(harness: Harness, ledger: Ledger):
    @workflow(name="flow", version=2)
    async def second(ctx: Context) -> str:
        await ctx.step("other", ledger.body("other"))
        await ctx.receive("go")
        return "second"

    first = old(ledger)
    worker, run = await begun(harness, first)
    worker = await harness.deploy(worker, second, first)
    fresh = await worker.start("flow")
    await harness.drain()

    assert await go(harness, worker, run) == "old"
    assert await go(harness, worker, fresh) == "second"
    assert ledger.lines == ["a", "other", "b"]


async def test_new_synchronous_operations_do_not_change_the_order_of_recorded_results(harness: Harness, ledger: Ledger):
    import asyncio

    seen: list[list[str]] = []

    def flow(is_new: bool) -> Any:
        @workflow(name="flow")
        async def flow(ctx: Context) -> None:
            order: list[str] = []
            seen.append(order)

            async def branch(name: str) -> None:
                for number in range(2):
                    await ctx.step(f"{name}{number}", ledger.body(f"{name}{number}"))
                    if is_new:
                        await ctx.once(f"new {name}{number}", lambda: name)
                    order.append(f"{name}{number}")

            await asyncio.gather(branch("x"), branch("y"))
            await ctx.receive("go", "again")
            await ctx.receive("go", "again")

        return flow

    worker, run = await begun(harness, flow(False))
    seen.clear()
    worker = await harness.deploy(worker, flow(True))
    await worker.signal(run.run_id, "again")
    await harness.drain()
    worker = await harness.deploy(worker, flow(True))
    await go(harness, worker, run)

    assert len(seen) >= 2
    assert len({tuple(order) for order in seen}) == 1


async def test_a_step_put_in_front_of_what_was_passed_parks_the_run_and_runs_nothing(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def new(ctx: Context) -> Any:
        await ctx.once("mark", lambda: "made by the wrong code")
        await ctx.step("check", ledger.body("check"))
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("go")
        return "new"

    worker, run = await begun(harness, old(ledger))
    history = await harness.history(run)
    worker = await harness.deploy(worker, new)
    with pytest.raises(RunPaused) as caught:
        await go(harness, worker, run)

    assert caught.value.why == "recorded: step a · now: it asks for check"
    assert ledger.lines == ["a"]
    assert await harness.history(run) == history

    worker = await harness.deploy(worker, old(ledger))
    assert await worker.do(worker.engine.holds.resume(run.run_id))
    await harness.drain()
    assert await harness.result(run) == "old"
    assert ledger.lines == ["a", "b"]


async def test_code_that_fails_before_it_has_passed_the_record_parks_the_run(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def broken(ctx: Context) -> Any:
        raise KeyError("a name that a bad deploy forgot")

    worker, run = await begun(harness, old(ledger))
    worker = await harness.deploy(worker, broken)
    with pytest.raises(RunPaused, match="a name that a bad deploy forgot"):
        await go(harness, worker, run)

    worker = await harness.deploy(worker, old(ledger))
    assert await worker.do(worker.engine.holds.resume(run.run_id))
    await harness.drain()
    assert await harness.result(run) == "old"


async def test_a_wait_elsewhere_leaves_the_stored_wait_as_it_is(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def elsewhere(ctx: Context) -> Any:
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("begin")
        return "new"

    worker, run = await begun(harness, old(ledger))
    worker = await harness.deploy(worker, elsewhere)
    with pytest.raises(RunPaused, match="a wait for a signal at go · now: it waits for a signal at begin"):
        await go(harness, worker, run)

    worker = await harness.deploy(worker, old(ledger))
    assert await worker.do(worker.engine.holds.resume(run.run_id))
    await harness.drain()
    assert await harness.result(run) == "old"


async def test_a_retried_run_may_leave_out_what_its_failure_led_to(harness: Harness, ledger: Ledger):
    is_broken = True

    async def call() -> str:
        if is_broken:
            raise Fatal("away")
        return "called"

    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("a", ledger.body("a"))
        try:
            return await ctx.step("call", call)
        except StepFailed:
            await ctx.step("tell", ledger.body("tell"))
            raise

    worker, run = await begun(harness, flow)
    assert (await harness.status(run)).status == "failed"
    is_broken = False
    assert await worker.do(worker.engine.repairs.retry(run.run_id))
    await harness.drain()

    assert await harness.result(run) == "called"
    assert ledger.lines == ["a", "tell"]


async def test_a_gate_may_be_asked_again_and_may_have_the_name_of_an_operation(harness: Harness, ledger: Ledger):
    """So the fix that is printed for a changed path, which names the gate after the operation, is right for all."""

    @workflow(name="flow")
    async def new(ctx: Context) -> Any:
        asked = [ctx.version("a", 2), ctx.patched("a")]
        await ctx.step("a", ledger.body("a"))
        asked += [ctx.version("a", 2)]
        await ctx.receive("go")
        asked += [ctx.version("a", 2), ctx.patched("b")]
        await ctx.step("b", ledger.body("b"))
        return [*asked, ctx.version("a", 2), ctx.patched("b")]

    worker, run = await begun(harness, old(ledger))
    worker = await harness.deploy(worker, new)
    fresh = await worker.start(new)
    await harness.drain()
    worker = await harness.takeover(worker, new)

    assert await go(harness, worker, run) == [1, False, 1, 1, True, 1, True]
    assert await go(harness, worker, fresh) == [2, True, 2, 2, True, 2, True]


async def test_a_gate_that_is_left_out_does_not_keep_a_run_replaying(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def gated(ctx: Context) -> Any:
        assert ctx.patched("p")
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("go")
        return None

    @workflow(name="flow")
    async def without(ctx: Context) -> Any:
        await ctx.step("a", ledger.body("a"))
        await ctx.receive("go")
        return ctx.is_replaying

    worker, run = await begun(harness, gated)
    worker = await harness.deploy(worker, without)

    assert await go(harness, worker, run) is False
