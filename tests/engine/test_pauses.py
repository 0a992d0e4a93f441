"""Pausing runs and workflows: what an owner does, what waits, and what goes on afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stepwell import Context, Retry, step, workflow
from stepwell.errors import RunPaused, UnknownWorkflowError
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


class Gate:
    """Bodies that wait until they are let through."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def body(self, name: str) -> Callable[[], Any]:
        async def run() -> str:
            self.begun.append(name)
            await self.is_open.wait()
            self.ended.append(name)
            return name

        run.__name__ = name
        return run


def two_steps(gate: Gate, ledger: Ledger) -> Any:
    @workflow
    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step("one", gate.body("one")), await ctx.step("two", ledger.body("two", "two"))]

    return flow


async def pause(node: Node, target: str) -> bool:
    return await node.do(node.engine.holds.pause(target, by="ann", reason="a look at it"))


async def resume(node: Node, target: str) -> bool:
    return await node.do(node.engine.holds.resume(target, by="ann"))


@pytest.mark.parametrize("drops_hints", [False, True])
async def test_the_step_under_way_ends_and_the_next_does_not_begin(
    harness: Harness, ledger: Ledger, drops_hints: bool
) -> None:
    gate = Gate()
    worker = await harness.worker(two_steps(gate, ledger))
    worker.wire.drops_hints = drops_hints
    run = await worker.start("flow")
    await harness.drain()

    assert await pause(worker, run.run_id)
    assert not await pause(worker, run.run_id)
    await harness.drain()
    assert (await harness.status(run)).status == "running"
    gate.is_open.set()
    await harness.advance("1s")

    view = await harness.status(run)
    assert view.status == "paused"
    assert view.hold is not None
    assert (view.hold.by, view.hold.reason) == ("ann", "a look at it")
    assert await harness.paths(run) == ["one"]
    assert ledger.lines == []
    assert await resume(worker, run.run_id)
    await harness.advance("11m" if drops_hints else "1s")
    assert await harness.result(run) == ["one", "two"]
    assert gate.begun == ["one"]


async def test_an_owner_that_commits_nothing_and_hears_nothing_learns_of_it_with_its_lease(harness: Harness) -> None:
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.sleep("nap", "50s")

    worker = await harness.worker(flow, lease="3s", hold_max="1m")
    client = await harness.client()
    worker.wire.drops_hints = True
    run = await worker.start(flow)
    await harness.drain()
    assert (await harness.status(run)).status == ("running" if harness.mode == "live" else "waiting")

    await pause(client, run.run_id)
    await harness.advance("1.5s")

    assert (await harness.status(run)).status == "paused"


async def test_a_waiting_run_stands_still_and_its_timer_and_signals_wait(harness: Harness) -> None:
    @workflow
    async def flow(ctx: Context) -> Any:
        message = await ctx.receive("go")
        await ctx.sleep("nap", "1m")
        return message.payload

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    assert await pause(worker, run.run_id)
    await worker.signal(run.run_id, "go", 7)
    await harness.advance("1h")
    assert (await harness.status(run)).status == "paused"
    with pytest.raises(RunPaused):
        await harness.result(run)

    await resume(worker, run.run_id)
    await harness.advance("30s")
    assert (await harness.status(run)).status == "waiting"
    await pause(worker, run.run_id)
    await harness.advance("2h")
    assert (await harness.status(run)).status == "paused"

    await resume(worker, run.run_id)
    await harness.advance("1s")
    assert await harness.result(run) == 7


async def test_withdrawn_before_the_step_ends_it_goes_on(harness: Harness, ledger: Ledger) -> None:
    gate = Gate()
    worker = await harness.worker(two_steps(gate, ledger))
    run = await worker.start("flow")
    await harness.drain()
    await pause(worker, run.run_id)
    assert await resume(worker, run.run_id)
    gate.is_open.set()
    await harness.advance("1s")

    assert await harness.result(run) == ["one", "two"]


