"""Loops: durable state, bounded history, and what their bodies must return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Rollback, RunPaused, done, step, workflow
from stepwell.errors import InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.states import EntryKind
from stepwell.replay import journal
from stepwell.replay.primitives.loop import LoopOptions
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


@dataclass
class State:
    total: int
    seen: list[int]


async def test_the_state_keeps_its_type_over_a_crash(harness: Harness, ledger: Ledger):
    async def body(ctx: Context, state: State) -> Continue[State] | Break[int]:
        assert isinstance(state, State)
        got = await ctx.step("work", ledger.body("work", len(state.seen)))
        await ctx.sleep("pause", "30m")
        state = State(state.total + got, [*state.seen, got])
        return Break(state.total) if len(state.seen) == 6 else Continue(state)

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.loop("l", body, State(0, []), keep=0, trim_every=1)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    for _ in range(2):
        worker = await harness.takeover(worker, flow)

    assert await harness.result(run) == 15
    assert ledger.counts == {"work": 6}


@pytest.mark.parametrize("options", [{}, {"trim_every": 1, "keep": 0}, {"commit_every": 7, "trim_every": 3, "keep": 5}])
async def test_a_perpetual_loop_has_a_bounded_history(harness: Harness, ledger: Ledger, options: dict[str, Any]):
    async def body(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("work", ledger.body("work"))
        await ctx.sleep("pause", "1m")
        return Continue(turn + 1)

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.loop("l", body, 0, **options)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    most = 0
    for _ in range(6):
        await harness.advance("50m")
        most = max(most, len(await harness.history(run)))
        detail = await worker.engine.runs.detail(run.run_id)
        assert len(detail.history.cursors) == 1
        assert len(detail.history.names) == 3
    kept = options.get("keep", 20) + options.get("trim_every", 20) + options.get("commit_every", 1)
    assert most <= 2 * (kept + 1)
    assert ledger.counts["work"] >= 300
    await worker.do(worker.engine.cancel(run.run_id))


async def test_a_perpetual_loop_keeps_little_in_memory(harness: Harness, ledger: Ledger):
    sizes = []

    async def body(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("work", ledger.body("work"))
        journal = ctx._scope.turn.journal
        sizes.append(len(journal.visited) + len(journal.entries) + len(ctx._scope.turn.waits.deadlines))
        return Continue(turn + 1) if turn < 2_000 else Break(turn)

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.loop("l", body, 0)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == 2_000
    assert max(sizes) < 500


async def test_a_stateful_body_that_returns_nothing_stops_the_run(harness: Harness, ledger: Ledger):
    async def body(ctx: Context, state: int) -> Any:
        await ctx.step("work", ledger.body("work"))

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.loop("l", body, 0)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunPaused, match="the body of loop l returned NoneType") as caught:
        await harness.result(run)
    assert caught.value.fix == "write: return Continue(state), or: return Break(value)"
    assert ledger.counts == {"work": 1}


async def test_a_body_without_state_may_return_nothing_to_go_on(harness: Harness, ledger: Ledger):
    async def body(ctx: Context, state: None) -> Break[str] | None:
        message = await ctx.receive("m")
        return Break("stop") if message.payload == "stop" else None

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.loop("l", body, None)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    for payload in ("a", "b", "stop"):
        await worker.signal(run.run_id, "m", payload)
        await harness.drain()

    assert await harness.result(run) == "stop"


async def test_an_error_in_a_body_ends_the_loop_and_can_be_caught(harness: Harness, ledger: Ledger):
    async def body(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step("work", ledger.body("work"))
        if turn == 3:
            raise KeyError("enough")
        return Continue(turn + 1)

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.loop("l", body, 0)
        except KeyError:
            await ctx.sleep("pause", "1h")
            return str(await ctx.step("after", ledger.body("after", "caught")))
        return "not reached"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    await harness.takeover(worker, flow)

    assert await harness.result(run) == "caught"
    assert ledger.counts == {"work": 4, "after": 1}


async def test_a_state_that_its_annotation_refuses_fails_the_run(harness: Harness):
    async def body(ctx: Context, turn: int) -> Any:
        return Continue("text")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.loop("l", body, 0)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.type) == ("failed", "InvalidInputError")


@pytest.mark.parametrize("options", [{"commit_every": 0}, {"trim_every": 0}, {"keep": -1}])
def test_options_without_meaning_are_refused(options: dict[str, int]):
    with pytest.raises(InvalidOptionError):
        LoopOptions(**options)


# --- what later code can name ---


UNDONE: list[str] = []


async def undo(value: str, result: str) -> None:
    UNDONE.append(value)


@step(compensate=undo)
async def do(value: str) -> str:
    return value


@pytest.mark.parametrize("count", [10, 45])
async def test_a_rollback_finds_a_checkpoint_of_an_old_iteration(harness: Harness, count: int):
    UNDONE.clear()

    @workflow
    async def batch(ctx: Context) -> None:
        await ctx.step(do, "setup")

        async def body(inner: Context, number: int) -> Continue[int] | Break[None]:
            if number in (1, 3):
                await inner.step(do, f"before {number}")
                await inner.rollback_checkpoint("point of no return")
            if number == count - 1:
                await inner.step(do, "last")
                return Break(None)
            return Continue(number + 1)

        await ctx.loop("l", body, 0)
        await ctx.receive("go")
        raise Rollback("undo what came after the line", to="point of no return")

    worker = await harness.worker(batch)
    client = await harness.client()
    run = await worker.start(batch)
    await harness.drain()
    await harness.takeover(worker, batch)
    await client.signal(run.run_id, "go")
    await harness.drain()

    assert (await harness.status(run)).status == "compensated"
    assert UNDONE == ["last"]


async def test_runs_that_old_iterations_spawned_can_be_waited_for(harness: Harness):
    @workflow
    async def kid(ctx: Context, number: int) -> int:
        return number

    @workflow
    async def fan(ctx: Context) -> list[int]:
        async def body(inner: Context, ids: list[RunId]) -> Continue[list[RunId]] | Break[list[RunId]]:
            ids = [*ids, await inner.spawn(kid, len(ids))]
            return Break(ids) if len(ids) == 45 else Continue(ids)

        none: list[RunId] = []
        ids = await ctx.loop("l", body, none)
        await ctx.receive("go")
        return [(await ctx.wait_any("w", k=done(each))).value.value for each in ids]

    worker = await harness.worker(fan, kid)
    client = await harness.client()
    run = await worker.start(fan)
    await harness.drain()
    await harness.takeover(worker, fan, kid)
    await client.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == list(range(45))


async def test_a_loop_that_spawns_and_marks_for_ever_has_a_bounded_history(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal, "SPAWNED_MAX", 7)

    @workflow
    async def kid(ctx: Context) -> None:
        return None

    @workflow
    async def fan(ctx: Context) -> list[str]:
        async def body(inner: Context, ids: list[RunId]) -> Continue[list[RunId]] | Break[list[RunId]]:
            await inner.rollback_checkpoint("mark")
            ids = [*ids, await inner.spawn(kid)]
            return Break(ids) if len(ids) == 60 else Continue(ids)

        none: list[RunId] = []
        ids = await ctx.loop("l", body, none, keep=2, trim_every=5)
        known = await ctx.wait_any("known", k=done(ids[-3]))
        forgotten = await ctx.wait_any("forgotten", k=done(ids[0]))
        return [known.value.status, forgotten.value.status]

    worker = await harness.worker(fan, kid)
    run = await worker.start(fan)
    await harness.drain()

    kinds = [entry.kind for entry in (await worker.engine.runs.detail(run.run_id)).history.entries]
    assert kinds.count(EntryKind.SPAWN) <= 7 + 2
    assert kinds.count(EntryKind.CHECKPOINT) <= 1 + 2
    # What the loop has forgotten is a run like any other.
    assert await harness.result(run) == ["completed", "completed"]
