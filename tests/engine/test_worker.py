"""Workers: what a run costs, who keeps what in memory, draining, eviction."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from stepwell import Break, Context, Continue, JoinError, Retry, Start, StepContext, step, workflow
from stepwell.clock import SECOND
from stepwell.model.commits import Release
from stepwell.replay.turn import Turn
from stepwell.views import EntryView
from stepwell.virtual.loop import VirtualLoop
from stepwell.worker.execution import Execution
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES

COMMITS = ("runs.create", "runs.apply", "signals.deliver", "runs.claim", "runs.cancel")


def linear(ledger: Ledger, count: int) -> Any:
    @workflow
    async def flow(ctx: Context) -> int:
        for number in range(count):
            await ctx.step("work", step(ledger.body("work", number)))
        return count

    return flow


def reads(node: Node) -> int:
    return node.wire.count("runs.load", "runs.claim", "runs.inbox")


# --- what a run costs ---


@pytest.mark.parametrize("count", [1, 2, 7, 50])
async def test_a_run_of_n_steps_costs_n_plus_one_commits(harness: Harness, ledger: Ledger, count: int):
    flow = linear(ledger, count)
    worker = await harness.worker(flow)
    worker.wire.calls.clear()
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == count
    assert worker.wire.count(*COMMITS) == count + 1
    assert reads(worker) == 0


async def test_a_run_without_steps_costs_two_commits(harness: Harness, ledger: Ledger):
    flow = linear(ledger, 0)
    worker = await harness.worker(flow)
    worker.wire.calls.clear()
    await worker.start(flow)
    await harness.drain()

    assert worker.wire.count(*COMMITS) == 2


async def test_runs_that_step_together_share_their_commits(harness: Harness, ledger: Ledger):
    flow = linear(ledger, 3)
    worker = await harness.worker(flow)
    worker.wire.calls.clear()
    handles = await worker.do(worker.engine.runs.start_many(flow, [Start() for _ in range(100)]))
    await harness.drain()

    assert {await harness.result(handle) for handle in handles} == {3}
    assert worker.wire.count("runs.create") == 1
    assert worker.wire.count("runs.apply") <= 8
    assert reads(worker) == 0


async def test_steps_at_once_share_a_commit(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await asyncio.gather(*[ctx.step(f"s{n}", ledger.body("s")) for n in range(20)])

    worker = await harness.worker(flow)
    await worker.start(flow)
    await harness.drain()

    assert worker.wire.count("runs.apply") <= 3
    assert ledger.counts == {"s": 20}


async def test_a_child_in_the_same_process_needs_no_claim(harness: Harness, ledger: Ledger):
    @workflow
    async def child(ctx: Context) -> int:
        return int(await ctx.step("work", ledger.body("work", 7)))

    @workflow
    async def parent(ctx: Context) -> int:
        return await ctx.child(child)

    worker = await harness.worker(parent, child)
    run = await worker.start(parent)
    await harness.drain()

    assert await harness.result(run) == 7
    assert worker.wire.count("runs.load") == 0 if harness.mode == "live" else True


async def test_a_signal_to_a_waiting_run_in_the_same_process_wakes_it_in_the_same_transaction(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> Any:
        return (await ctx.receive("go")).payload

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker.wire.calls.clear()
    await worker.signal(run.run_id, "go", 1)
    await harness.drain()

    assert await harness.result(run) == 1
    assert worker.wire.count("runs.claim") == 0
    assert worker.wire.count("runs.load") == (0 if harness.mode == "live" else 1)
    assert worker.wire.count(*COMMITS) == 2


async def test_a_short_sleep_is_sat_out_in_live_mode(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.sleep("nap", "500ms")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("100ms")
    assert (await harness.status(run)).status == ("running" if harness.mode == "live" else "waiting")
    await harness.advance("1s")
    assert (await harness.status(run)).status == "completed"


# --- live and yield ---


def everything(ledger: Ledger) -> tuple[Any, ...]:
    @workflow
    async def child(ctx: Context, number: int) -> int:
        await ctx.sleep("pause", "10s")
        return number * 2

    async def body(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("tick", ledger.body(f"tick {turn}"))
        await ctx.sleep("pause", "7s")
        return Break(turn) if turn == 3 else Continue(turn + 1)

    async def bad(ctx: Context) -> None:
        await ctx.step("call", step(ledger.failing("bad"), retry=Retry(initial="3s", jitter=0)))

    @workflow
    async def everything(ctx: Context) -> list[Any]:
        found: list[Any] = [await ctx.step("first", ledger.body("first", 1)), ctx.random(), str(ctx.uuid())]
        found.append(await ctx.loop("l", body, 0, trim_every=2, keep=1))
        found.append(await ctx.child(child, 21))
        try:
            await ctx.join("j", {"bad": bad, "good": lambda c: c.receive("m")})
        except JoinError as error:
            found.append(list(error.errors))
        won = await ctx.race("r", {"a": lambda c: c.sleep("a", "5s"), "b": lambda c: c.receive("never")})
        found += [won.branch, (await ctx.receive("m")).payload, ctx.version("v", 2), ctx.now().isoformat()]
        return found

    return everything, child


async def record(mode: str) -> tuple[Any, ...]:
    """The result, the history and the effects of a run that does everything."""
    ledger = Ledger()
    harness = Harness(STORES["sqlite"](), mode)
    flows = everything(ledger)
    worker = await harness.worker(*flows, hold_max=0)
    run = await worker.start(flows[0], run_id="the-run")
    for number in range(3):
        await harness.advance("20s")
        await worker.signal(run.run_id, "m", number, if_missing="drop")
    await harness.advance("2m")
    result, history = await harness.result(run), await harness.history(run)
    await harness.close()
    return result, history, ledger.lines


def test_both_modes_record_the_same_history():
    seen = []
    for mode in ("live", "yield"):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            seen.append(runner.run(record(mode)))
    (live_result, live_history, live_effects), (result, history, effects) = seen

    assert live_result == result
    assert live_effects == effects
    assert [_comparable(entry) for entry in live_history] == [_comparable(entry) for entry in history]


def _comparable(entry: EntryView) -> dict[str, Any]:
    """Everything but the traces, whose line numbers differ between a first run and a replay."""
    return {**{name: getattr(entry, name) for name in EntryView.__slots__}, "failure": entry.failure and "failed"}


# --- memory ---


@workflow
async def listening(ctx: Context) -> Any:
    SEEN.append(ctx.run_id)
    return (await ctx.receive("go")).payload


SEEN: list[str] = []


@pytest.mark.parametrize("cache_max", [0, 3, 100])
async def test_waiting_code_is_kept_up_to_a_limit_and_replayed_beyond_it(harness: Harness, cache_max: int):
    SEEN.clear()
    worker = await harness.worker(listening, cache_max=cache_max)
    runs = [await worker.start(listening) for _ in range(10)]
    await harness.drain()
    local = worker.engine._worker
    assert local is not None
    kept = min(10, cache_max) if harness.mode == "live" else 0
    assert (len(local._executions.code_cache), local.active) == (kept, 0)
    for number, run in enumerate(runs):
        await worker.signal(run.run_id, "go", number)
        await harness.drain()

    assert [await harness.result(run) for run in runs] == list(range(10))
    assert len(SEEN) == 20 - kept
    assert len(local._executions.code_cache) == 0


async def test_code_that_was_kept_is_not_used_after_somebody_else_had_the_run(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        first = (await ctx.receive("a")).payload
        await ctx.step("between", ledger.body("between"))
        return [first, (await ctx.receive("b")).payload]

    one = await harness.worker(flow)
    run = await one.start(flow)
    await harness.drain()
    one.pause()
    two = await harness.worker(flow)
    await two.signal(run.run_id, "a", 1)
    await harness.drain()
    await two.shutdown()
    harness.nodes.remove(two)
    one.resume()
    await harness.drain()
    await one.signal(run.run_id, "b", 2)
    await harness.drain()

    assert await harness.result(run) == [1, 2]
    assert ledger.lines == ["between"]


async def test_an_evicted_run_goes_on_without_a_loss(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        ledger.note("slow")
        await asyncio.sleep(10)
        return "slow"

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        return [await ctx.step(slow), await ctx.step("quick", ledger.body("quick", "quick"))]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1s")
    await worker.do(worker.engine.workers.evict(run.run_id))
    await harness.advance("20s")

    assert await harness.result(run) == ["slow", "quick"]
    assert ledger.lines == ["slow", "quick"]
    assert any(isinstance(commit.move, Release) for _, commit, _ in worker.wire.answers)


async def test_an_evicted_run_begins_what_is_recorded_to_begin_at_most_once(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        await asyncio.sleep(10)
        return "slow"

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        charge = step(at_most_once=True)(ledger.body("charge", "charged"))
        return [
            await ctx.step(slow),
            await ctx.step("charge", charge),
            await ctx.step("last", ledger.body("last", "last")),
        ]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1s")
    await worker.do(worker.engine.workers.evict(run.run_id))
    await harness.advance("20s")

    assert await harness.result(run) == ["slow", "charged", "last"]
    assert ledger.lines == ["charge", "last"]
    assert any(isinstance(commit.move, Release) for _, commit, _ in worker.wire.answers)


async def test_code_that_is_torn_down_needs_no_collector(harness: Harness):
    @workflow
    async def waiting(ctx: Context) -> None:
        await ctx.sleep("nap", "1h")

    @workflow
    async def calling(ctx: Context) -> None:
        await ctx.child(waiting)

    @workflow
    async def failing(ctx: Context) -> None:
        raise RuntimeError("no")

    worker = await harness.worker(waiting, calling, failing, listening, cache_max=0)
    gc.collect()
    gc.disable()
    try:
        for flow in (waiting, calling, failing, listening):
            await worker.start(flow)
        await harness.drain()

        assert [one for one in gc.get_objects() if isinstance(one, Turn)] == []
    finally:
        gc.enable()


async def test_an_execution_that_has_ended_needs_no_collector(harness: Harness):
    async def plain() -> None:
        await asyncio.sleep(1)

    async def telling(ctx: StepContext) -> None:
        ctx.heartbeat(1)
        await asyncio.sleep(1)

    async def broken() -> None:
        raise RuntimeError("no")

    @workflow
    async def stepping(ctx: Context) -> None:
        await ctx.step("plain", step(plain, timeout="10s"))
        await ctx.step("telling", telling)

    @workflow
    async def sleeping(ctx: Context) -> None:
        await ctx.sleep("nap", "1s")

    @workflow
    async def failing(ctx: Context) -> None:
        await ctx.step("broken", step(broken, retry=Retry(max_attempts=1)))

    @workflow
    async def cancelled(ctx: Context) -> None:
        await ctx.step("telling", telling)
        await ctx.sleep("nap", "1h")

    worker = await harness.worker(stepping, sleeping, failing, cancelled, cache_max=0)
    gc.collect()
    gc.disable()
    try:
        runs = [await worker.start(flow, deadline="1h") for flow in (stepping, sleeping, failing, cancelled)]
        await harness.advance("5s")
        await runs[-1].cancel()
        await harness.advance("5s")

        assert [one for one in gc.get_objects() if isinstance(one, Execution)] == []
        ends = [(await run.status()).status for run in runs]
        assert ends == ["completed", "completed", "failed", "cancelled"]
    finally:
        gc.enable()


# --- leaving ---


async def test_a_worker_that_leaves_lets_bodies_end_and_gives_the_rest_back(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        ledger.note("begins")
        await asyncio.sleep(5)
        ledger.note("ends")
        return "done"

    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("slow", slow)
        return str(await ctx.step("second", ledger.body("second", "second")))

    worker = await harness.worker(flow)
    client = await harness.client()
    run = await worker.start(flow)
    await harness.advance("1s")
    before = harness.clock.now()
    await worker.shutdown()
    harness.nodes.remove(worker)

    assert (harness.clock.now() - before) / SECOND == pytest.approx(4, abs=0.1)
    view = await harness.status(run)
    assert (view.status, await harness.paths(run)) == ("pending", ["slow"])
    assert ledger.lines == ["begins", "ends"]
    assert await client.wire.store.views.list_workers() == []
    await harness.worker(flow)
    await harness.drain()
    assert await harness.result(run) == "second"
    assert ledger.lines == ["begins", "ends", "second"]


async def test_a_body_that_outlasts_the_grace_time_is_stopped_and_run_elsewhere(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        ledger.note("begins")
        await asyncio.sleep(60)
        return "done"

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(slow)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1s")
    before = harness.clock.now()
    await worker.shutdown(grace=3)
    harness.nodes.remove(worker)
    assert (harness.clock.now() - before) / SECOND == pytest.approx(3, abs=0.1)
    await harness.worker(flow)
    await harness.advance("2m")

    assert await harness.result(run) == "done"
    assert ledger.counts == {"begins": 2}
    detail = await harness.nodes[-1].engine.runs.detail(run.run_id)
    assert detail.run.stalls == 0


async def test_a_leaving_worker_takes_nothing_more(harness: Harness, ledger: Ledger):
    async def slow() -> None:
        await asyncio.sleep(5)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(slow)

    worker = await harness.worker(flow)
    client = await harness.client()
    await worker.start(flow)
    await harness.advance("1s")
    leaving = asyncio.ensure_future(worker.shutdown())
    await harness.advance("1s")
    run = await client.start(flow)
    await harness.advance("10s")
    await leaving
    harness.nodes.remove(worker)

    assert (await harness.status(run)).status == "pending"


async def test_leaving_twice_or_without_work_is_harmless(harness: Harness):
    worker = await harness.worker(listening)
    await worker.shutdown()
    await worker.shutdown()
    harness.nodes.remove(worker)
    await harness.client()


# --- others ---


async def test_a_timer_is_taken_ahead_as_soon_as_an_eighth_of_the_room_is_free(harness: Harness, mode: str):
    gates = [asyncio.Event() for _ in range(15)]

    @workflow
    async def busy(ctx: Context, number: int) -> None:
        await ctx.step("work", gates[number].wait)

    @workflow
    async def napping(ctx: Context) -> None:
        await ctx.sleep("nap", "5s")

    worker = await harness.worker(busy, napping, runs_max=16, claim_ahead="2s", sweep_every="1h")
    nap = await worker.start(napping)
    for number in range(15):
        await worker.start(busy, number)
    await harness.advance("4s")
    assert (await harness.status(nap)).status == "waiting"

    gates[0].set()
    await harness.drain()
    assert (await harness.status(nap)).status == ("running" if mode == "live" else "waiting")

    await harness.advance("1s")
    assert (await harness.status(nap)).status == "completed"
    for gate in gates:
        gate.set()


async def test_two_workers_share_the_work_and_repeat_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context, number: int) -> int:
        for turn in range(3):
            await ctx.step("work", step(ledger.body(f"{number}.{turn}")))
            await ctx.sleep("pause", "5s")
        return number

    workers = [await harness.worker(flow, sweep_every="1s") for _ in range(2)]
    client = await harness.client()
    runs = [await client.start(flow, number) for number in range(20)]
    await harness.advance("1m")

    assert [await harness.result(run) for run in runs] == list(range(20))
    assert set(ledger.counts.values()) == {1}
    assert all(worker.wire.count("runs.claim") > 0 for worker in workers)


async def test_a_defect_in_one_run_leaves_the_others_alone(harness: Harness, ledger: Ledger):
    @workflow
    async def good(ctx: Context) -> str:
        await ctx.sleep("pause", "5s")
        return "good"

    @workflow
    async def bad(ctx: Context) -> None:
        ctx._scope.turn.journal.last_seq += 1  # what only a defect of our own could do
        await ctx.step("work", ledger.body("work"))

    worker = await harness.worker(good, bad)
    runs = [await worker.start(flow) for flow in (good, bad, good)]
    await harness.advance("10s")

    assert [(await harness.status(run)).status for run in runs] == ["completed", "paused", "completed"]


async def test_an_engine_needs_no_worker_to_be_a_client(harness: Harness):
    worker = await harness.worker(listening)
    client = await harness.client()
    run = await client.start(listening)
    await client.signal(run.run_id, "go", "from outside")
    await harness.drain()

    assert await client.engine.result(run.run_id) == "from outside"
    assert worker.wire.count("runs.claim") >= 1
