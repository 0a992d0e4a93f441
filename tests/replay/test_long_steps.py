"""Long steps: what they keep, how they give their slot back, and a fault at every call to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Budget, Context, Fatal, Retry, Rollback, RunFailed, StepContext, StepFailed, step, workflow
from stepwell.errors import OutsideStepError
from stepwell.model.commits import Park
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import Program, sweep

TWICE = Retry(max_attempts=2, initial="10ms")


@dataclass
class Cursor:
    page: int = 0
    rows: int = 0


def paged(ledger: Ledger, pages: int, begun: list[int] | None = None) -> Callable[..., Awaitable[int]]:
    """A body that works off pages of ten rows, and notes every page."""

    async def load(info: StepContext) -> int:
        cursor = info.state_as(Cursor, Cursor())
        if begun is not None:
            begun.append(cursor.page)
        while cursor.page < pages:
            ledger.note(f"page {cursor.page}")
            cursor = Cursor(cursor.page + 1, cursor.rows + 10)
            info.count(rows=10)
            info.progress(cursor.page, pages, unit="pages")
            if info.should_yield() and cursor.page < pages:
                info.yield_(cursor)
            await info.checkpoint(cursor)
        return cursor.rows

    return load


def yielding(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[int]:
        first = await ctx.step("load", step(paged(ledger, 5), budget=Budget(rows=20)))
        return [first, await ctx.step("after", ledger.act, 7)]

    return Program(program, lasts="1m")


def side_by_side(ledger: Ledger) -> Program:
    async def quick(ctx: Context) -> int:
        await ctx.sleep("nap", "2s")
        return int(await ctx.step("quick", ledger.act, 1))

    async def long(ctx: Context) -> int:
        return await ctx.step("load", step(paged(ledger, 5), budget=Budget(rows=20)))

    async def other(ctx: Context) -> int:
        return await ctx.step("load", step(paged(Ledger(), 3), budget=Budget(rows=10)))

    @workflow
    async def program(ctx: Context) -> dict[str, int]:
        return await ctx.join("all", {"quick": quick, "long": long, "other": other})

    return Program(program, lasts="1m")


def failing_after_checkpoints(ledger: Ledger) -> Program:
    async def load(info: StepContext) -> list[Any]:
        begun = info.state or 0
        ledger.note("load")
        await info.checkpoint(begun + 1)
        info.heartbeat(begun + 2)
        if info.attempt == 1:
            raise ValueError("once")
        return [begun, info.attempt]

    @workflow
    async def program(ctx: Context) -> list[Any]:
        return await ctx.step(step(load, retry=TWICE))

    return Program(program, lasts="1m")


def undoing_in_turns(ledger: Ledger) -> Program:
    async def undo(info: StepContext) -> None:
        page = info.state or 0
        ledger.note(f"undo {page}")
        if page < 2:
            info.yield_(page + 1)

    @workflow
    async def program(ctx: Context) -> None:
        await ctx.step("act", step(ledger.act, compensate=undo))
        raise Rollback("enough")

    return Program(program, lasts="1m")


SWEEPS: dict[str, tuple[Any, str, Any]] = {
    "yields": (yielding, "completed", [50, 7]),
    "yields beside others": (side_by_side, "completed", {"quick": 1, "long": 50, "other": 30}),
    "checkpoints before a failure": (failing_after_checkpoints, "completed", [2, 2]),
    "undoing in turns": (undoing_in_turns, "compensated", None),
}


@pytest.mark.parametrize("name", ["yields", "yields beside others", "undoing in turns"])
async def test_a_fault_at_any_call_changes_nothing(mode: str, name: str):
    build, status, output = SWEEPS[name]

    outcome = await sweep(build, mode)

    assert (outcome.status, outcome.output) == (status, output)


async def test_a_lost_answer_at_any_call_changes_nothing_before_a_failure(mode: str):
    outcome = await sweep(failing_after_checkpoints, mode, "lost")

    assert (outcome.status, outcome.output) == ("completed", [2, 2])


async def test_the_next_turn_goes_on_where_the_last_one_ended(harness: Harness, ledger: Ledger):
    begun: list[int] = []

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step("load", step(paged(ledger, 5, begun), budget=Budget(rows=20)))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")

    assert (await harness.result(run), begun) == (50, [0, 2, 4])
    [load] = await harness.history(run)
    assert (load.attempts, load.failed_attempts) == (1, ())
    assert (await worker.engine.runs.detail(run.run_id)).history.progress == ()


async def test_a_step_that_gives_its_slot_back_lets_others_go_first(harness: Harness, ledger: Ledger):
    async def turns(info: StepContext, name: str) -> str:
        turn = info.state or 0
        ledger.note(f"{name} {turn}")
        await asyncio.sleep(1)
        if turn < 2:
            info.yield_(turn + 1)
        return name

    @workflow
    async def flow(ctx: Context, name: str) -> str:
        return await ctx.step(turns, name)

    worker = await harness.worker(flow, runs_max=1)
    runs = [await worker.start(flow, name) for name in "ab"]
    await harness.advance("10s")

    assert [await harness.result(run) for run in runs] == ["a", "b"]
    assert ledger.lines == ["a 0", "b 0", "a 1", "b 1", "a 2", "b 2"]


async def test_beside_a_running_body_a_yield_goes_on_at_once(harness: Harness, ledger: Ledger):
    async def slow() -> str:
        await asyncio.sleep(3600)
        return "slow"

    begun: list[int] = []

    @workflow
    async def flow(ctx: Context) -> list[Any]:
        load = ctx.step("load", step(paged(ledger, 5, begun), budget=Budget(rows=20)))
        return list(await asyncio.gather(load, ctx.step("slow", slow)))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    assert begun == [0, 2, 4]
    assert not [commit for _, commit, _ in harness.answers if isinstance(commit.move, Park)]
    await harness.advance("2h")
    assert await harness.result(run) == [50, "slow"]


async def test_a_checkpoint_is_durable_when_it_returns(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.step(load)

    async def load(info: StepContext) -> Any:
        ledger.note(f"{info.state} {info.attempt}")
        if info.state is None:
            await info.checkpoint({"page": 3})
            worker.crash()
            await asyncio.sleep(3600)
        return info.state

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    await harness.takeover(worker, flow)

    assert await harness.result(run) == {"page": 3}
    assert ledger.lines == ["None 1", "{'page': 3} 1"]


async def test_heartbeats_are_written_once_a_second_and_the_latest_counts(harness: Harness):
    async def load(info: StepContext) -> Any:
        if info.state is not None:
            return info.state
        for number in range(1, 31):
            info.heartbeat(number)
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.9)
        worker.crash()
        await asyncio.sleep(3600)

    @workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.step(load)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")
    written = [commit.progress[0].state for _, commit, _ in harness.answers if commit.progress]
    await harness.takeover(worker, flow)

    assert await harness.result(run) == 30
    assert written == [b"j1", b"j10", b"j20", b"j30"]


async def test_an_attempt_that_fails_keeps_its_latest_heartbeat(harness: Harness):
    async def load(info: StepContext) -> Any:
        if info.attempt == 1:
            for number in range(5):
                info.heartbeat(number)
            raise ValueError("once")
        return info.state

    @workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.step(step(load, retry=TWICE))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    assert await harness.result(run) == 4


async def test_a_retry_by_an_operator_goes_on_from_the_last_checkpoint(harness: Harness):
    is_mended = False

    async def load(info: StepContext) -> Any:
        if not is_mended:
            await info.checkpoint("nearly there")
            raise Fatal("not now")
        return info.state

    @workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.step(load)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    with pytest.raises(RunFailed, match="not now"):
        await harness.result(run)
    is_mended = True
    await worker.do(worker.engine.repairs.retry(run.run_id))
    await harness.drain()

    assert await harness.result(run) == "nearly there"
    assert (await worker.engine.runs.detail(run.run_id)).history.progress == ()


async def test_a_run_that_catches_the_failure_leaves_no_progress_behind(harness: Harness):
    async def load(info: StepContext) -> None:
        await info.checkpoint(1)
        raise Fatal("no")

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(load)
        except StepFailed:
            return "caught"
        return "done"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == "caught"
    assert (await worker.engine.runs.detail(run.run_id)).history.progress == ()


async def test_a_loser_of_a_race_leaves_no_progress_behind(harness: Harness):
    async def slow(info: StepContext) -> None:
        await info.checkpoint(1)
        await asyncio.sleep(3600)

    async def loser(ctx: Context) -> None:
        await ctx.step(slow)

    async def winner(ctx: Context) -> None:
        await ctx.sleep("nap", "5s")

    @workflow
    async def flow(ctx: Context) -> str:
        won = (await ctx.race("who", {"loser": loser, "winner": winner})).branch
        await ctx.sleep("later", "1h")
        return won

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")

    assert (await worker.engine.runs.detail(run.run_id)).history.progress == ()
    await harness.advance("2h")
    assert await harness.result(run) == "winner"


async def test_a_worker_about_to_leave_asks_long_steps_to_yield(harness: Harness, ledger: Ledger):
    async def load(info: StepContext) -> int:
        page = info.state or 0
        ledger.note(f"from {page}")
        while page < 60:
            page += 1
            await asyncio.sleep(1)
            if info.should_yield():
                info.yield_(page)
        return page

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step(load)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("9500ms")
    await harness.deploy(worker, flow)
    await harness.advance("2m")

    assert await harness.result(run) == 60
    assert ledger.lines == ["from 0", "from 10"]


async def test_a_time_budget_is_nearly_used_at_nine_tenths(harness: Harness):
    asked: list[bool] = []

    async def load(info: StepContext) -> None:
        for _ in range(10):
            await asyncio.sleep(1)
            asked.append(info.should_yield())

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(load, budget="10s"))

    worker = await harness.worker(flow)
    await worker.start(flow)
    await harness.advance("1m")

    assert asked == [False] * 8 + [True] * 2


@pytest.mark.parametrize(("portion", "asks_after"), [(100, 10), (300, 3), (1_500, 1)])
async def test_rows_and_bytes_are_nearly_used_when_another_portion_would_not_fit(
    harness: Harness, portion: int, asks_after: int
):
    async def load(info: StepContext, kind: str) -> int:
        times = 0
        while not info.should_yield():
            info.count(**{kind: portion})
            times += 1
        return times

    @workflow
    async def flow(ctx: Context) -> list[int]:
        rows = await ctx.step("rows", step(load, budget=Budget(rows=1_000)), "rows")
        return [rows, await ctx.step("bytes", step(load, budget=Budget(bytes=1_000)), "bytes")]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == [asks_after, asks_after]


async def test_a_cancel_ends_a_run_whose_long_step_waits_for_its_turn(harness: Harness, ledger: Ledger):
    async def endless(info: StepContext) -> None:
        ledger.note("turn")
        await asyncio.sleep(1)
        info.yield_(None)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(endless)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("3500ms")
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.advance("10s")

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.counts == {"turn": 4}
    assert (await worker.engine.runs.detail(run.run_id)).history.progress == ()


async def test_how_far_it_is_can_be_seen(harness: Harness):
    async def load(info: StepContext) -> None:
        info.progress(40, 100, unit="rows", note="north")
        info.heartbeat({"page": 4})
        await asyncio.sleep(3600)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(load)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2s")
    [seen] = (await harness.status(run)).progress

    assert (seen.path, seen.done, seen.total, seen.unit, seen.note) == ("load", 40, 100, "rows", "north")
    assert (seen.words, seen.state, seen.turns) == ("40 of 100 rows (40 %), north", {"page": 4}, 0)
    explained = await worker.engine.explain(run.run_id)
    assert explained.sentence.endswith("is running: worker worker-0 executes it.")
    assert explained.notes == ("load is at 40 of 100 rows (40 %), north.",)
    await harness.advance("2h")
    assert (await harness.status(run)).progress == ()


async def test_a_waiting_turn_is_explained(harness: Harness):
    has_yielded = False

    async def load(info: StepContext) -> None:
        nonlocal has_yielded
        if info.state is None:
            info.progress(1, 2)
            has_yielded = True
            info.yield_(1)

    async def later(name: str) -> None:
        if name == "runs.claim" and has_yielded:
            await asyncio.sleep(300)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(load)

    worker = await harness.worker(flow)
    run = await worker.start(flow, delay="1h")
    worker.wire.before = later
    await harness.advance("61m")
    client = await harness.client()
    explained = await client.engine.explain(run.run_id)

    assert "it is due, and waits for a free slot on worker worker-0" in explained.sentence
    assert explained.notes == ("load is at 1 of 2 (50 %).",)
    await harness.advance("10m")
    assert (await harness.status(run)).status == "completed"


# --- bad input -----------------------------------------------------------------------------------


async def test_a_context_that_outlives_its_step_says_so(harness: Harness):
    kept: list[StepContext] = []

    async def load(info: StepContext) -> None:
        kept.append(info)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(load)

    worker = await harness.worker(flow)
    await worker.start(flow)
    await harness.drain()

    [info] = kept
    with pytest.raises(OutsideStepError, match="`yield_` of the context of step load"):
        info.yield_(1)
    with pytest.raises(OutsideStepError):
        info.heartbeat(1)
    with pytest.raises(OutsideStepError):
        info.should_yield()
    with pytest.raises(OutsideStepError, match="`emit` of the context of step load"):
        info.emit("late")
    with pytest.raises(OutsideStepError, match="`stream` of the context of step load"):
        info.stream("log").write("late")
    with pytest.raises(OutsideStepError):
        await info.stream("log").append("late")
    with pytest.raises(OutsideStepError) as caught:
        info.checkpoint(1)
    assert (caught.value.code, caught.value.where, bool(caught.value.fix)) == ("SW131", "load", True)
    assert info.cancelled


async def test_a_state_that_cannot_be_stored_fails_the_step_and_keeps_the_last_one(harness: Harness):
    async def load(info: StepContext) -> None:
        await info.checkpoint(1)
        await info.checkpoint(object())

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(load)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1m")

    with pytest.raises(RunFailed, match="the state of `load`"):
        await harness.result(run)
    [entry] = await harness.history(run)
    assert entry.attempts == 1
    [kept] = (await worker.engine.runs.detail(run.run_id)).history.progress
    assert kept.state == b"j1"


async def test_a_step_that_runs_at_most_once_cannot_yield(harness: Harness):
    async def load(info: StepContext) -> None:
        info.yield_(1)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(load, at_most_once=True))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunFailed, match="runs at most once, but called `yield_`"):
        await harness.result(run)


@pytest.mark.parametrize("figures", [(-1, None), (1, -5), (1.5, None), (2**63, None)])
async def test_progress_is_counted_in_whole_numbers(harness: Harness, figures: Any):
    async def load(info: StepContext) -> None:
        info.progress(*figures)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(load)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunFailed, match="progress: "):
        await harness.result(run)
