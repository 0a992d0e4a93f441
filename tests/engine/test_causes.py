"""The chain of causes: every run that has not ended has one, and each cause names the act that removes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from stepwell import Context, Retry, step, workflow
from stepwell.advice import Advice, Verb
from stepwell.conformance.reach import reach
from stepwell.conformance.scene import Scene
from stepwell.engine.causes import ClusterState, causes_of
from stepwell.engine.explanations import explain
from stepwell.environment import system_environment
from stepwell.errors.records import FailureRecord
from stepwell.model.failures import encode_failure
from stepwell.model.holds import Hold, WorkflowHold
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.model.workers import Worker
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.views import Cause
from stepwell.virtual.clock import ManualClock
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


@workflow
async def listening(ctx: Context, names: list[str]) -> None:
    await ctx.receive(*names)


async def chain_of(node: Node, run: Any) -> tuple[Cause, ...]:
    return (await node.do(node.engine.explain(run.run_id))).chain


def kinds(causes: tuple[Cause, ...]) -> list[Any]:
    """The kinds, with those below a child behind it."""
    return [(one.kind, kinds(one.causes)) if one.causes else one.kind for one in causes]


def flat(causes: tuple[Cause, ...]) -> Iterator[Cause]:
    for one in causes:
        yield one
        yield from flat(one.causes)


async def test_a_child_is_followed_down_to_what_it_waits_for(harness: Harness) -> None:
    @workflow
    async def middle(ctx: Context) -> None:
        await ctx.child(listening, ["go"])

    @workflow
    async def top(ctx: Context) -> None:
        await ctx.child(middle)

    worker = await harness.worker(top, middle, listening)
    run = await worker.start(top)
    await harness.drain()

    chain = await chain_of(worker, run)
    assert kinds(chain) == [("child", [("child", ["signal"])])]
    *_, last = flat(chain)
    assert last.sentence == "it needs a signal 'go' at go"
    assert last.next == (Advice(Verb.SIGNAL, last.run_id, {"name": "go"}),)
    assert last.run_id != run.run_id


async def test_a_child_that_a_person_paused_is_why_its_parent_waits(harness: Harness) -> None:
    @workflow
    async def top(ctx: Context) -> None:
        await ctx.child(listening, ["go"])

    worker = await harness.worker(top, listening)
    run = await worker.start(top)
    await harness.drain()
    [child] = (await worker.do(worker.engine.explain(run.run_id))).facts["active_children"]
    await worker.do(worker.engine.holds.pause(child, by="ann", reason="a look"))

    [cause] = await chain_of(worker, run)
    [below] = cause.causes
    assert below.kind == "paused"
    assert below.sentence.startswith("ann paused it at ")
    assert below.sentence.endswith(" (reason: a look)")
    assert below.next == (Advice(Verb.RESUME, child),)


async def test_deep_families_are_followed_to_a_bounded_depth(harness: Harness) -> None:
    @workflow
    async def deep(ctx: Context, left: int) -> None:
        await (ctx.child(deep, left - 1) if left else ctx.receive("go"))

    worker = await harness.worker(deep)
    run = await worker.start(deep, 12)
    await harness.advance("1s")

    assert len(list(flat(await chain_of(worker, run)))) == 9


async def test_what_is_missing_is_named(harness: Harness, ledger: Ledger) -> None:
    @workflow(name="flow", version=2)
    async def second(ctx: Context) -> None:
        await ctx.step("x", ledger.body("x"))

    @workflow(name="flow", version=1)
    async def first(ctx: Context) -> None:
        await ctx.step("x", ledger.body("x"))

    client = await harness.client()
    run = await client.do(client.engine.start(second))
    assert kinds(await chain_of(client, run)) == ["worker"]

    worker = await harness.worker(first)
    [cause] = await chain_of(worker, run)
    assert (cause.kind, cause.sentence) == ("version", "no worker for flow version 2 is alive, only for flow@1")


async def test_pauses_retries_slots_timers_and_the_dead_are_named(harness: Harness, ledger: Ledger) -> None:
    async def slow() -> None:
        await asyncio.sleep(600)

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(slow)

    @workflow
    async def failing(ctx: Context) -> None:
        await ctx.step("charge", step(ledger.failing("charge"), retry=Retry(initial="10m", jitter=0)))

    worker = await harness.worker(busy, failing, lease="10s", runs_max=1)
    client = await harness.client()
    trying = await worker.start(failing)
    await harness.drain()
    running = await worker.start(busy)
    await harness.drain()
    ready = await worker.start(busy)
    assert kinds(await chain_of(client, trying)) == ["retry"]
    assert kinds(await chain_of(client, running)) == ["running"]
    assert kinds(await chain_of(client, ready)) == ["slot"]

    await client.do(client.engine.holds.pause(running.run_id, by="ann"))
    await client.do(client.engine.holds.pause_workflow("busy", by="bob", reason="the bank is down"))
    await client.do(client.engine.holds.pause_workflow(None, by="eve"))
    assert kinds(await chain_of(client, running)) == ["running", "paused", "all paused", "workflow paused"]
    every, one = await chain_of(client, ready)
    assert (every.next, one.next) == ((Advice(Verb.RESUME_ALL),), (Advice(Verb.RESUME_WORKFLOW, "busy"),))
    assert one.sentence.startswith("bob paused workflow busy at ")
    assert one.sentence.endswith(" (reason: the bank is down)")
    told = await client.do(client.engine.explain(ready.run_id))
    assert "is pending: eve paused every workflow at " in told.sentence

    worker.crash()
    await harness.advance("11s")
    assert kinds(await chain_of(client, running))[0] == "dead worker"


async def test_a_stalled_rollback_is_named(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("one", step(ledger.body("one"), compensate=ledger.failing("undo one")))
        raise ValueError("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    [cause] = await chain_of(worker, run)
    assert (cause.kind, cause.next) == (
        "rollback",
        (Advice(Verb.RESUME_ROLLBACK, run.run_id, note="fix the cause, then"),),
    )


@pytest_asyncio.fixture
async def plain_scene() -> AsyncIterator[Scene]:
    clock = ManualClock()
    store = SqliteStore(replace(system_environment(), clock=clock), ":memory:")
    await store.open()
    scene = Scene(store, clock)
    await scene.register()
    yield scene
    await store.close()


ACTIVE = sorted(set(RunStatus) - TERMINAL)


@pytest.mark.parametrize("is_owned", [True, False])
@pytest.mark.parametrize("is_paused", [None, "run", "flow", "all"])
@pytest.mark.parametrize("who", ["nobody", "others", "w1"])
@pytest.mark.parametrize("status", ACTIVE)
async def test_every_state_that_is_no_end_has_a_cause_with_an_act(
    plain_scene: Scene, status: RunStatus, who: str, is_paused: str | None, is_owned: bool
) -> None:
    scene = plain_scene
    await reach(scene, "r1", status, has_undo=True, is_owned=is_owned)
    if is_paused == "run":
        await scene.store.runs.pause((await scene.run("r1")).run_id, by="ann", reason="")
    held = {"flow": "flow", "all": None}
    holds = [WorkflowHold(held[is_paused], Hold("ann", "", scene.clock.now()))] if is_paused in held else []
    workers: list[Worker] = await scene.store.views.list_workers() if who == "w1" else []
    if who == "others":
        workers = [one._replace(definitions=("flow@7",)) for one in await scene.store.views.list_workers()]
    detail = await scene.store.views.detail((await scene.run("r1")).run_id)
    assert detail is not None
    if detail.run.failure is not None:
        failure = encode_failure(FailureRecord("ValueError", "no", path="step"))
        detail = detail._replace(run=detail.run._replace(failure=failure))
    cluster = ClusterState(workers, holds, scene.clock.now())

    causes = causes_of(detail, cluster, {})

    assert causes
    assert all(one.sentence and one.next and one.kind for one in causes)
    told = explain(detail, cluster, {})
    assert told.sentence.endswith(".")
    if is_paused == "run" and detail.run.hold is not None:
        assert any(one.kind == "paused" for one in causes)
        assert "ann paused it at " in told.sentence or detail.run.owner is not None
    if holds and detail.run.owner is None and status in (RunStatus.PENDING, RunStatus.WAITING):
        assert any(one.kind.endswith("paused") for one in causes)
