"""Time and chance as workflow code sees them: the same on every replay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stepwell import Break, Context, Continue, step, workflow
from stepwell.clock import to_datetime
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def test_now_is_when_the_last_result_came(harness: Harness, ledger: Ledger):
    seen: list[list[Any]] = []

    @workflow
    async def flow(ctx: Context) -> None:
        times = [ctx.now()]
        seen.append(times)
        await ctx.step("a", ledger.body("a"))
        times.append(ctx.now())
        await ctx.sleep("pause", "1h")
        times.append(ctx.now())
        await ctx.receive("go")
        times.append(ctx.now())

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    began = to_datetime(harness.clock.now())
    await harness.advance("2h")
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert (await harness.status(run)).status == "completed"
    hour = timedelta(hours=1)
    assert seen[-1] == [began, began, began + hour, to_datetime(harness.clock.now())]
    assert all(times == seen[-1][: len(times)] for times in seen)


async def test_chance_is_drawn_per_scope_and_differs_between_runs(harness: Harness, ledger: Ledger):
    seen: dict[str, list[tuple[Any, ...]]] = {}

    def draw(ctx: Context) -> tuple[Any, ...]:
        return (ctx.random(), ctx.random(), ctx.uuid())

    async def branch(ctx: Context) -> None:
        drawn = draw(ctx)
        await ctx.sleep("pause", "1h")
        seen.setdefault(ctx.run_id + ctx._scope.location.hex(), []).append(drawn)

    @workflow
    async def flow(ctx: Context) -> None:
        drawn = draw(ctx)
        await ctx.join("both", {"a": branch, "b": branch})
        seen.setdefault(ctx.run_id, []).append(drawn)
        await ctx.receive("go")

    worker = await harness.worker(flow)
    runs = [await worker.start(flow) for _ in range(2)]
    await harness.advance("2h")
    worker = await harness.takeover(worker, flow)
    for run in runs:
        await worker.signal(run.run_id, "go")
    await harness.drain()

    assert all(len(set(drawn)) == 1 for drawn in seen.values())
    drawn = [number for found in seen.values() for number in found[0]]
    assert len(drawn) == len(set(drawn)) == 18
    assert all(0 <= number < 1 for number in drawn if isinstance(number, float))


@pytest.mark.parametrize("keep", [0, 3])
async def test_chance_and_time_in_a_trimmed_loop_survive_a_crash(harness: Harness, ledger: Ledger, keep: int):
    seen: dict[int, set[tuple[Any, ...]]] = {}

    async def body(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        seen.setdefault(turn, set()).add((ctx.random(), ctx.uuid(), ctx.now()))
        await ctx.step("tick", ledger.body(f"tick {turn}"))
        await ctx.sleep("pause", "20m")
        seen[turn].add((ctx.random(), ctx.now()))
        return Break(turn) if turn == 9 else Continue(turn + 1)

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.loop("l", body, 0, trim_every=2, keep=keep)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("70m")
    worker = await harness.takeover(worker, flow)
    await harness.takeover(worker, flow)

    assert await harness.result(run) == 9
    assert ledger.counts == {f"tick {turn}": 1 for turn in range(10)}
    assert {turn: len(found) for turn, found in seen.items()} == dict.fromkeys(range(10), 2)


async def test_a_sleep_until_is_kept_from_the_first_visit(harness: Harness):
    moments = []

    @workflow
    async def flow(ctx: Context) -> str:
        when = ctx.now() + timedelta(hours=5)
        moments.append(when)
        slept = await ctx.sleep_until("then", when)
        return (slept.woke_at - when).total_seconds().__str__()

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1h")
    await harness.takeover(worker, flow)
    await harness.advance("3h")

    assert await harness.result(run) == "0.0"
    assert len(set(moments)) == 1


async def test_a_timer_is_never_early_by_the_stores_clock(harness: Harness):
    @workflow
    async def flow(ctx: Context, micros: int) -> float:
        slept = await ctx.sleep("pause", timedelta(microseconds=micros))
        return (slept.woke_at - slept.due_at).total_seconds()

    worker = await harness.worker(flow)
    spans = [1, 999, 1_000, 1_001, 333_333, 999_999, 1_000_001, 7_654_321]
    runs = [await worker.start(flow, micros) for micros in spans]
    await harness.advance("10s")

    late = [await harness.result(run) for run in runs]
    assert all(0 <= each <= 0.01 for each in late), late


async def test_a_clock_set_back_makes_no_timer_early_and_no_time_go_back(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[float]:
        began, times = ctx.now(), []
        for _ in range(3):
            await ctx.sleep("pause", "10s")
            times.append((ctx.now() - began).total_seconds())
        return times

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("15s")
    harness.clock.jump_back("1m")
    await harness.advance("5m")

    times = await harness.result(run)
    assert times == sorted(times)
    assert all(b - a >= 10 for a, b in zip([0, *times], times, strict=False))


async def test_once_refuses_a_value_that_its_annotation_does_not_allow(harness: Harness):
    def produce() -> int:
        return "text"  # type: ignore[return-value]

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.once("x", produce)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.type) == ("failed", "InvalidInputError")


async def test_the_first_run_sees_the_value_that_a_replay_will_see(harness: Harness, ledger: Ledger):
    seen = []

    @workflow
    async def flow(ctx: Context) -> None:
        seen.append(await ctx.step("pair", step(ledger.body("pair", (1, {"a": (2, 3)})))))
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert seen == [[1, {"a": [2, 3]}]] * 2
