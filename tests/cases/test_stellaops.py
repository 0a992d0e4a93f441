"""StellaOps' cases: stale timers, crashes between reading and committing, an absent store, lost hints, idleness."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Retry, RunPaused, WaitTimeout, step, workflow
from stepwell.care import Retention
from stepwell.clock import SECOND
from stepwell.engine.retention import PruneReport, Retentions
from stepwell.errors import StoreUnavailableError
from stepwell.stores.base.views import RunFilter
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger

SCANS = ("runs.claim", "views.next_wake", "runs.load", "views.list_runs", "runs.rescue")


def timed(ledger: Ledger) -> Any:
    @workflow
    async def timed(ctx: Context) -> str:
        try:
            message = await ctx.receive("go", timeout="1h")
        except WaitTimeout:
            return "timeout"
        await ctx.step("went", ledger.body("went"))
        await ctx.receive("end")
        return str(message.payload)

    return timed


async def test_st_06_a_timer_that_a_signal_ended_early_fires_in_vain(harness: Harness, ledger: Ledger):
    flow = timed(ledger)
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10m")
    await worker.signal(run.run_id, "go", "early")
    await harness.drain()
    before = (await worker.engine.runs.detail(run.run_id)).run

    await harness.advance("2h")
    assert (await worker.engine.runs.detail(run.run_id)).run == before

    await worker.signal(run.run_id, "end")
    await harness.drain()
    assert await harness.result(run) == "early"
    assert ledger.lines == ["went"]


async def test_st_07_a_timer_that_was_set_anew_fires_at_the_new_time_only(harness: Harness, ledger: Ledger):
    async def wait(ctx: Context, turns: int) -> Continue[int] | Break[int]:
        try:
            await ctx.receive("again", timeout="1h")
        except WaitTimeout:
            await ctx.step("fired", ledger.body("fired"))
            return Break(turns)
        return Continue(turns + 1)

    @workflow
    async def debounce(ctx: Context) -> int:
        return await ctx.loop("wait", wait, 0)

    worker = await harness.worker(debounce)
    run = await worker.start(debounce)
    await harness.advance("30m")
    await worker.signal(run.run_id, "again")
    await harness.advance("45m")
    assert ((await harness.status(run)).status, ledger.lines) == ("waiting", [])
    await harness.advance("14m")
    assert ledger.lines == []
    await harness.advance("1m")

    assert await harness.result(run) == 1
    assert ledger.lines == ["fired"]


async def test_st_09_a_signal_that_a_dying_worker_had_read_is_processed_by_another(harness: Harness, ledger: Ledger):
    flow = timed(ledger)
    worker = await harness.worker(flow, lease="10s")
    run = await worker.start(flow)
    await harness.drain()

    async def die(name: str) -> None:
        if name == "runs.apply":
            worker.crash()

    worker.wire.before = die
    sender = await harness.client()
    await sender.signal(run.run_id, "go", "kept")
    await harness.drain()
    assert worker.process.is_stopped
    other = await harness.worker(flow, lease="10s", sweep_every="1s")
    await harness.advance("15s")
    await sender.signal(run.run_id, "end")
    await harness.drain()

    assert await harness.result(run) == "kept"
    assert ledger.lines == ["went"]
    assert other.engine is not worker.engine


async def test_st_10_a_worker_that_was_overtaken_writes_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.sleep("pause", "1m")
        return str(await ctx.step("who", ledger.body("who", "me")))

    slow = await harness.worker(flow, lease="10s")
    run = await slow.start(flow)
    await harness.drain()

    async def stall(name: str) -> None:
        if name == "runs.apply":
            slow.pause()

    slow.wire.before = stall
    await harness.advance("1m")
    assert slow.process.is_stopped
    await harness.worker(flow, lease="10s", sweep_every="1s")
    await harness.advance("1m")
    done = await harness.nodes[1].engine.runs.detail(run.run_id)
    slow.wire.before = _pass
    slow.resume()
    await harness.advance("1m")

    assert done.run.status == "completed"
    assert await harness.nodes[1].engine.runs.detail(run.run_id) == done
    assert slow.wire.answers[-1][2].verdict == "fenced"


async def _pass(_: str) -> None:
    return None


async def test_st_12_timers_and_signals_wait_for_the_first_worker_to_come_back(harness: Harness, ledger: Ledger):
    @workflow
    async def sleeper(ctx: Context) -> str:
        await ctx.sleep("night", "1d")
        return "woke"

    flow = timed(ledger)
    worker = await harness.worker(sleeper, flow)
    sleeping = await worker.start(sleeper)
    listening = await worker.start(flow)
    await harness.drain()
    await worker.shutdown()
    harness.nodes.remove(worker)
    client = await harness.client()
    await client.signal(listening.run_id, "go", "posted")
    await client.signal(listening.run_id, "end")
    await harness.advance("2d")
    assert (await harness.status(sleeping)).status == "waiting"

    await harness.worker(sleeper, flow)
    await harness.drain()
    assert await harness.result(sleeping) == "woke"
    assert await harness.result(listening) == "posted"


async def test_st_13_workers_wait_for_a_store_that_is_away_and_lose_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        done = []
        for number in range(5):
            done.append(await ctx.step(step(ledger.body(f"step {number}", str(number)), name="work")))
            await ctx.sleep("pause", "10s")
        return done

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    for _ in range(4):
        await harness.advance("7s")
        worker.wire.is_down = True
        await harness.advance("30s")
        worker.wire.is_down = False
    await harness.advance("10m")

    assert await harness.result(run) == ["0", "1", "2", "3", "4"]
    assert ledger.counts == {f"step {number}": 1 for number in range(5)}


async def test_st_13_a_request_to_a_store_that_is_away_for_a_moment_succeeds(harness: Harness, ledger: Ledger):
    flow = timed(ledger)
    worker = await harness.worker(flow)
    failures = 5

    async def away(_: str) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StoreUnavailableError("the store is away")

    worker.wire.before = away
    run = await worker.start(flow, key="k")
    failures = 5
    worker.wire.after = away  # what was asked has happened, and the answer is lost
    worker.wire.before = _pass
    await worker.signal("k", "go", "held out")
    failures = 5
    await worker.signal("k", "end")
    await harness.advance("1m")

    assert run.is_new
    assert await harness.result(run) == "held out"


async def test_st_15_a_run_whose_definition_is_missing_is_a_letter_until_it_is_deployed(
    harness: Harness, ledger: Ledger
):
    @workflow(version=2)
    async def flow(ctx: Context) -> str:
        return str(await ctx.step("work", ledger.body("work", "done")))

    @workflow(name="flow", version=1)
    async def old(ctx: Context) -> str:
        return "old"

    worker = await harness.worker(old)
    client = await harness.client()
    run = await client.start(flow)
    await harness.advance("1d")

    assert (await harness.status(run)).status == "pending"
    assert "no worker for flow version 2" in (await client.engine.explain(run.run_id)).sentence
    [letter] = await client.engine.dead_letters.list()
    assert (letter.kind, letter.run_id, letter.workflow) == ("unserved", run.run_id, "flow")
    await harness.deploy(worker, old, flow)
    await harness.drain()
    assert await harness.result(run) == "done"
    assert await client.engine.dead_letters.list() == []


async def test_st_16_a_run_that_kills_its_workers_is_a_letter_and_can_be_resumed(
    harness: Harness, ledger: Ledger, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "stepwell.worker")
    victims: list[Node] = []
    is_poison = True

    async def deadly() -> str:
        ledger.note("deadly")
        if is_poison:
            victims[-1].crash()
            await asyncio.sleep(0)
            raise AssertionError("dead processes do not go on")
        return "tamed"

    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("safe", ledger.body("safe"))
        return await ctx.step(deadly)

    settings: dict[str, Any] = {"lease": "10s", "sweep_every": "1s", "stalls_max": 3}
    client = await harness.client()
    run = await client.start(flow)
    for _ in range(3):
        victims.append(await harness.worker(flow, **settings))
        await harness.advance("1m")
    watcher = await harness.worker(flow, **settings)
    await harness.advance("1m")

    with pytest.raises(RunPaused, match="lost its worker 3 times") as caught:
        await harness.result(run)
    assert (caught.value.failure.code, caught.value.failure.path) == ("SW202", "deadly")
    assert ledger.counts == {"safe": 1, "deadly": 3}
    [letter] = await client.engine.dead_letters.list()
    assert (letter.kind, letter.run_id, letter.code) == ("poison", run.run_id, "SW202")
    words = f"PoisonError: run {run.run_id} lost its worker 3 times without any progress"
    assert f"flow {run.run_id} is paused at deadly: {words}" in caplog.messages
    is_poison = False
    assert await watcher.do(watcher.engine.holds.resume(run.run_id))
    await harness.advance("1m")
    assert await harness.result(run) == "tamed"


async def test_st_18_everything_completes_when_every_hint_is_lost(harness: Harness, ledger: Ledger):
    @workflow
    async def child(ctx: Context) -> str:
        await ctx.sleep("pause", "5s")
        return str((await ctx.receive("go")).payload)

    @workflow
    async def parent(ctx: Context) -> list[str]:
        policy = Retry(initial="3s", jitter=0)
        called = await ctx.step("call", step(ledger.failing("call", times=1, value="called"), retry=policy))
        return [called, await ctx.child(child, key="child")]

    settings: dict[str, Any] = {"sweep_every": "1s"}
    workers = [await harness.worker(parent, child, **settings) for _ in range(2)]
    client = await harness.client()
    for node in (*workers, client):
        node.wire.drops_hints = True
    run = await client.start(parent)
    await harness.advance("20s")
    await client.signal("child", "go", "heard")
    await harness.advance("20s")

    assert await harness.result(run) == ["called", "heard"]
    assert ledger.counts == {"call": 2}


async def test_st_18_a_cancel_reaches_an_owned_run_without_hints(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        for _ in range(100):
            await ctx.sleep("tick", "500ms")

    worker = await harness.worker(flow, lease="3s", sweep_every="1s")
    client = await harness.client()
    run = await client.start(flow)
    worker.wire.drops_hints = True
    await harness.advance("2s")
    await client.do(client.engine.cancel(run.run_id))
    await harness.advance("5s")

    assert (await harness.status(run)).status == "cancelled"


async def test_st_19_a_worker_with_nothing_due_looks_for_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def sleeper(ctx: Context) -> str:
        await ctx.sleep("night", "1d")
        return "woke"

    worker = await harness.worker(sleeper, sweep_every="2h")
    run = await worker.start(sleeper)
    await harness.drain()
    before = worker.wire.count(*SCANS)
    await harness.advance("1m")
    assert worker.wire.count(*SCANS) == before
    await harness.advance("1d")

    assert await harness.result(run) == "woke"


async def test_st_21_one_worker_prunes_and_another_goes_on_when_it_dies(harness: Harness):
    @workflow
    async def quick(ctx: Context, number: int) -> int:
        return number

    keeps = Retention(completed="1h")
    client = await harness.client()
    one = await harness.worker(quick, lease="10s", sweep_every="5s")
    for number in range(3):
        await one.start(quick, number)
    await harness.advance("2h")
    care = [Retentions(client.engine._backend, keeps, ["quick"]) for _ in range(2)]

    assert await care[0].begin_round("first") is None
    kept_out_until = await care[1].begin_round("second")
    assert kept_out_until is not None
    assert await care[0].note_round("first", PruneReport(), is_over=False)
    await harness.advance((kept_out_until - client.engine.now()) / SECOND + 600)  # it says nothing any more
    assert await care[1].begin_round("second") is None
    assert not await care[0].note_round("first", PruneReport(runs=3), is_over=True)  # it was overtaken
    work = care[1].begin()
    report = await work.finish()
    assert await care[1].note_round("second", report, is_over=True)

    assert (report.runs, await client.engine.runs.list()) == (3, [])
    [last] = await care[1].rounds()
    assert (last.worker, last.runs, last.is_running) == ("second", 3, False)


async def test_st_24_a_crash_between_child_and_parent_leaves_no_orphan(harness: Harness, ledger: Ledger):
    @workflow
    async def grandchild(ctx: Context) -> int:
        await ctx.receive("go")
        return int(await ctx.step("deep", ledger.body("deep", 1)))

    @workflow
    async def child(ctx: Context) -> int:
        return 10 + await ctx.child(grandchild, key="deep")

    @workflow
    async def parent(ctx: Context) -> int:
        below = await ctx.child(child)
        return int(await ctx.step("merge", ledger.body("merge", 100 + below)))

    flows = (parent, child, grandchild)
    worker = await harness.worker(*flows)
    run = await worker.start(parent)
    await harness.drain()
    await worker.signal("deep", "go")
    applied = 0

    async def die(name: str) -> None:
        nonlocal applied
        applied += name == "runs.apply"
        if applied == 2:
            worker.crash()

    worker.wire.after = die
    await harness.drain()
    assert worker.process.is_stopped
    assert await harness.orphans() == []
    await harness.worker(*flows)
    await harness.advance("2h")

    assert await harness.result(run) == 111
    assert ledger.lines == ["deep", "merge"]
    for each in await harness.nodes[-1].engine.runs.list(RunFilter()):
        assert each.status == "completed"


async def test_st_25_continuing_ends_the_old_run_and_begins_the_new_one_in_one_commit(harness: Harness):
    @workflow
    async def flow(ctx: Context, round: int) -> int:
        if round == 0:
            ctx.continue_as_new(1)
        await ctx.receive("go")
        return round

    client = await harness.client()
    worker = await harness.worker(flow)
    seen: list[list[tuple[str, int]]] = []

    async def look(name: str) -> None:
        if name == "runs.apply":
            runs = await client.engine.runs.list()
            seen.append(sorted((run.status, run.generation) for run in runs))

    worker.wire.before = worker.wire.after = look
    await worker.start(flow, 0, key="k")
    await harness.drain()

    assert seen[:2] == [[("running", 1)], [("continued", 1), ("pending", 2)]]
