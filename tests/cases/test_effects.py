"""What is undone besides steps that succeeded: unknown outcomes, effects outside of steps, children, and whole runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import (
    Break,
    Context,
    Continue,
    Fatal,
    Retry,
    Rollback,
    RunFailed,
    SyncContext,
    Workflow,
    step,
    workflow,
)
from stepwell.errors import InvalidMoveError, InvalidOptionError
from tests.cases.harness import Harness, Node

LINES: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    LINES.clear()


async def refund(order: str, payment: str | None) -> None:
    LINES.append(f"refund {order}: {payment}")


@step(compensate=refund, undo="always", retry=Retry(max_attempts=1))
async def charge(order: str) -> str:
    LINES.append(f"charge {order}")
    if order == "bad":
        raise Fatal("declined, perhaps")
    if order == "slow":
        await asyncio.sleep(3600)
    return f"payment for {order}"


async def delete(path: str, force: bool = False) -> None:
    LINES.append(f"delete {path}{' by force' if force else ''}")


async def delete_slowly(ctx: Context, path: str) -> None:
    await ctx.sleep("nap", "1m")
    await ctx.step("delete", delete, path)


async def act(what: str) -> str:
    LINES.append(what)
    return what


async def begun(harness: Harness, *flows: Workflow[Any, Any], after: str = "5m", **options: Any) -> tuple[Node, Any]:
    worker = await harness.worker(*flows)
    run = await worker.start(flows[0], **options)
    await harness.advance(after)
    return worker, run


# --- unknown outcomes ---


@workflow
async def shop(ctx: Context, order: str) -> str:
    await ctx.step("first", charge, "first")
    async with asyncio.timeout(60):
        await ctx.step(charge, order)
    await ctx.receive("go")
    raise Rollback("enough")


@pytest.mark.parametrize(
    ("order", "undone"),
    [("good", "payment for good"), ("bad", "None"), ("slow", "None")],
)
async def test_a_step_is_undone_whatever_came_of_it(harness: Harness, order: str, undone: str):
    worker, run = await begun(harness, shop, input=order)
    if order == "good":
        worker = await harness.takeover(worker, shop)
        await worker.signal(run.run_id, "go")
    await harness.advance("5m")

    assert (await harness.status(run)).status == "compensated"
    assert [
        "charge first",
        f"charge {order}",
        f"refund {order}: {undone}",
        "refund first: payment for first",
    ] == LINES


async def test_a_step_that_was_lost_with_its_worker_is_undone_when_the_run_is_cancelled(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(charge, "slow")

    worker, run = await begun(harness, flow, after="1m")
    worker.crash()
    client = await harness.client()
    await client.do(client.engine.cancel(run.run_id))
    await harness.worker(flow)
    await harness.advance("90m")

    assert (await harness.status(run)).status == "cancelled"
    assert LINES == ["charge slow", "refund slow: None"]


async def test_a_body_runs_only_after_its_beginning_is_durable(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(charge, "good")
        await ctx.receive("go")

    _worker, run = await begun(harness, flow)
    begins = next(
        number
        for number, (_, commit, _) in enumerate(harness.answers)
        if any(entry.kind == "g" for each in _commits(commit) for entry in each.entries)
    )
    ends = next(
        number
        for number, (_, commit, _) in enumerate(harness.answers)
        if any(entry.kind == "s" for each in _commits(commit) for entry in each.entries)
    )
    assert begins < ends
    assert await harness.paths(run) == ["charge"]  # the beginning is of no interest any more


def _commits(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) and not hasattr(given, "entries") else [given]


async def test_what_is_always_undone_needs_a_compensation():
    with pytest.raises(InvalidOptionError, match="nothing that undoes it"):
        step(act, undo="always")
    with pytest.raises(InvalidOptionError, match="'never'"):
        step(act, compensate=act, undo="never")  # type: ignore[call-overload]


# --- effects outside of steps ---


@workflow
async def files(ctx: Context) -> None:
    await ctx.compensate_with(delete, "a")
    await ctx.step("work", act, "work")
    await ctx.compensate_with("delete b", delete, "b", force=True)
    await ctx.compensate_with("delete c", delete_slowly, "c")
    await ctx.sleep("nap", "10m")
    raise Rollback("enough")


async def test_effects_outside_of_steps_are_undone_last_in_first_out(harness: Harness):
    worker, run = await begun(harness, files)
    await harness.takeover(worker, files)
    await harness.advance("20m")

    assert (await harness.status(run)).status == "compensated"
    assert LINES == ["work", "delete c", "delete b by force", "delete a"]


async def test_effects_of_trimmed_iterations_and_lost_branches_are_undone_too(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        async def body(inner: Context, number: int) -> Continue[int] | Break[None]:
            await inner.compensate_with(delete, f"{number}")
            return Break(None) if number == 2 else Continue(number + 1)

        async def slow(inner: Context) -> None:
            await inner.compensate_with(delete, "branch")
            await inner.receive("never")

        async def quick(inner: Context) -> None:
            await inner.sleep("nap", "1s")

        await ctx.loop("loop", body, 0, trim_every=1, keep=0)
        await ctx.race("race", {"slow": slow, "quick": quick})
        await ctx.sleep("nap", "10m")
        raise Rollback("enough")

    worker, run = await begun(harness, flow)
    await harness.takeover(worker, flow)
    await harness.advance("20m")

    assert (await harness.status(run)).status == "compensated"
    assert LINES == ["delete branch", "delete 2", "delete 1", "delete 0"]


async def test_a_plain_workflow_registers_effects_too(harness: Harness):
    @workflow
    def flow(ctx: SyncContext) -> None:
        ctx.compensate_with(delete, "a")
        ctx.sleep("nap", "1m")
        ctx.fail("no")

    _worker, run = await begun(harness, flow)

    assert (await harness.status(run)).status == "compensated"
    assert LINES == ["delete a"]


async def test_arguments_that_cannot_be_passed_later_are_refused_in_their_line(harness: Harness):
    found: list[str] = []

    @workflow
    async def flow(ctx: Context) -> None:
        for name, given in (("a", ()), ("b", ("x", True, 3))):
            try:
                await ctx.compensate_with(name, delete, *given)
            except InvalidOptionError as error:
                found.append(str(error.fix))

    _, run = await begun(harness, flow)

    await harness.result(run)
    assert found[:2] == ["write: ctx.compensate_with(delete, path, force)"] * 2


# --- children ---


@workflow
async def ship(ctx: Context, order: str) -> str:
    await ctx.sleep("nap", "1m")
    if order == "bad":
        ctx.fail("no")
    return f"parcel {order}"


async def take_back(order: str, parcel: str) -> None:
    LINES.append(f"take back {order}: {parcel}")


@workflow
async def ordering(ctx: Context, order: str) -> None:
    await ctx.child(ship, "good", compensate=take_back)
    await ctx.child(ship, order, name="second", compensate=take_back)
    await ctx.sleep("nap", "10m")
    ctx.fail("changed my mind")


@pytest.mark.parametrize("order", ["fine", "bad"])
async def test_a_child_that_completed_is_undone(harness: Harness, order: str):
    worker, run = await begun(harness, ordering, ship, input=order)
    await harness.takeover(worker, ordering, ship)
    await harness.advance("20m")

    with pytest.raises(RunFailed):
        await harness.result(run)
    first = ["take back fine: parcel fine"] if order == "fine" else []
    assert [*first, "take back good: parcel good"] == LINES


async def test_a_compensation_that_does_not_fit_a_child_is_refused_in_its_line(harness: Harness):
    async def needs_too_much(order: str, parcel: str, more: str) -> None: ...

    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.child(ship, "x", compensate=needs_too_much)
        except InvalidOptionError:
            return "refused"
        return "?"

    _, run = await begun(harness, flow, ship)

    assert await harness.result(run) == "refused"


# --- whole runs ---


@workflow
async def complete(ctx: Context, order: str) -> str:
    await ctx.step("first", charge, order)
    await ctx.compensate_with(delete, order)
    await ctx.child(ship, order, compensate=take_back)
    return "done"


async def test_a_completed_run_is_undone_in_a_run_of_its_own(harness: Harness):
    worker, run = await begun(harness, complete, ship, input="x", key="order-1")
    assert await harness.result(run) == "done"
    worker = await harness.takeover(worker, complete, ship)
    LINES.clear()
    undoing = await worker.do(worker.engine.compensate("order-1", by="ann", reason="returned"))
    again = await worker.do(worker.engine.compensate(run.run_id))
    await harness.advance("5m")

    assert undoing.run_id == again.run_id
    assert (undoing.is_new, again.is_new) == (True, False)
    view = await harness.status(undoing)
    assert (view.status, view.forked_from) == ("compensated", run.run_id)
    assert LINES == ["take back x: parcel x", "delete x", "refund x: payment for x"]
    assert (await harness.status(run)).status == "completed"
    acts = await worker.do(worker.engine.runs.list_acts(run.run_id))
    assert [(act.verb, act.by) for act in acts] == [("compensate", "ann")]


async def test_only_a_completed_run_with_something_to_undo_is_compensated(harness: Harness):
    @workflow
    async def empty(ctx: Context) -> None:
        await ctx.step("a", act, "a")

    @workflow
    async def local(ctx: Context) -> None:
        await ctx.step(step(act, name="a", compensate=lambda what, result: None), "a")

    worker, run = await begun(harness, empty, local, holding)
    waiting = await worker.start(holding)
    lost = await worker.start(local)
    await harness.advance("1m")

    with pytest.raises(InvalidMoveError, match="nothing to undo"):
        await worker.do(worker.engine.compensate(run.run_id))
    with pytest.raises(InvalidMoveError, match="waiting"):
        await worker.do(worker.engine.compensate(waiting.run_id))
    with pytest.raises(InvalidOptionError, match="cannot be found"):
        await worker.do(worker.engine.compensate(lost.run_id))


@workflow
async def holding(ctx: Context) -> None:
    await ctx.step(charge, "x")
    await ctx.receive("go")


# --- what `finally` does ---


async def test_finally_runs_when_a_run_is_cancelled_and_can_record_nothing(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        try:
            await ctx.receive("never")
        finally:
            LINES.append("finally")
            await ctx.step("in vain", act, "in vain")

    worker, run = await begun(harness, flow)
    await worker.do(run.cancel())
    await harness.advance("1m")

    assert (await harness.status(run)).status == "cancelled"
    assert set(LINES) <= {"finally"}
    assert await harness.paths(run) == []