async def test_the_step_of_a_run_whose_worker_died_is_not_taken_over_while_it_is_paused(
    harness: Harness, ledger: Ledger
) -> None:
    gate = Gate()
    flow = two_steps(gate, ledger)
    worker = await harness.worker(flow)
    run = await worker.start("flow")
    await harness.drain()
    client = await harness.client()
    await pause(client, run.run_id)
    second = await harness.takeover(worker, flow)

    assert (await harness.status(run)).status == "paused"
    gate.is_open.set()
    await resume(second, run.run_id)
    await harness.advance("1s")
    assert await harness.result(run) == ["one", "two"]
    assert gate.begun == ["one", "one"]


async def test_a_step_that_runs_at_most_once_is_never_left_unknown(harness: Harness, ledger: Ledger) -> None:
    gate = Gate()

    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("before", ledger.body("before"))
        return await ctx.step("charge", step(gate.body("charge"), at_most_once=True))

    worker = await harness.worker(flow)

    async def pausing(call: str) -> None:
        if call == "runs.apply":
            await worker.wire.behind.runs.pause(run.run_id, by="ann", reason="")

    gate.is_open.set()
    run = await worker.start(flow)
    worker.wire.before = pausing
    for _ in range(6):
        await harness.advance("1s")
        await worker.wire.behind.runs.resume(run.run_id, by="ann")
    worker.wire.before = _nothing
    await harness.advance("1s")
    await worker.wire.behind.runs.resume(run.run_id, by="ann")
    await harness.advance("1s")

    assert await harness.result(run) == "charge"
    assert gate.begun == ["charge"]


async def _nothing(_: str) -> None:
    return None


async def test_a_failure_of_the_step_under_way_is_recorded(harness: Harness, ledger: Ledger) -> None:
    gate = Gate()

    async def failing() -> None:
        await gate.body("failing")()
        raise ValueError("no")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(failing, retry=Retry(max_attempts=2, initial="1s", jitter=0)))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    await pause(worker, run.run_id)
    gate.is_open.set()
    await harness.advance("1m")
    assert ((await harness.status(run)).status, gate.begun) == ("paused", ["failing"])

    await resume(worker, run.run_id)
    await harness.advance("1m")
    assert ((await harness.status(run)).status, gate.begun) == ("failed", ["failing", "failing"])


