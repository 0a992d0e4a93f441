"""Stem's cases: checkpoints, claims and leases, cancelling, idempotency keys, children."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell import Context, Retry, RunCancelled, RunFailed, StepContext, step, workflow
from stepwell.clock import to_datetime
from stepwell.errors import LeaseLostError, UnknownWorkflowError
from stepwell.model.workers import Claimant
from stepwell.stores.base.views import RunFilter
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


@workflow
async def waiting(ctx: Context, name: str = "go") -> Any:
    return (await ctx.receive(name)).payload


async def test_sm_01_a_new_run_has_its_input_and_nothing_else(harness: Harness):
    client = await harness.client()
    given = {"order": 42, "lines": ["a", "b"]}

    @workflow
    async def flow(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return params

    run = await client.start(flow, given, key="k")
    view = await harness.status(run)
    assert (view.status, view.input, view.generation, view.parent) == ("pending", given, 1, None)
    assert await harness.history(run) == []
    await harness.worker(flow)
    await harness.drain()
    assert await harness.result(run) == given


async def test_sm_03_the_first_recorded_value_stays(harness: Harness, ledger: Ledger):
    async def draw() -> int:
        ledger.note("draw")
        return random.randrange(10**9)

    @workflow
    async def flow(ctx: Context) -> list[int]:
        drawn = await ctx.step(draw)
        await ctx.sleep("pause", "1m")
        return [drawn]

    worker = await harness.worker(flow, lease="10s")
    client = await harness.client()

    async def die(name: str) -> None:
        if name == "runs.apply":
            worker.crash()

    worker.wire.after = die
    run = await client.start(flow)
    await harness.drain()
    (recorded,) = [entry.value for entry in await harness.history(run)]
    await harness.worker(flow, lease="10s", sweep_every="1s")
    await harness.advance("2m")

    assert await harness.result(run) == [recorded]
    assert ledger.lines == ["draw"]


async def test_sm_04_a_heartbeat_moves_the_time_of_a_step_and_the_lease_outlasts_it(harness: Harness, ledger: Ledger):
    async def long(info: StepContext) -> str:
        for number in range(4):
            ledger.note("beat")
            info.heartbeat({"number": number})
            await asyncio.sleep(10)
        return "done"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(long)

    worker = await harness.worker(flow, lease="10s")
    run = await worker.start(flow)
    await harness.advance("5s")
    first = (await harness.status(run)).progress[0]
    await harness.worker(flow, lease="10s")
    await harness.advance("10s")
    second = (await harness.status(run)).progress[0]
    await harness.advance("30s")

    assert (first.state, second.state) == ({"number": 0}, {"number": 1})
    assert second.at - first.at >= timedelta(seconds=9)
    assert await harness.result(run) == "done"
    assert ledger.lines == ["beat"] * 4
    assert (await harness.status(run)).progress == ()


async def test_sm_06_a_repeated_step_is_numbered_in_order(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[int]:
        return [await ctx.step("tick", step(ledger.body("tick", n))) for n in range(3)]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == [0, 1, 2]
    assert [(e.path, e.value) for e in await harness.history(run)] == [("tick", 0), ("tick#2", 1), ("tick#3", 2)]


async def test_sm_09_a_moment_in_the_past_is_due_at_once_and_only_once(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> timedelta:
        slept = await ctx.sleep_until("then", datetime(2001, 1, 1, tzinfo=UTC))
        return slept.woke_at - ctx.now()

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == timedelta(0)
    assert await worker.wire.store.views.next_wake(["flow@1"]) is None


async def test_sm_10_a_worker_takes_no_more_than_it_may(harness: Harness, ledger: Ledger):
    async def slow() -> None:
        ledger.note("begins")
        await asyncio.sleep(10)
        ledger.note("ends")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(slow)

    client = await harness.client()
    runs = [await client.start(flow) for _ in range(5)]
    await harness.worker(flow, runs_max=2)
    await harness.advance("1s")
    statuses = sorted([(await harness.status(run)).status for run in runs])
    assert statuses == ["pending"] * 3 + ["running"] * 2
    assert ledger.counts == {"begins": 2}
    await harness.advance("30s")

    assert ledger.counts == {"begins": 5, "ends": 5}
    assert {(await harness.status(run)).status for run in runs} == {"completed"}


async def test_sm_16_a_signal_is_stored_before_anybody_takes_it(harness: Harness):
    worker = await harness.worker(waiting)
    run = await worker.start(waiting)
    await harness.drain()
    client = await harness.client()
    worker.crash()
    await client.signal(run.run_id, "go", "still there")
    client.crash()
    await harness.worker(waiting)
    await harness.drain()

    assert await harness.result(run) == "still there"


async def test_sm_18_a_cancelled_run_is_not_woken_by_time_or_signals(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.receive("go", timeout="1h")
        await ctx.step("after", ledger.body("after"))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    assert await worker.do(worker.engine.cancel(run.run_id, "changed my mind"))
    assert not await worker.do(worker.engine.cancel(run.run_id, "again"))
    detail = await worker.engine.runs.detail(run.run_id)
    assert (detail.history.waits, detail.run.wake_at) == ((), None)
    assert str(await worker.signal(run.run_id, "go", if_missing="drop")) == "missing"
    await harness.advance("2h")

    with pytest.raises(RunCancelled, match="changed my mind"):
        await harness.result(run)
    assert ledger.lines == []


async def test_sm_19_a_claimed_run_belongs_to_its_worker_until_the_lease_is_over(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        ledger.note("begins")
        await asyncio.sleep(5)
        return "done"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(slow)

    first = await harness.worker(flow, lease="10s")
    run = await first.start(flow)
    await harness.advance("1s")
    owner = (await first.engine.runs.detail(run.run_id)).run.owner
    first.pause()
    second = await harness.worker(flow, lease="10s", sweep_every="1s")
    await harness.advance("8s")
    assert (await second.engine.runs.detail(run.run_id)).run.owner == owner
    assert ledger.counts == {"begins": 1}
    await harness.advance("10s")
    assert await harness.result(run) == "done"
    ended = await second.engine.runs.detail(run.run_id)
    assert ended.run.epoch == 2

    assert owner is not None
    with pytest.raises(LeaseLostError):
        await first.wire.behind.runs.claim(Claimant(owner, 1, ("flow@1",)))
    first.resume()
    await harness.advance("1m")
    assert await second.engine.runs.detail(run.run_id) == ended
    assert ledger.counts == {"begins": 2}


async def test_sm_21_a_completed_run_keeps_its_result_and_no_waits(harness: Harness):
    worker = await harness.worker(waiting)
    run = await worker.start(waiting)
    await harness.drain()
    assert len((await worker.engine.runs.detail(run.run_id)).history.waits) == 1
    await worker.signal(run.run_id, "go", [1, 2])
    await harness.drain()

    detail = await worker.engine.runs.detail(run.run_id)
    assert (detail.history.waits, detail.run.wake_at, detail.run.owner) == ((), None, None)
    assert (await harness.status(run)).output == [1, 2]


async def test_sm_22_a_failed_attempt_is_shown_and_retried_and_the_last_one_fails_the_run(
    harness: Harness, ledger: Ledger
):
    @workflow
    async def flow(ctx: Context) -> None:
        policy = Retry(max_attempts=2, initial="10m", max_delay="10m", jitter=0)
        await ctx.step("call", step(ledger.failing("call"), retry=policy))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    assert (await harness.status(run)).status == "waiting"
    assert "after ValueError: call failed" in (await worker.engine.explain(run.run_id)).sentence
    await harness.advance("10m")

    assert (await harness.status(run)).status == "failed"
    with pytest.raises(RunFailed) as caught:
        await harness.result(run)
    assert (caught.value.failure.path, caught.value.failure.attempts) == ("call", 2)


async def test_sm_25_a_step_that_was_saved_before_the_crash_is_not_executed_again(harness: Harness, ledger: Ledger):
    async def second() -> str:
        ledger.note("second")
        if ledger.counts["second"] == 1:
            worker.crash()
            await asyncio.sleep(0)
        return "done"

    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("first", ledger.body("first"))
        return await ctx.step(second)

    worker = await harness.worker(flow, lease="10s")
    client = await harness.client()
    run = await client.start(flow)
    await harness.drain()
    await harness.worker(flow, lease="10s", sweep_every="1s")
    await harness.advance("20s")

    assert await harness.result(run) == "done"
    assert ledger.lines == ["first", "second", "second"]


async def test_sm_27_a_sleep_and_then_a_signal(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> Any:
        await ctx.sleep("pause", "1h")
        return (await ctx.receive("go")).payload

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    kinds = []
    for _ in range(2):
        await harness.drain()
        kinds += (await worker.engine.explain(run.run_id)).facts["waits"]
        await harness.advance("1h")
    await worker.signal(run.run_id, "go", 7)
    await harness.drain()

    assert kinds == ["timer at pause", "signal at go"]
    assert await harness.result(run) == 7


async def test_sm_28_the_idempotency_key_is_the_same_over_attempts_and_no_other(harness: Harness):
    keys: dict[str, set[str]] = {}

    async def call(info: StepContext, name: str) -> None:
        keys.setdefault(name, set()).add(info.idempotency_key)
        if info.attempt < 3:
            raise ConnectionError("again")
        assert info.is_final_attempt

    async def undo(info: StepContext, name: str) -> None:
        keys.setdefault(f"undo {name}", set()).add(info.idempotency_key)
        if info.attempt < 2:
            raise ConnectionError("again")

    @workflow
    async def flow(ctx: Context) -> None:
        for number in range(2):
            await ctx.step(step(call, compensate=undo), f"call {number}")
        await ctx.step("other", call, "other")
        raise ValueError("now undo")

    worker = await harness.worker(flow)
    runs = [await worker.start(flow) for _ in range(2)]
    await harness.advance("1h")

    assert {(await harness.status(run)).status for run in runs} == {"compensated"}
    names = ["call 0", "call 1", "other", "undo call 1", "undo call 0"]
    assert {name: len(found) for name, found in keys.items()} == dict.fromkeys(names, 2)
    assert len(set().union(*keys.values())) == 10


@dataclass
class Parcel:
    weight: int


async def test_sm_31_a_child_knows_its_parent_and_gives_a_typed_result(harness: Harness):
    @workflow
    async def pack(ctx: Context, weight: int) -> Parcel:
        return Parcel(weight)

    @workflow
    async def ship(ctx: Context) -> str:
        parcel = await ctx.child(pack, 7)
        return f"{type(parcel).__name__} of {parcel.weight}"

    worker = await harness.worker(ship, pack)
    run = await worker.start(ship)
    await harness.drain()

    (child,) = await worker.engine.runs.list(RunFilter(parent=run.run_id))
    assert (child.parent, child.input, child.status) == (run.run_id, 7, "completed")
    assert await harness.result(run) == "Parcel of 7"


async def test_sm_34_an_unknown_workflow_is_refused_with_the_nearest_name(harness: Harness):
    worker = await harness.worker(waiting)

    with pytest.raises(UnknownWorkflowError, match="Did you mean 'waiting'"):
        await worker.start("wating")
    assert await worker.engine.runs.list() == []


async def test_sm_36_none_counts_as_done_for_every_kind_of_operation(harness: Harness, ledger: Ledger):
    @workflow
    async def nothing(ctx: Context) -> None:
        ledger.note("child")

    async def joined(ctx: Context) -> None:
        ledger.note("joined")

    async def raced(ctx: Context) -> None:
        ledger.note("raced")

    @workflow
    async def flow(ctx: Context) -> str:
        got: list[Any] = [
            await ctx.step("step", ledger.body("step")),
            await ctx.once("once", lambda: ledger.note("once")),
            await ctx.child(nothing),
            (await ctx.join("join", {"b": joined}))["b"],
            (await ctx.race("race", {"b": raced})).value,
            (await ctx.receive("m")).payload,
        ]
        await ctx.sleep("pause", "1h")
        return str(got)

    worker = await harness.worker(flow, nothing)
    run = await worker.start(flow)
    await worker.signal(run.run_id, "m", None)
    await harness.drain()
    await harness.takeover(worker, flow, nothing)

    assert await harness.result(run) == str([None] * 6)
    # The replay runs the code of a join again, and not that of a race.
    assert ledger.counts == {"step": 1, "once": 1, "child": 1, "joined": 2, "raced": 1}


async def test_sm_19_times_come_from_the_store_and_never_go_back(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> list[datetime]:
        seen = [ctx.now()]
        for _ in range(3):
            await ctx.sleep("pause", "1m")
            seen.append(ctx.now())
        return seen

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("90s")
    harness.clock.jump_back("1h")
    worker = await harness.takeover(worker, flow)
    await harness.advance("3h")

    seen = await harness.result(run)
    assert seen == sorted(seen)
    assert seen[0] == to_datetime((await worker.engine.runs.detail(run.run_id)).run.created_at)


def _saga(ledger: Ledger) -> Any:
    """A step that takes effect and can be undone."""

    async def undo(name: str, result: None) -> None:
        ledger.note(f"undo {name}")

    async def act(name: str) -> None:
        ledger.note(name)

    return step(act, compensate=undo)


async def test_sm_24_a_waiting_run_fails_at_its_deadline_and_is_undone(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step(_saga(ledger), "pay")
        await ctx.receive("approve", timeout="3d")

    worker = await harness.worker(order)
    run = await worker.start(order, deadline="1h")
    await harness.advance("3599s")
    assert (await harness.status(run)).status == "waiting"
    await harness.advance("2s")

    view = await harness.status(run)
    assert (view.status, view.failure.code, view.failure.path) == ("compensated", "SW471", "approve")
    assert view.ended_at is not None
    assert view.deadline_at is not None
    assert timedelta(0) <= view.ended_at - view.deadline_at < timedelta(seconds=2)
    assert ledger.lines == ["pay", "undo pay"]
    with pytest.raises(RunFailed, match="had not ended at its deadline"):
        await harness.result(run)


async def test_sm_24_a_wait_longer_than_max_suspend_fails_the_run_and_is_named(harness: Harness, ledger: Ledger):
    @workflow
    async def order(ctx: Context) -> None:
        await ctx.step(_saga(ledger), "pay")
        await ctx.sleep("short", "50s")
        await ctx.receive("approve", "decline", timeout="3d")

    worker = await harness.worker(order)
    run = await worker.start(order, max_suspend="1m")
    await harness.advance("109s")
    assert (await harness.status(run)).status == "waiting"
    await harness.advance("2s")

    view = await harness.status(run)
    assert (view.status, view.failure.code) == ("compensated", "SW472")
    assert "signal approve or decline" in view.failure.message
    assert ledger.lines == ["pay", "undo pay"]


async def test_sm_07_a_rewind_to_a_repeated_step_drops_every_iteration(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("before", ledger.body("before"))
        for _ in range(3):
            await ctx.step(step(ledger.body("poll"), name="poll"))
        await ctx.receive("go")
        return "done"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    assert await harness.paths(run) == ["before", "poll", "poll#2", "poll#3"]

    plan = await worker.do(worker.engine.repairs.rewind(run.run_id, "poll"))

    assert (plan.kept, plan.dropped) == (("before",), ("poll", "poll#2", "poll#3"))
    await harness.drain()
    assert await harness.paths(run) == ["before", "poll", "poll#2", "poll#3"]
    assert (ledger.counts.get("before", 0), ledger.counts.get("poll", 0)) == (1, 6)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    assert await harness.result(run) == "done"
