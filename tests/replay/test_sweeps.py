"""Every primitive with one fault at every call to the store: the same outcome, and nothing durable is run again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import (
    Break,
    ChildFailed,
    Context,
    Continue,
    JoinError,
    RaceError,
    Retry,
    Rollback,
    StepContext,
    StepFailed,
    WaitTimeout,
    step,
    workflow,
)
from tests.cases.ledger import Ledger
from tests.replay.sweep import CANCEL, Build, Outcome, Program, sweep

ONCE = Retry(max_attempts=1)
QUICK = Retry(max_attempts=3, initial="100ms", jitter=0)
SLOW = Retry(max_attempts=3, initial="2s", factor=1, jitter=0)


def steps(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[int]:
        return [await ctx.step(name, ledger.act, number) for number, name in enumerate(("a", "b", "c"))]

    return Program(program)


def deferred_steps(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[int]:
        later = step(ledger.act, durability="deferred")
        found = [await ctx.step("later", later, number) for number in range(3)]
        return [*found, await ctx.step("now", ledger.act, 3)]

    return Program(program)


def retries(ledger: Ledger, policy: Retry) -> Program:
    async def flaky(info: StepContext) -> str:
        ledger.lines.append(f"attempt {info.attempt}")
        if info.attempt < 3:
            raise ConnectionError(f"attempt {info.attempt}")
        return "third"

    @workflow
    async def program(ctx: Context) -> list[Any]:
        first = await ctx.step(step(flaky, retry=policy))
        tried = await ctx.try_step("hopeless", step(ledger.failing("hopeless"), retry=ONCE))
        return [first, tried.ok, tried.attempts, tried.error and tried.error.summary]

    return Program(program, lasts="10s")


def quick_retries(ledger: Ledger) -> Program:
    return retries(ledger, QUICK)


def slow_retries(ledger: Ledger) -> Program:
    return retries(ledger, SLOW)


def a_timeout(ledger: Ledger) -> Program:
    async def hang(info: StepContext) -> None:
        ledger.lines.append("hang")
        await asyncio.sleep(1000)

    @workflow
    async def program(ctx: Context) -> str:
        try:
            await ctx.step(step(hang, timeout="500ms"))
        except TimeoutError:
            return str(await ctx.step("instead", ledger.act, "instead"))
        return "not reached"

    return Program(program, lasts="2s")


def once_and_chance(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> bool:
        drawn = [ctx.random(), str(ctx.uuid())]
        kept = await ctx.once("kept", lambda: [ctx.random(), str(ctx.uuid())])
        await ctx.step("a", ledger.act, None)
        await ctx.sleep("pause", "2s")
        again = await ctx.once("again", lambda: drawn)
        return drawn == again and kept != drawn

    return Program(program, lasts="3s")


def sleeps(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> bool:
        started = ctx.now()
        await ctx.sleep("short", "500ms")
        await ctx.step("a", ledger.act, None)
        await ctx.sleep("long", "3s")
        await ctx.step("b", ledger.act, None)
        return (ctx.now() - started).total_seconds() >= 3.5

    return Program(program, lasts="5s")


def receives(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        first = (await ctx.receive("a")).payload
        await ctx.step("between", ledger.act, None)
        second = (await ctx.receive("b", "c")).name
        many: list[int] = []
        while len(many) < 3:
            many += [m.payload for m in await ctx.receive_many("m", count=2)]
        return [first, second, many]

    script = ((0, "a", 1), ("1s", "c", 2), ("1s", "m", 3), (0, "m", 4), (0, "m", 5))
    return Program(program, script=script)


def timeouts(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        many = await ctx.receive_many("m", timeout="2s")
        try:
            await ctx.receive("n", timeout="500ms")
        except WaitTimeout:
            return [many, await ctx.step("late", ledger.act, "late")]
        return []

    return Program(program, lasts="4s")


def joins(ledger: Ledger) -> Program:
    async def quick(ctx: Context) -> str:
        return str(await ctx.step("work", ledger.act, "quick"))

    async def slow(ctx: Context) -> str:
        await ctx.step("first", ledger.act, None)
        await ctx.sleep("pause", "2s")
        return str(await ctx.step("work", ledger.act, "slow"))

    async def broken(ctx: Context) -> None:
        await ctx.step("work", step(ledger.failing("broken"), retry=ONCE))

    @workflow
    async def program(ctx: Context) -> list[Any]:
        both = await ctx.join("both", {"quick": quick, "slow": slow})
        try:
            await ctx.join("bad", {"broken": broken, "slow": slow})
        except JoinError as error:
            return [both, list(error.errors)]
        return []

    return Program(program, lasts="6s")


def races(ledger: Ledger) -> Program:
    async def quick(ctx: Context) -> str:
        await ctx.step("work", ledger.act, None)
        await ctx.sleep("pause", "1500ms")
        return "quick"

    async def slow(ctx: Context) -> str:
        await ctx.step("first", ledger.act, None)
        await ctx.receive("never")
        return "slow"

    async def broken(ctx: Context) -> None:
        await ctx.step("work", step(ledger.failing("broken"), retry=ONCE))

    @workflow
    async def program(ctx: Context) -> list[Any]:
        won = await ctx.race("first", {"slow": slow, "quick": quick, "broken": broken})
        try:
            await ctx.race("all", {"a": broken})
        except RaceError as error:
            return [won.branch, won.value, list(error.errors)]
        return []

    return Program(program, lasts="3s")


def loops(ledger: Ledger) -> Program:
    async def body(ctx: Context, state: list[int]) -> Continue[list[int]] | Break[list[int]]:
        got = await ctx.step("work", ledger.act, len(state))
        if len(state) == 3:
            await ctx.sleep("pause", "1500ms")
        state = [*state, got]
        return Break(state) if len(state) == 7 else Continue(state)

    @workflow
    async def program(ctx: Context) -> list[int]:
        nothing: list[int] = []
        return await ctx.loop("l", body, nothing, trim_every=2, keep=1, commit_every=2)

    return Program(program, lasts="2s")


def children(ledger: Ledger) -> Program:
    @workflow
    async def good(ctx: Context, number: int) -> int:
        await ctx.sleep("pause", "1500ms")
        return int(await ctx.step("work", ledger.act, number * 2))

    @workflow
    async def bad(ctx: Context) -> None:
        await ctx.step("work", step(ledger.failing("bad"), retry=ONCE))

    @workflow
    async def side(ctx: Context) -> None:
        await ctx.step("side", ledger.act, None)

    @workflow
    async def program(ctx: Context) -> list[Any]:
        await ctx.spawn(side)
        doubled = await asyncio.gather(*[ctx.child(good, number, name=f"child {number}") for number in (1, 2)])
        try:
            await ctx.child(bad)
        except ChildFailed as error:
            return [doubled, error.status, await ctx.step("after", ledger.act, "after")]
        return []

    return Program(program, others=(good, bad, side), lasts="3s")


def chains(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context, total: list[int]) -> list[int]:
        got = (await ctx.receive("m")).payload
        await ctx.step("work", ledger.act, None)
        total = [*total, got]
        if len(total) < 3:
            ctx.continue_as_new(total)
        return total

    return Program(program, [], script=((0, "m", 1), (0, "m", 2), ("1s", "m", 3)))


def rollbacks(ledger: Ledger) -> Program:
    async def undo(info: StepContext, number: int, result: int) -> None:
        await ledger.act(info)
        assert result == number

    async def undo_slowly(ctx: Context, number: int) -> None:
        await ctx.step("first", ledger.act, None)
        await ctx.sleep("pause", "1500ms")
        await ctx.step("second", ledger.act, None)

    async def do(info: StepContext, number: int) -> int:
        return int(await ledger.act(info, number))

    @workflow
    async def program(ctx: Context) -> None:
        await ctx.step("one", step(do, compensate=undo), 1)
        await ctx.step("two", step(do, compensate=undo_slowly), 2)
        await ctx.step("three", step(do, compensate=undo), 3)
        raise ValueError("no")

    return Program(program, lasts="3s")


def partial_rollbacks(ledger: Ledger) -> Program:
    async def undo(info: StepContext) -> None:
        await ledger.act(info)

    @workflow
    async def program(ctx: Context) -> None:
        await ctx.step("one", step(ledger.act, compensate=undo), None)
        await ctx.rollback_checkpoint("line")
        await ctx.step("two", step(ledger.act, compensate=undo), None)
        raise Rollback(to="line")

    return Program(program)


def cancels(ledger: Ledger) -> Program:
    async def undo(info: StepContext) -> None:
        await ledger.act(info)

    @workflow
    async def below(ctx: Context) -> None:
        await ctx.step("below", step(ledger.act, compensate=undo), None)
        await ctx.receive("never")

    @workflow
    async def program(ctx: Context) -> None:
        await ctx.step("one", step(ledger.act, compensate=undo), None)
        await ctx.child(below)

    return Program(program, others=(below,), script=(("8s", CANCEL, None),))


def deadlines(ledger: Ledger) -> Program:
    async def undo(info: StepContext) -> None:
        await ledger.act(info)

    @workflow
    async def below(ctx: Context) -> None:
        await ctx.step("below", step(ledger.act, compensate=undo), None)
        await ctx.receive("never")

    @workflow
    async def program(ctx: Context) -> None:
        await ctx.step("one", step(ledger.act, compensate=undo), None)
        await ctx.sleep("pause", "1500ms")
        await ctx.child(below)

    return Program(program, others=(below,), lasts="21s", options={"deadline": "20s"})


def long_waits(ledger: Ledger) -> Program:
    async def undo(info: StepContext) -> None:
        await ledger.act(info)

    @workflow
    async def below(ctx: Context) -> None:
        await ctx.step("below", step(ledger.act, compensate=undo), None)
        await ctx.receive("never")

    @workflow
    async def program(ctx: Context) -> None:
        await ctx.step("one", step(ledger.act, compensate=undo), None)
        await ctx.child(below, on_parent_close="cancel")

    return Program(program, others=(below,), lasts="21s", outlasts="1s", options={"max_suspend": "10s"})


def versions(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        first = ctx.version("first", 2)
        await ctx.step("a", ledger.act, None)
        await ctx.receive("go")
        return [first, ctx.patched("second"), await ctx.step("b", ledger.act, "b")]

    return Program(program, script=(("1s", "go", None),))


def gathers(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        async def branch(name: str) -> str:
            await ctx.step(f"{name} first", ledger.act, None)
            await ctx.sleep(f"{name} pause", "1500ms")
            return str(await ctx.step(f"{name} second", ledger.act, name))

        found = await asyncio.gather(branch("x"), branch("y"), ctx.step("z", ledger.act, "z"))
        return list(found)

    return Program(program, lasts="3s")


def failures(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> None:
        try:
            await ctx.step("a", step(ledger.failing("a", error=KeyError("k")), retry=ONCE))
        except KeyError as error:
            await ctx.step("caught" if isinstance(error, StepFailed) else "other", ledger.act, None)
        await ctx.step("b", step(ledger.failing("b"), retry=ONCE))

    return Program(program)


SWEEPS: dict[str, tuple[Build, Any]] = {
    "steps": (steps, [0, 1, 2]),
    "deferred steps": (deferred_steps, [0, 1, 2, 3]),
    "quick retries": (quick_retries, ["third", False, 1, "ValueError: hopeless failed"]),
    "slow retries": (slow_retries, ["third", False, 1, "ValueError: hopeless failed"]),
    "a timeout": (a_timeout, "instead"),
    "once and chance": (once_and_chance, True),
    "sleeps": (sleeps, True),
    "receives": (receives, [1, "c", [3, 4, 5]]),
    "timeouts": (timeouts, [[], "late"]),
    "joins": (joins, [{"quick": "quick", "slow": "slow"}, ["broken"]]),
    "races": (races, ["quick", "quick", ["a"]]),
    "loops": (loops, [0, 1, 2, 3, 4, 5, 6]),
    "children": (children, [[2, 4], "failed", "after"]),
    "chains": (chains, [1, 2, 3]),
    "versions": (versions, [2, True, "b"]),
    "gathers": (gathers, ["x", "y", "z"]),
}

ENDS: dict[str, tuple[Build, str, str]] = {
    "rollbacks": (rollbacks, "compensated", "ValueError: no"),
    "partial rollbacks": (partial_rollbacks, "compensated", "Rollback: rollback"),
    "cancels": (cancels, "cancelled", ""),
    "failures": (failures, "failed", "ValueError: b failed"),
    "deadlines": (deadlines, "compensated", "DeadlineExceeded: the run had not ended at its deadline"),
    "long waits": (
        long_waits,
        "compensated",
        "WaitedTooLong: the wait for child at below took longer than the run's max_suspend",
    ),
}


@pytest.mark.parametrize("name", SWEEPS)
async def test_a_fault_at_any_call_changes_nothing(mode: str, name: str):
    build, output = SWEEPS[name]

    outcome = await sweep(build, mode)

    assert (outcome.status, outcome.output) == ("completed", output)


@pytest.mark.parametrize("name", ENDS)
async def test_a_fault_at_any_call_changes_no_other_end(mode: str, name: str):
    build, status, failure = ENDS[name]

    outcome = await sweep(build, mode)

    assert (outcome.status, outcome.failure) == (status, failure)


async def test_undoing_is_last_in_first_out(mode: str):
    outcome: Outcome = await sweep(rollbacks, mode, "crash")

    assert list(outcome.effects)[3:] == [
        "program:three~undo",
        "program:two~undo/first",
        "program:two~undo/second",
        "program:one~undo",
    ]
