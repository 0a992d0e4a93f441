"""Undoing: order, arguments, what compensations may do, and cancels at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Retry, Rollback, RunFailed, StepContext, step, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES

ONCE = Retry(max_attempts=1)


def doing(ledger: Ledger, name: str) -> Any:
    """A step that notes itself and can be undone."""

    async def undo(info: StepContext) -> None:
        ledger.note(f"undo {name}")

    undo.__qualname__ = f"undo_{name}"
    return step(ledger.body(name), name=name.replace(" ", "-"), compensate=undo)


async def ends(harness: Harness, flow: Any, *others: Any, status: str = "compensated", takeover: bool = False) -> Any:
    worker = await harness.worker(flow, *others)
    run = await worker.start(flow)
    await harness.advance("10m")
    if takeover:
        await harness.takeover(worker, flow, *others)
        await harness.advance("2h")
    view = await harness.status(run)
    assert view.status == status, view.failure
    return view


async def test_joins_are_undone_by_the_order_of_commits(harness: Harness, ledger: Ledger):
    def branch(name: str, seconds: int) -> Callable[[Context], Any]:
        async def run(ctx: Context) -> None:
            await ctx.step(doing(ledger, f"{name} 1"))
            await ctx.sleep("pause", seconds)
            await ctx.step(doing(ledger, f"{name} 2"))

        return run

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(doing(ledger, "first"))
        await ctx.join("both", {"slow": branch("slow", 20), "quick": branch("quick", 10)})
        raise ValueError("no")

    await ends(harness, flow)
    forward, back = ledger.lines[:5], ledger.lines[5:]
    assert forward == ["first", "slow 1", "quick 1", "quick 2", "slow 2"]
    assert back == [f"undo {name}" for name in reversed(forward)]


LEDGERS: list[Ledger] = []


async def undo_turn(turn: int) -> None:
    LEDGERS[-1].note(f"undo turn {turn}")


@step(compensate=undo_turn)
async def do_turn(turn: int) -> None:
    LEDGERS[-1].note(f"turn {turn}")


@pytest.mark.parametrize("takeover", [False, True])
async def test_trimmed_iterations_are_undone_as_well(harness: Harness, ledger: Ledger, takeover: bool):
    LEDGERS.append(ledger)

    async def body(ctx: Context, turn: int) -> Continue[int] | Break[int]:
        await ctx.step(do_turn, turn)
        await ctx.step("plain", ledger.body("plain"))
        await ctx.sleep("pause", "15m")
        return Break(turn) if turn == 5 else Continue(turn + 1)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.loop("l", body, 0, trim_every=2, keep=1)
        raise ValueError("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("40m")
    if takeover:
        worker = await harness.takeover(worker, flow)
    await harness.advance("2h")

    assert (await harness.status(run)).status == "compensated"
    assert ledger.counts.pop("plain") == 6
    assert [line for line in ledger.lines if line.startswith("undo")] == [f"undo turn {n}" for n in (5, 4, 3, 2, 1, 0)]


async def test_a_child_that_completed_is_not_undone_by_its_parent(harness: Harness, ledger: Ledger):
    @workflow
    async def child(ctx: Context) -> None:
        await ctx.step(doing(ledger, "child"))

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(doing(ledger, "parent"))
        await ctx.child(child)
        raise ValueError("no")

    await ends(harness, flow, child)
    assert ledger.lines == ["parent", "child", "undo parent"]


async def test_the_losers_of_a_race_are_undone(harness: Harness, ledger: Ledger):
    async def winner(ctx: Context) -> None:
        await ctx.sleep("pause", "10s")
        await ctx.step(doing(ledger, "winner"))

    async def loser(ctx: Context) -> None:
        await ctx.step(doing(ledger, "loser"))
        await ctx.receive("never")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.race("first", {"winner": winner, "loser": loser})
        raise ValueError("no")

    await ends(harness, flow)
    assert ledger.lines == ["loser", "winner", "undo winner", "undo loser"]


@dataclass
class Order:
    sku: str
    count: int


async def test_a_compensation_takes_as_much_of_arguments_and_result_as_it_wants(harness: Harness, ledger: Ledger):
    async def reserve(order: Order, note: str = "none", *, urgent: bool = False) -> int:
        return order.count * 10

    async def nothing() -> None:
        ledger.note("nothing")

    async def only_order(order: Order) -> None:
        ledger.note(f"order {order.sku}")

    async def everything(order: Order, note: str, urgent: bool, reserved: int) -> None:
        ledger.note(f"{order.sku} {note} {urgent} {reserved}")

    async def any_number(*args: Any) -> None:
        ledger.note(f"{len(args)} of {type(args[0]).__name__}")

    def blocking(order: Order) -> None:
        ledger.note(f"blocking {order.count}")

    @workflow
    async def flow(ctx: Context) -> None:
        order = Order("x", 2)
        undos: dict[str, Any] = {"a": nothing, "b": only_order, "c": everything, "d": any_number, "e": blocking}
        for name, undo in undos.items():
            await ctx.step(name, step(reserve, compensate=undo), order, "soon", urgent=True)
        raise ValueError("no")

    await ends(harness, flow)
    assert ledger.lines == ["blocking 2", "4 of Order", "x soon True 20", "order x", "nothing"]


async def test_a_compensation_may_sleep_receive_and_have_steps_of_its_own(harness: Harness, ledger: Ledger):
    async def undo(ctx: Context, sku: str) -> None:
        await ctx.step("ask", ledger.body(f"ask about {sku}"))
        answer = await ctx.receive("answer", timeout="1d")
        await ctx.sleep("cool off", "1h")
        await ctx.step("do it", ledger.body(f"undo by {answer.payload}"))

    async def book(sku: str) -> None:
        ledger.note("book")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(book, compensate=undo), "x")
        raise ValueError("no")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    assert (await harness.status(run)).status == "compensating"
    assert "is rolling back: it needs a signal 'answer'" in (await worker.engine.explain(run.run_id)).sentence
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "answer", "bank")
    await harness.drain()
    await harness.takeover(worker, flow)

    assert (await harness.status(run)).status == "compensated"
    assert ledger.lines == ["book", "ask about x", "undo by bank"]
    assert (await harness.paths(run))[-1] == "book~undo"


async def test_a_step_without_a_durable_result_is_not_undone(harness: Harness, ledger: Ledger):
    async def body() -> None:
        ledger.note("bad")
        raise ValueError("no")

    @workflow
    async def failing(ctx: Context) -> None:
        await ctx.step(doing(ledger, "good"))
        await ctx.step(step(body, retry=ONCE, compensate=body))

    await ends(harness, failing)
    assert ledger.lines == ["good", "bad", "undo good"]


async def test_a_rollback_stops_at_its_checkpoint(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(doing(ledger, "one"))
        await ctx.rollback_checkpoint("booked")
        await ctx.step(doing(ledger, "two"))
        await ctx.rollback_checkpoint("shipped")
        await ctx.step(doing(ledger, "three"))
        raise Rollback("changed", to="booked")

    view = await ends(harness, flow)
    assert view.failure.message == "changed"
    assert ledger.lines == ["one", "two", "three", "undo three", "undo two"]


async def test_a_caught_failure_undoes_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        await ctx.step(doing(ledger, "one"))
        try:
            await ctx.step("bad", step(ledger.failing("bad"), retry=ONCE))
        except ValueError:
            return "caught"
        return "not reached"

    view = await ends(harness, flow, status="completed")
    assert view.output == "caught"
    assert ledger.lines == ["one", "bad"]


async def test_a_compensation_that_only_the_running_code_defines_is_found_by_another_worker(
    harness: Harness, ledger: Ledger
):
    from stepwell.replay import steps

    def build() -> Any:
        @workflow(name="flow")
        async def flow(ctx: Context) -> None:
            async def undo_local() -> None:
                ledger.note("undo")

            await ctx.step("one", step(ledger.body("one"), compensate=undo_local))
            await ctx.once("two", lambda: 2)
            await ctx.receive("go")
            raise ValueError("no")

        return flow

    worker = await harness.worker(build())
    run = await worker.start("flow")
    await harness.drain()
    worker.crash()
    assert not [name for name in steps._COMPENSATIONS if name.endswith("undo_local")]
    worker = await harness.worker(build())
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.drain()

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.lines == ["one", "undo"]


async def test_a_run_that_failed_without_anything_to_undo_is_failed(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("one", ledger.body("one"))
        raise Rollback("nothing to undo")

    view = await ends(harness, flow, status="failed")
    assert view.failure.message == "nothing to undo"


@pytest.mark.parametrize("compensate", [True, False])
async def test_a_cancel_while_a_body_runs_waits_for_it_or_stops_it(harness: Harness, ledger: Ledger, compensate: bool):
    async def slow() -> None:
        ledger.note("begins")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ledger.note("told to stop")
            raise

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(doing(ledger, "one"))
        await ctx.step(slow)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")
    assert await worker.do(worker.engine.cancel(run.run_id, "stop", compensate=compensate))
    await harness.drain()

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.lines == ["one", "begins", "told to stop", *(["undo one"] if compensate else [])]


async def test_code_that_catches_everything_records_nothing_while_it_is_stopped(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        async def branch(ctx: Context) -> int:
            return len(await asyncio.gather(ctx.receive("never"), return_exceptions=True))

        await ctx.step(doing(ledger, "one"))
        await ctx.join("j", {"b": branch})
        await ctx.step(doing(ledger, "two"))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")
    assert await worker.do(worker.engine.cancel(run.run_id))
    await harness.drain()

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.lines == ["one", "undo one"]
    assert "j" not in await harness.paths(run)


async def test_a_body_that_ends_although_it_was_cancelled_is_undone(harness: Harness, ledger: Ledger):
    async def stubborn() -> str:
        ledger.note("begins")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ledger.note("ends all the same")
        return "done"

    async def undo(result: str) -> None:
        ledger.note(f"undo {result}")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(stubborn, compensate=undo))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10s")
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.drain()

    assert (await harness.status(run)).status == "cancelled"
    assert ledger.lines == ["begins", "ends all the same", "undo done"]


async def test_a_cancel_cascades_to_children_and_spares_spawned_runs(harness: Harness, ledger: Ledger):
    @workflow
    async def leaf(ctx: Context, name: str) -> None:
        await ctx.step(doing(ledger, name))
        await ctx.receive("never")

    @workflow
    async def middle(ctx: Context) -> None:
        await ctx.step(doing(ledger, "middle"))
        await ctx.child(leaf, "leaf", key="leaf")

    @workflow
    async def root(ctx: Context) -> None:
        await ctx.spawn(leaf, "spawned", key="spawned")
        await ctx.step(doing(ledger, "root"))
        await ctx.child(middle)

    worker = await harness.worker(root, middle, leaf)
    run = await worker.start(root)
    await harness.drain()
    await worker.do(worker.engine.cancel(run.run_id, "all of it"))
    await harness.drain()

    views = {view.workflow + (view.key or ""): view for view in await worker.engine.runs.list()}
    assert {name: view.status for name, view in views.items()} == {
        "root": "cancelled",
        "middle": "cancelled",
        "leafleaf": "cancelled",
        "leafspawned": "waiting",
    }
    assert views["leafleaf"].reason == "all of it"
    assert sorted(line for line in ledger.lines if line.startswith("undo")) == ["undo leaf", "undo middle", "undo root"]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_cancel_at_any_moment_undoes_exactly_what_was_done(mode: str, moment: str):
    seen = set()
    for number in range(2, 40):
        ledger = Ledger()
        harness = Harness(STORES["sqlite"](), mode)

        status = await cancelled_at(harness, undoable(ledger), moment, number)
        done = [line for line in ledger.lines if not line.startswith("undo")]
        undone = [line.removeprefix("undo ") for line in ledger.lines if line.startswith("undo")]
        assert undone == (list(reversed(done)) if status == "cancelled" else []), (number, ledger.lines)
        seen.add(status)

    assert seen == {"cancelled", "completed"}


def undoable(ledger: Ledger) -> Any:
    @workflow
    async def flow(ctx: Context) -> str:
        for name in ("a", "b"):
            await ctx.step(doing(ledger, name))
        await ctx.sleep("pause", "5s")
        await ctx.step(doing(ledger, "c"))
        return "done"

    return flow


async def cancelled_at(harness: Harness, flow: Any, moment: str, number: int) -> str:
    """The status of a run that is cancelled at its worker's n-th call to the store."""
    client = await harness.client()
    worker = await harness.worker(flow)
    calls = 0

    async def cancel(name: str) -> None:
        nonlocal calls
        calls += 1
        if calls == number and await client.engine.status("k") is not None:
            await client.engine.cancel("k")

    setattr(worker.wire, moment, cancel)
    run = await client.start(flow, key="k")
    await harness.advance("1m")
    view = await harness.status(run)
    await harness.close()
    return view.status


