"""`ctx.emit`: fresh, replayed, and with a fault at every call to the store."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Retry, StepContext, step, workflow
from stepwell.sinks import EmittedEvent, handler
from stepwell.sinks.handlers import Handler
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import Build, Program, sweep

ONCE = Retry(max_attempts=1)
AGAIN = Retry(max_attempts=9, initial="100ms", jitter=0)


def checked(ledger: Ledger, order: list[str], fails: frozenset[str] = frozenset()) -> Handler:
    """A sink that notes what it gets; it knows in which order that has to come, and fails once where it is told to."""
    ids: dict[str, str] = {}
    failed: set[str] = set()

    async def note(event: EmittedEvent) -> None:
        if event.name in fails - failed:
            failed.add(event.name)
            raise OSError("not now")
        known = len(ids)
        if ids.setdefault(event.name, event.id) != event.id:
            ledger.note(f"another id for {event.name}")
        if len(ids) > known and order[known] != event.name:
            ledger.note(f"{event.name} instead of {order[known]}")
        ledger.note(f"sent {event.name}")

    return handler(note, retry=AGAIN)


def emits(ledger: Ledger) -> Program:
    async def body(info: StepContext, value: int) -> int:
        info.emit("c")
        info.emit("d", value)
        return int(await ledger.act(info, value))

    @workflow
    async def program(ctx: Context) -> list[int]:
        await ctx.emit("a", 1)
        await ctx.emit("b", 2)
        found = await ctx.step("body", step(body, emits="e"), 7)
        await ctx.sleep("pause", "2s")
        await ctx.emit("f")
        last = await ctx.step("last", ledger.act, 8)
        await ctx.emit("g")
        return [found, last]

    sink = checked(ledger, ["a", "b", "c", "d", "e", "f", "g", "stepwell.run.completed"], frozenset("bf"))
    return Program(program, lasts="8s", outlasts="2s", settings={"sinks": [sink], "lifecycle": True})


def branching(ledger: Ledger) -> Program:
    async def item(ctx: Context, number: int) -> int:
        await ctx.step("work", ledger.act, number)
        await ctx.emit("done", number)
        return number

    async def count(event: EmittedEvent) -> None:
        ledger.note(f"sent {event.name} {event.payload} {event.path}")

    @workflow
    async def child(ctx: Context) -> str:
        await ctx.emit("child")
        return "child"

    @workflow
    async def program(ctx: Context) -> list[int]:
        await ctx.child(child)
        return await ctx.map("all", item, range(3))

    return Program(program, others=(child,), lasts="8s", outlasts="2s", settings={"sinks": [handler(count, "*")]})


def undoing(ledger: Ledger) -> Program:
    async def undo(ctx: Context, given: str, result: Any) -> None:
        await ctx.emit(f"undo.{given}")
        await ctx.step("undoing", ledger.act)

    async def do(info: StepContext, name: str) -> None:
        info.emit(f"do.{name}")
        await ledger.act(info)

    @workflow
    async def program(ctx: Context) -> None:
        for name in ("x", "y"):
            await ctx.step(name, step(do, compensate=undo), name)
        await ctx.step("bad", step(ledger.failing("bad"), retry=ONCE, emits="never"))

    sink = checked(ledger, ["do.x", "do.y", "undo.y", "undo.x", "stepwell.run.compensated"])
    return Program(program, lasts="8s", outlasts="2s", settings={"sinks": [sink], "lifecycle": True})


SWEEPS: dict[str, tuple[Build, str, Any]] = {
    "emits": (emits, "completed", [7, 8]),
    "branching": (branching, "completed", [0, 1, 2]),
    "undoing": (undoing, "compensated", None),
}


@pytest.mark.parametrize("name", SWEEPS)
async def test_a_fault_at_any_call_changes_nothing(mode: str, name: str) -> None:
    build, status, output = SWEEPS[name]

    outcome = await sweep(build, mode)

    assert (outcome.status, outcome.output) == (status, output)


async def test_a_replay_that_meets_another_kind_of_operation_stops(harness: Harness) -> None:
    @workflow(name="flow")
    async def old(ctx: Context) -> None:
        await ctx.emit("x")
        await ctx.receive("go")

    @workflow(name="flow")
    async def new(ctx: Context) -> None:
        await ctx.step("x", ledger_act)
        await ctx.receive("go")

    worker = await harness.worker(old)
    run = await worker.start(old)
    await harness.drain()
    await harness.deploy(worker, new)
    await harness.nodes[-1].signal(run.run_id, "go")
    await harness.drain()

    assert (await harness.status(run)).status == "paused"


async def ledger_act() -> None:
    return None


async def test_an_emit_that_was_taken_out_of_the_code_can_be_declared(harness: Harness) -> None:
    @workflow(name="flow")
    async def old(ctx: Context) -> str:
        await ctx.emit("x")
        await ctx.receive("go")
        return "old"

    @workflow(name="flow")
    async def new(ctx: Context) -> str:
        ctx.removed("x", "emit")
        await ctx.receive("go")
        return "new"

    worker = await harness.worker(old)
    run = await worker.start(old)
    await harness.drain()
    await harness.deploy(worker, new)
    await harness.nodes[-1].signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "new"


async def test_an_emit_that_nobody_awaits_stops_the_run(harness: Harness) -> None:
    @workflow
    async def flow(ctx: Context) -> None:
        ctx.emit("x")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert (await harness.status(run)).status == "paused"
