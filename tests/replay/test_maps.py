"""`ctx.map`, `ctx.children` and `ctx.wait_any`: fresh, replayed, and with a fault at every call to the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import (
    Context,
    Engine,
    JoinError,
    Operation,
    Outcome,
    Retry,
    RunFailed,
    WorkerSettings,
    signal,
    step,
    timer,
    workflow,
)
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import Program, sweep

ONCE = Retry(max_attempts=1)


@dataclass
class Square:
    side: int


def maps(ledger: Ledger) -> Program:
    async def square(ctx: Context, number: int) -> Square:
        first = await ctx.step("first", ledger.act, number)
        await ctx.sleep("pause", f"{number % 3}s")
        return Square(await ctx.step("second", ledger.act, first * number))

    @workflow
    async def program(ctx: Context) -> list[int]:
        squares = await ctx.map("all", square, range(4), limit=2)
        return [each.side for each in squares] + [await ctx.step("after", ledger.act, 7)]

    return Program(program, lasts="1m")


def failing_maps(ledger: Ledger) -> Program:
    async def item(ctx: Context, number: int) -> int:
        if number % 2:
            await ctx.step("bad", step(ledger.failing(f"bad {number}"), retry=ONCE))
        return await ctx.step("good", ledger.act, number)

    @workflow
    async def program(ctx: Context) -> list[str]:
        try:
            await ctx.map("all", item, range(4), limit=3)
        except JoinError as error:
            return sorted(error.errors)
        return []

    return Program(program, lasts="1m")


def families(ledger: Ledger) -> Program:
    @workflow
    async def child(ctx: Context, number: int) -> int:
        if number == 3:
            await ctx.step("bad", step(ledger.failing("bad"), retry=ONCE))
        return await ctx.step("work", ledger.act, number * 10)

    @workflow
    async def program(ctx: Context) -> list[Any]:
        good = await ctx.children(child, [1, 2])
        bad: Outcome[int] = await ctx.child(child, 3, name="bad").outcome()
        best: Outcome[int] = await ctx.child(child, 4, name="best").outcome()
        return [*good, bad.ok, bad.status, best.value]

    return Program(program, others=(child,), lasts="10s")


def first_of_several(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        one = await ctx.wait_any("one", answer=signal("a", "b"), late=timer("10s"))
        two = await ctx.wait_any("two", answer=signal("never"), late=timer("3s"))
        left = await ctx.receive("c")
        return [one.label, one.value.payload, two.label, two.value, left.payload]

    script = (("1s", "c", "kept"), ("1s", "b", "came"))
    return Program(program, script=script, lasts="20s")


SWEEPS: dict[str, tuple[Any, Any]] = {
    "maps": (maps, [0, 1, 4, 9, 7]),
    "failing maps": (failing_maps, ["1", "3"]),
    "families": (families, [10, 20, False, "failed", 40]),
    "the first of several": (first_of_several, ["answer", "came", "late", None, "kept"]),
}


@pytest.mark.parametrize("name", SWEEPS)
async def test_a_fault_at_any_call_changes_nothing(mode: str, name: str):
    build, output = SWEEPS[name]

    outcome = await sweep(build, mode)

    assert (outcome.status, outcome.output) == ("completed", output)


async def test_no_more_items_run_at_once_than_allowed(harness: Harness, ledger: Ledger):
    running, most = 0, 0

    async def item(ctx: Context, number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        result = await ctx.step("work", ledger.act, number)
        running -= 1
        return result

    @workflow
    async def flow(ctx: Context) -> int:
        return len(await ctx.map("all", item, range(50), limit=7))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == 50
    assert most == 7


async def test_a_map_over_nothing_is_empty_and_one_without_room_is_refused(harness: Harness):
    async def item(ctx: Context, number: int) -> int:
        return number

    @workflow
    async def flow(ctx: Context, limit: int) -> list[int]:
        return await ctx.map("all", item, [], limit=limit)

    worker = await harness.worker(flow)
    good, bad = await worker.start(flow, 1), await worker.start(flow, 0)
    await harness.drain()

    assert await harness.result(good) == []
    with pytest.raises(RunFailed, match="limit=0"):
        await harness.result(bad)


async def test_the_first_failure_stops_the_others_if_asked_to(harness: Harness, ledger: Ledger):
    async def item(ctx: Context, number: int) -> int:
        if number == 3:
            await ctx.step("bad", step(ledger.failing("bad"), retry=ONCE))
        await ctx.sleep("long", "1h")
        return await ctx.step("late", ledger.act, number)

    @workflow
    async def flow(ctx: Context) -> list[str]:
        try:
            await ctx.map("all", item, range(5), on_error="fail_fast")
        except JoinError as error:
            return list(error.errors)
        return []

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")

    assert await harness.result(run) == ["3"]
    assert ledger.counts == {"bad": 1}


async def test_a_combined_wait_that_was_stored_does_not_make_new_code_look_old(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        arrived = await ctx.wait_any(answer=signal("answer"), late=timer("1h"))
        return [arrived.label, ctx.version("gate", 3)]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("2h")

    assert await harness.result(run) == ["late", 3]


async def test_nothing_to_wait_for_and_nonsense_are_refused():
    @workflow
    async def flow(ctx: Context, which: int) -> None:
        await ctx.wait_any(**({} if which == 0 else {"x": "soon"}))  # type: ignore[arg-type]

    async with Engine("memory:", workflows=[flow], settings=WorkerSettings()) as engine:
        for which in range(2):
            with pytest.raises(RunFailed, match="InvalidOptionError"):
                await (await engine.start(flow, which)).result("60s")


OPTIONS: dict[str, Callable[[Context, dict[str, Any]], Operation[Any]]] = {
    "map": lambda ctx, given: ctx.map("all", _item, [1], **given),
    "join": lambda ctx, given: ctx.join("all", {"one": _branch}, **given),
    "race": lambda ctx, given: ctx.race("all", {"one": _branch}, **given),
}


async def _item(ctx: Context, number: int) -> int:
    return number


async def _branch(ctx: Context) -> int:
    return 1


@pytest.mark.parametrize(
    ("verb", "given", "fix"),
    [
        ("map", {"on_error": "failfast"}, 'use "wait_all" or "fail_fast"'),
        ("join", {"on_error": "failfast"}, 'use "wait_all" or "fail_fast"'),
        ("race", {"first": "sucess"}, 'use "success" or "settled"'),
    ],
)
async def test_an_option_that_has_no_such_value_is_refused(
    harness: Harness, verb: str, given: dict[str, Any], fix: str
):
    @workflow
    async def flow(ctx: Context) -> None:
        await OPTIONS[verb](ctx, given)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunFailed) as caught:
        await harness.result(run)
    assert caught.value.failure is not None
    assert (caught.value.failure.code, caught.value.fix) == ("SW103", fix)