async def test_a_failure_while_undoing_keeps_the_runs_own_failure(harness: Harness, ledger: Ledger):
    async def broken() -> None:
        raise ConnectionError("away")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("one", step(ledger.body("one"), compensate=broken))
        raise ValueError("the reason")

    view = await ends(harness, flow, status="compensation_failed")
    assert (view.failure.summary, view.failure.causes["run"].summary) == (
        "ConnectionError: away",
        "ValueError: the reason",
    )
    assert view.failure.path == "one~undo"
    assert not view.is_ended


async def test_a_failed_run_tells_its_cause_and_place(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.join("both", {"a": lambda c: c.step("call", step(ledger.failing("call"), retry=ONCE))})

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunFailed) as caught:
        await harness.result(run)
    failure = caught.value.failure
    assert (failure.type, failure.path, list(failure.causes)) == ("JoinError", "both", ["a"])
    assert failure.causes["a"].causes["step"].summary == "ValueError: call failed"


async def test_a_step_may_ask_for_a_rollback_to_a_checkpoint(harness: Harness, ledger: Ledger):
    async def give_up() -> None:
        raise Rollback("changed", to="line")

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(doing(ledger, "one"))
        await ctx.rollback_checkpoint("line")
        await ctx.step(doing(ledger, "two"))
        await ctx.step(give_up)

    view = await ends(harness, flow)
    assert (view.failure.message, view.failure.path) == ("changed", "give_up")
    assert ledger.lines == ["one", "two", "undo two"]


async def test_what_a_compensation_does_is_not_undone_in_its_turn(harness: Harness, ledger: Ledger):
    inner = doing(ledger, "inner")

    async def put_right(ctx: Context) -> None:
        await ctx.step(inner)
        await ctx.sleep("nap", "1m")
        await ctx.step("after", ledger.body("after"))

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(step(ledger.body("outer"), name="outer", compensate=put_right))
        raise ValueError("no")

    await ends(harness, flow)
    assert ledger.lines == ["outer", "inner", "after"]
