"""Handlers: requests are answered while the workflow continues, each in its own branch, and none is lost at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import (
    Context,
    Request,
    RunFailed,
    Signal,
    SyncContext,
    Workflow,
    step,
    workflow,
)
from stepwell.errors import AskRefused, InvalidOptionError, Unanswered
from tests.cases.harness import Harness, Node

LINES: list[str] = []

reserve = Request[int, str]("reserve")
note = Signal[str]("note")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    LINES.clear()


async def act(what: str) -> str:
    LINES.append(what)
    return what


async def take_long(what: str) -> str:
    await asyncio.sleep(120)
    LINES.append(what)
    return what


async def begun(harness: Harness, *flows: Workflow[Any, Any], after: str = "1m") -> tuple[Node, Any]:
    worker = await harness.worker(*flows)
    run = await worker.start(flows[0])
    await harness.advance(after)
    return worker, run


def asking(node: Node, run: Any, payload: Any, **options: Any) -> asyncio.Task[Any]:
    """Ask without waiting for the answer."""

    async def ask() -> Any:
        return await node.do(node.engine.ask(run.run_id, reserve, payload, timeout="3h", **options))

    return asyncio.create_task(ask())


@workflow
async def theatre(ctx: Context) -> list[int]:
    taken: list[int] = []

    async def on_reserve(inner: Context, seat: int) -> str:
        taken.append(seat)
        await inner.sleep("think", "5m")
        await inner.step("book", act, f"book {seat}")
        if seat == 13:
            inner.fail("that seat is broken")
        return f"seat {seat}"

    def check(seat: int) -> None:
        if seat in taken:
            raise ValueError(f"seat {seat} is taken")

    ctx.handle(reserve, on_reserve, validate=check)
    await ctx.step("open", act, "open")
    await ctx.receive("close")
    await ctx.step("closed", act, "closed")
    return sorted(taken)


async def test_requests_are_answered_at_once_while_the_workflow_waits(harness: Harness):
    worker, run = await begun(harness, theatre)
    answers = [asking(worker, run, seat) for seat in (1, 2, 13)]
    await harness.advance("6m")
    assert [answer.done() for answer in answers] == [True] * 3
    assert [await answers[0], await answers[1]] == ["seat 1", "seat 2"]
    with pytest.raises(AskRefused, match="that seat is broken"):
        await answers[2]
    again = asking(worker, run, 1)
    await harness.advance("1m")
    with pytest.raises(AskRefused, match="seat 1 is taken"):
        await again
    await worker.signal(run.run_id, "close")
    await harness.advance("1m")

    assert await harness.result(run) == [1, 2, 13]
    assert LINES == ["open", "book 1", "book 2", "book 13", "closed"]
    assert [path for path in await harness.paths(run) if path.startswith("handle reserve/~0")] == [
        "handle reserve/~0/reserve request",
        "handle reserve/~0/think",
        "handle reserve/~0/book",
        "handle reserve/~0/reserve request reply",
    ]


async def test_a_request_in_progress_survives_a_crash(harness: Harness):
    worker, run = await begun(harness, theatre)
    client = await harness.client()
    answer = asking(client, run, 7)
    await harness.advance("1m")
    worker = await harness.takeover(worker, theatre)
    await harness.advance("10m")
    assert await answer == "seat 7"
    worker = await harness.takeover(worker, theatre)
    await worker.signal(run.run_id, "close")
    await harness.advance("1m")

    assert await harness.result(run) == [7]
    assert LINES == ["open", "book 7", "closed"]


async def test_the_run_waits_for_requests_in_progress_before_it_ends(harness: Harness):
    worker, run = await begun(harness, theatre)
    answer = asking(worker, run, 7)
    await harness.advance("1m")
    await worker.signal(run.run_id, "close")
    await harness.advance("1m")
    assert (await harness.status(run)).status == "waiting"
    late = asking(worker, run, 8)
    await harness.advance("10m")

    assert await harness.result(run) == [7]
    assert await answer == "seat 7"
    assert LINES == ["open", "closed", "book 7"]
    with pytest.raises(Unanswered):
        await late


async def test_requests_in_progress_are_cancelled_at_the_end_if_the_code_says_so(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        async def slowly(inner: Context, seat: int) -> str:
            return await inner.step("long", take_long, f"long {seat}")

        ctx.handle(reserve, slowly, at_end="cancel")
        await ctx.receive("close")
        await ctx.step("closed", act, "closed")
        return "done"

    worker, run = await begun(harness, flow)
    answer = asking(worker, run, 7)
    await harness.advance("1m")
    await worker.signal(run.run_id, "close")
    await harness.advance("5m")

    assert await harness.result(run) == "done"
    assert LINES == ["closed"]
    with pytest.raises(AskRefused):
        await answer


async def test_plain_signals_and_names_are_handled_and_a_failure_is_the_failure_of_the_run(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        async def on_note(inner: Context, text: str) -> None:
            await inner.step("note", act, text)

        async def on_any(inner: Context, payload: Any) -> None:
            raise ValueError(f"no {payload}")

        handled = ctx.handle(note, on_note)
        ctx.handle("any", on_any)
        await ctx.receive("close")
        handled.stop()
        await ctx.receive("end")
        return "done"

    worker, run = await begun(harness, flow)
    await worker.signal(run.run_id, note, "a")
    await worker.signal(run.run_id, note, "b")
    await harness.advance("1m")
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "close")
    await harness.advance("1m")
    await worker.signal(run.run_id, note, "c")
    await worker.signal(run.run_id, "any", 1)
    await worker.signal(run.run_id, "end")
    await harness.advance("1m")

    with pytest.raises(RunFailed, match="no 1"):
        await harness.result(run)
    assert LINES == ["a", "b"]


async def test_steps_of_handlers_are_undone_with_the_run(harness: Harness):
    async def undo(what: str, result: str) -> None:
        LINES.append(f"undo {what}")

    @workflow
    async def flow(ctx: Context) -> None:
        async def on_reserve(inner: Context, seat: int) -> str:
            return await inner.step(step(act, name="book", compensate=undo), f"book {seat}")

        ctx.handle(reserve, on_reserve)
        await ctx.receive("close")
        ctx.fail("sold out")

    worker, run = await begun(harness, flow)
    answers = [asking(worker, run, seat) for seat in (1, 2)]
    await harness.advance("1m")
    assert [await answer for answer in answers] == ["book 1", "book 2"]
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "close")
    await harness.advance("1m")

    assert (await harness.status(run)).status == "compensated"
    assert LINES == ["book 1", "book 2", "undo book 2", "undo book 1"]


async def test_a_run_continues_as_new_after_its_requests(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> int:
        async def on_reserve(inner: Context, seat: int) -> str:
            await inner.sleep("think", "5m")
            return f"seat {seat} of {inner.generation}"

        ctx.handle(reserve, on_reserve)
        await ctx.receive("close")
        if ctx.generation == 1:
            ctx.continue_as_new()
        return ctx.generation

    worker = await harness.worker(flow)
    run = await worker.start(flow, key="k")
    await harness.advance("1m")
    first = asking(worker, run, 1)
    await harness.advance("1m")
    await worker.signal("k", "close")
    await harness.advance("1m")
    second = asking(worker, run, 2)
    await harness.advance("20m")
    assert [await first, await second] == ["seat 1 of 1", "seat 2 of 2"]
    await worker.signal("k", "close")
    await harness.advance("1m")

    assert await harness.result("k") == 2


async def test_a_plain_workflow_handles_requests(harness: Harness):
    @workflow
    def flow(ctx: SyncContext) -> str:
        def on_reserve(inner: SyncContext, seat: int) -> str:
            inner.sleep("think", "5m")
            return inner.step("book", act, f"book {seat}")

        ctx.handle(reserve, on_reserve)
        ctx.receive("close")
        return "done"

    worker, run = await begun(harness, flow)
    answers = [asking(worker, run, seat) for seat in (1, 2)]
    await harness.advance("6m")
    assert [await answer for answer in answers] == ["book 1", "book 2"]
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "close")
    await harness.advance("1m")

    assert await harness.result(run) == "done"
    assert LINES == ["book 1", "book 2"]


async def test_a_handler_in_a_branch_is_refused_and_one_that_continues_as_new_pauses_the_run(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> str:
        async def handler(inner: Context, seat: int) -> str:
            inner.continue_as_new()

        async def branch(inner: Context) -> str:
            try:
                inner.handle(reserve, handler)
            except InvalidOptionError as error:
                return str(error.why)
            return "?"

        found = await ctx.join("join", {"a": branch})
        assert "a branch" in found["a"]
        ctx.handle(reserve, handler)
        await ctx.receive("close")
        return "done"

    worker, run = await begun(harness, flow)
    await worker.signal(run.run_id, "reserve", 1)
    await harness.advance("1m")

    view = await harness.status(run)
    assert (view.status, view.failure and view.failure.code) == ("paused", "SW121")