async def test_a_cancel_reaches_a_paused_run(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("one", step(ledger.body("one"), compensate=ledger.body("undo one")))
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    await pause(worker, run.run_id)
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.drain()

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.lines == ["one", "undo one"]


async def test_code_that_fits_does_not_revive_what_a_person_paused(harness: Harness, ledger: Ledger) -> None:
    @workflow(name="flow", names="unique")
    async def wrong(ctx: Context) -> None:
        await ctx.step("x", ledger.body("x", "x"))
        await ctx.step("x", ledger.body("x", "x"))

    @workflow(name="flow")
    async def right(ctx: Context) -> None:
        await ctx.step("x", ledger.body("x", "x"))

    worker = await harness.worker(wrong)
    run, other = await worker.start("flow"), await worker.start("flow")
    await harness.drain()
    assert await pause(worker, run.run_id)
    await harness.deploy(worker, right)
    await harness.advance("2h")

    assert (await harness.status(other)).status == "completed"
    assert (await harness.status(run)).status == "paused"


@pytest.mark.parametrize("name", ["flow", None])
@pytest.mark.parametrize("drops_hints", [False, True])
async def test_a_paused_workflow_is_given_back_and_its_runs_wait(
    harness: Harness, ledger: Ledger, name: str | None, drops_hints: bool
) -> None:
    gate = Gate()
    worker = await harness.worker(two_steps(gate, ledger), lease="30s", sweep_every="30s")
    client = await harness.client()
    worker.wire.drops_hints = drops_hints
    run = await worker.start("flow")
    await harness.drain()

    assert await client.do(client.engine.holds.pause_workflow(name, by="ann", reason="the bank is down"))
    assert not await client.do(client.engine.holds.pause_workflow(name, by="eve"))
    [held] = await client.do(client.engine.holds.list())
    assert (held.workflow, held.by, held.reason) == (name, "ann", "the bank is down")
    await harness.advance("11s")
    gate.is_open.set()
    late = await worker.start("flow")
    await harness.advance("1h")

    assert [(await harness.status(one)).status for one in (run, late)] == ["pending", "pending"]
    assert (gate.ended, ledger.lines) == (["one"], [])

    assert await client.do(client.engine.holds.resume_workflow(name, by="ann"))
    assert not await client.do(client.engine.holds.resume_workflow(name, by="ann"))
    await harness.advance("1m" if drops_hints else "1s")
    assert [await harness.result(one) for one in (run, late)] == [["one", "two"]] * 2


async def test_other_workflows_are_not_touched(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def other(ctx: Context) -> str:
        return await ctx.step("x", ledger.body("x", "x"))

    worker = await harness.worker(two_steps(Gate(), ledger), other)
    await worker.do(worker.engine.holds.pause_workflow("flow"))
    run = await worker.start(other)
    await harness.drain()

    assert await harness.result(run) == "x"


async def test_an_unknown_workflow_is_not_paused_by_a_slip(harness: Harness, ledger: Ledger) -> None:
    worker = await harness.worker(two_steps(Gate(), ledger))

    with pytest.raises(UnknownWorkflowError, match="flwo"):
        await worker.do(worker.engine.holds.pause_workflow("flwo"))
    with pytest.raises(UnknownWorkflowError):
        await worker.do(worker.engine.holds.resume_workflow("flwo"))


async def test_a_child_of_a_paused_workflow_waits_and_its_parent_with_it(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def child(ctx: Context) -> str:
        return await ctx.step("x", ledger.body("x", "x"))

    @workflow
    async def parent(ctx: Context) -> str:
        return await ctx.child(child)

    worker = await harness.worker(parent, child)
    await worker.do(worker.engine.holds.pause_workflow("child"))
    run = await worker.start(parent)
    await harness.advance("1h")
    assert ((await harness.status(run)).status, ledger.lines) == ("waiting", [])

    await worker.do(worker.engine.holds.resume_workflow("child"))
    await harness.advance("1s")
    assert await harness.result(run) == "x"


def beside_a_mistake(gate: Gate, *, is_fixed: bool) -> Any:
    """A workflow whose race changes a variable outside of itself, while steps run in other branches."""

    @workflow(name="flow")
    async def flow(ctx: Context) -> list[str]:
        found: list[str] = []

        async def changes(inner: Context) -> str:
            await inner.sleep("until both run", "1s")

            async def first(branch: Context) -> str:
                if not is_fixed:
                    found.append("lost")
                return "found"

            async def second(branch: Context) -> None:
                await branch.receive("never")

            won = await inner.race("race", {"first": first, "second": second})
            return won.branch

        async def works(inner: Context) -> str:
            return await inner.step("one", gate.body("one"))

        async def sleeps(inner: Context) -> str:
            await inner.sleep("short", "2s")
            return "slept"

        done = await ctx.join("all", {"changes": changes, "works": works, "sleeps": sleeps})
        return [*done.values()]

    return flow


async def test_a_step_beside_code_that_is_stopped_ends_and_is_recorded(harness: Harness) -> None:
    gate = Gate()
    worker = await harness.worker(beside_a_mistake(gate, is_fixed=False))
    run = await worker.start("flow")
    await harness.advance("1h")  # far behind the timer beside it, which must not wake the stopped code again and again
    assert (await harness.status(run)).status == "running"
    gate.is_open.set()
    await harness.advance("1s")
    view = await harness.status(run)
    assert (view.status, view.failure and view.failure.code) == ("paused", "SW127")
    assert "all/works/one" in await harness.paths(run)

    await harness.takeover(worker, beside_a_mistake(gate, is_fixed=True))
    await harness.advance("11m")
    assert await harness.result(run) == ["first", "one", "slept"]
    assert gate.begun == ["one"]
