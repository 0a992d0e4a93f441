"""Runs that signal, cancel, start and wait for other runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stepwell import Context, Request, RunPaused, Signal, WaitTimeout, done, signal, timer, workflow
from stepwell.errors import AskRefused, InvalidInputError, InvalidOptionError, Unanswered
from tests.cases.harness import Harness, Node

PAID = Signal[int]("paid")


@workflow
async def receiver(ctx: Context) -> list[Any]:
    """Receives until it is told to stop."""
    got: list[Any] = []
    while not got or got[-1] != "stop":
        got.append((await ctx.receive("paid", "next")).payload)
    return got


@workflow
async def telling(ctx: Context, target: str) -> str:
    for number in range(3):
        await ctx.signal(target, PAID, number)
    await ctx.signal(target, "next", "stop", name="last")
    return "told"


async def crowd(harness: Harness, *workflows: Any) -> Node:
    return await harness.worker(receiver, telling, *workflows)


@pytest.mark.parametrize("by_key", [True, False])
async def test_signals_of_a_run_arrive_once_and_in_their_order(harness: Harness, by_key: bool):
    worker = await crowd(harness)
    run = await worker.start(receiver, key="orders")
    await worker.start(telling, "Orders" if by_key else run.run_id)

    assert await harness.result(run) == [0, 1, 2, "stop"]


async def test_a_signal_is_recorded_before_it_is_sent(harness: Harness):
    worker = await crowd(harness)
    run = await worker.start(receiver)
    told = await worker.start(telling, run.run_id)
    await harness.drain()

    assert await harness.paths(told) == ["paid", "paid#2", "paid#3", "last"]
    assert {entry.kind for entry in await harness.history(told)} == {"signal"}
    await harness.takeover(worker, receiver, telling)
    assert await harness.result(run) == [0, 1, 2, "stop"]


async def test_a_signal_is_held_until_a_run_has_the_key(harness: Harness):
    worker = await crowd(harness)
    await worker.start(telling, "later")
    await harness.drain()
    run = await worker.start(receiver, key="later")

    assert await harness.result(run) == [0, 1, 2, "stop"]


async def test_what_cannot_be_delivered_is_a_dead_letter(harness: Harness):
    @workflow
    async def over(ctx: Context) -> None: ...

    worker = await crowd(harness, over)
    run = await worker.start(over)
    await harness.result(run)
    told = await worker.start(telling, run.run_id)
    await harness.drain()

    assert await harness.result(told) == "told"
    dead = await worker.do(worker.engine.outbox.list_dead())
    assert [(one.sink, one.name, one.run_id) for one in dead] == [
        ("stepwell.runs", "stepwell.to.signal", told.run_id)
    ] * 4
    assert "has ended" in dead[0].failure or "completed" in dead[0].failure


async def test_a_signal_may_be_dropped_instead(harness: Harness):
    @workflow
    async def drops(ctx: Context) -> None:
        await ctx.signal("nobody", "hello", if_missing="drop")

    worker = await harness.worker(drops)
    await harness.result(await worker.start(drops))
    await harness.drain()

    assert await worker.do(worker.engine.outbox.list_dead()) == []
    assert await worker.do(worker.engine.signals.list_held()) == []


async def test_a_signal_with_a_known_dedup_key_is_sent_once(harness: Harness):
    @workflow
    async def repeats(ctx: Context, target: str) -> None:
        for _ in range(2):
            await ctx.signal(target, "next", 1, dedup_key="one")
        await ctx.signal(target, "next", "stop")

    worker = await crowd(harness, repeats)
    run = await worker.start(receiver)
    await worker.start(repeats, run.run_id)

    assert await harness.result(run) == [1, "stop"]


async def test_a_payload_that_does_not_fit_is_rejected_in_the_line_that_sends_it(harness: Harness):
    @workflow
    async def careful(ctx: Context) -> str:
        try:
            await ctx.signal("x", PAID, "no number")  # type: ignore[misc]
        except InvalidInputError:
            return "rejected"
        return "sent"

    worker = await harness.worker(careful)
    run = await worker.start(careful)

    assert await harness.result(run) == "rejected"
    assert await harness.history(run) == []


async def test_a_run_cannot_be_told_that_a_signal_has_no_receiver(harness: Harness):
    @workflow
    async def asking_too_much(ctx: Context) -> str:
        try:
            await ctx.signal("x", "y", if_missing="raise")  # type: ignore[call-overload]
        except InvalidOptionError as error:
            return f"{error.why}; {error.fix}"
        return ""

    worker = await harness.worker(asking_too_much)
    said = await harness.result(await worker.start(asking_too_much))

    assert said == 'the code continues when the signal is recorded, before it is delivered; use "hold" or "drop"'


async def test_a_run_cancels_another_one(harness: Harness):
    @workflow
    async def stops(ctx: Context, target: str) -> str:
        await ctx.cancel(target, "not needed")
        arrived = await ctx.wait_any(ended=done(target))
        return str(arrived.value.status)

    worker = await crowd(harness, stops)
    run = await worker.start(receiver)
    stopping = await worker.start(stops, run.run_id)

    assert await harness.result(stopping) == "cancelled"
    view = await harness.status(run)
    assert (view.status, view.reason) == ("cancelled", "not needed")


async def test_a_run_publishes_to_the_runs_that_wait(harness: Harness):
    @workflow
    async def listening(ctx: Context) -> Any:
        return await ctx.topic("news")

    @workflow
    async def publishing(ctx: Context) -> None:
        await ctx.publish("news", {"n": 1})

    worker = await harness.worker(listening, publishing)
    runs = [await worker.start(listening) for _ in range(2)]
    await harness.drain()
    await worker.start(publishing)

    assert [await harness.result(run) for run in runs] == [{"n": 1}, {"n": 1}]


# --- asking ---

PRICE = Request[str, int]("price")


@workflow
async def prices(ctx: Context) -> int:
    """Answers until it is told to stop."""
    count = 0
    while True:
        message = await ctx.receive(PRICE, "stop")
        if message.name == "stop":
            return count
        count += 1
        if message.payload == "nothing":
            await message.refuse("not for sale")
        elif message.payload == "slow":
            await ctx.sleep("think", "30m")
            await message.reply(7)
        else:
            await message.reply(len(message.payload))


@workflow
async def buyer(ctx: Context, items: list[str]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        try:
            found.append(await ctx.ask("prices", PRICE, item, timeout="1h"))
        except (AskRefused, Unanswered, WaitTimeout) as error:
            found.append(type(error).__name__ + ": " + error.title)
    return found


async def test_a_run_asks_another_one(harness: Harness):
    worker = await harness.worker(prices, buyer)
    await worker.start(prices, key="prices")
    run = await worker.start(buyer, ["tea", "nothing", "bread"])

    assert await harness.result(run) == [3, "AskRefused: not for sale", 5]
    assert await harness.paths(run) == ["price", "price#2", "price#3"]
    assert [one.workflow for one in await worker.do(worker.engine.runs.list(limit=10))] == ["buyer", "prices"]


async def test_an_answer_may_come_late_and_after_a_crash(harness: Harness):
    worker = await harness.worker(prices, buyer)
    await worker.start(prices, key="prices")
    run = await worker.start(buyer, ["slow"])
    await harness.advance("10m")
    await harness.takeover(worker, prices, buyer)

    assert await harness.result(run) == [7]


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_question_without_an_answer(harness: Harness, is_there: bool):
    @workflow(name="prices")
    async def deaf(ctx: Context) -> None:
        await ctx.receive("stop")

    worker = await harness.worker(deaf, buyer)
    if is_there:
        await worker.start(deaf, key="prices")
    run = await worker.start(buyer, ["tea"])
    await harness.drain()
    if is_there:
        await worker.signal("prices", "stop")
    [said] = await harness.result(run)

    assert said.startswith("Unanswered: 'price' was not answered: ")
    assert said.endswith("is completed and has not answered" if is_there else "there is no active run 'prices'.")


async def test_a_question_has_a_deadline(harness: Harness):
    @workflow(name="prices")
    async def deaf(ctx: Context) -> None:
        await ctx.receive("stop")

    worker = await harness.worker(deaf, buyer)
    await worker.start(deaf, key="prices")
    run = await worker.start(buyer, ["tea"])
    await harness.advance("2h")

    assert await harness.result(run) == ["WaitTimeout: nothing arrived at price before its deadline"]


async def test_a_question_ends_with_the_run_that_asks(harness: Harness):
    worker = await harness.worker(prices, buyer)
    await worker.start(prices, key="prices")
    run = await worker.start(buyer, ["slow"])
    await harness.advance("1m")
    await worker.do(worker.engine.cancel(run.run_id))
    await harness.drain()

    asking = await worker.do(worker.engine.runs.list(f"parent:{run.run_id}"))
    assert [one.status for one in asking] == ["cancelled"]


# --- done ---


@workflow
async def awaits(ctx: Context, target: str) -> tuple[Any, ...]:
    outcome = (await ctx.wait_any(ended=done(target))).value
    return (outcome.ok, outcome.value, outcome.status, outcome.failure and outcome.failure.message)


@workflow
async def slow(ctx: Context, how: str) -> str:
    await ctx.sleep("a while", "10m")
    if how == "fail":
        ctx.fail("no")
    if how == "again":
        ctx.continue_as_new("well")
    return how


@pytest.mark.parametrize(
    ("how", "seen"),
    [("well", (True, "well", "completed")), ("fail", (False, None, "failed")), ("again", (True, "well", "completed"))],
)
@pytest.mark.parametrize("is_before", [True, False])
async def test_a_run_waits_for_any_run(harness: Harness, how: str, seen: tuple[Any, ...], is_before: bool):
    worker = await harness.worker(awaits, slow)
    run = await worker.start(slow, how)
    if is_before:
        await harness.advance("30m")
    waiting = await worker.start(awaits, run.run_id)
    await harness.advance("1h")

    assert tuple(await harness.result(waiting))[:3] == seen


async def test_a_run_waits_for_a_run_that_its_predecessor_has_spawned(harness: Harness):
    @workflow
    async def dispatcher(ctx: Context, spawned: list[str]) -> list[Any]:
        if not spawned:
            ctx.continue_as_new([str(await ctx.spawn(slow, "well")) for _ in range(3)])
        return [(await ctx.wait_any(one=done(run_id))).value.value for run_id in spawned]

    worker = await harness.worker(dispatcher, slow)
    run = await worker.start(dispatcher, [])
    await harness.advance("5m")
    await harness.takeover(worker, dispatcher, slow)

    assert await harness.result(run) == ["well"] * 3


async def test_a_wait_survives_the_death_of_the_worker(harness: Harness):
    worker = await harness.worker(awaits, slow)
    run = await worker.start(slow, "again")
    waiting = await worker.start(awaits, run.run_id)
    await harness.advance("15m")
    await harness.takeover(worker, awaits, slow)

    assert tuple(await harness.result(waiting))[:3] == (True, "well", "completed")


async def test_a_run_that_does_not_exist_has_failed(harness: Harness):
    worker = await harness.worker(awaits)
    waiting = await worker.start(awaits, "nobody")

    ok, value, status, why = await harness.result(waiting)
    assert (ok, value, status) == (False, None, "failed")
    assert "nobody" in why


async def test_other_things_may_come_first(harness: Harness):
    @workflow
    async def impatient(ctx: Context, target: str) -> list[str]:
        first = await ctx.wait_any(late=timer("1m"), ended=done(target), stop=signal("stop"))
        second = await ctx.wait_any(ended=done(target))
        return [first.label, second.label]

    worker = await harness.worker(impatient, slow)
    run = await worker.start(slow, "well")
    waiting = await worker.start(impatient, run.run_id)
    await harness.advance("1h")

    assert await harness.result(waiting) == ["late", "ended"]


async def test_why_names_the_run_that_is_awaited(harness: Harness):
    worker = await harness.worker(awaits, slow)
    run = await worker.start(slow, "well")
    waiting = await worker.start(awaits, run.run_id)
    await harness.advance("1m")

    explanation = await worker.do(worker.engine.explain(waiting.run_id))
    assert f"until run {run.run_id} has ended" in explanation.sentence


# --- starting ---


@workflow
async def worker_flow(ctx: Context, number: int) -> dict[str, Any]:
    return {"number": number, "key": ctx.key, "version": ctx.workflow_version}


async def test_a_run_starts_runs_that_are_not_its_children(harness: Harness):
    @workflow
    async def starter(ctx: Context) -> list[Any]:
        one = await ctx.start(worker_flow, 1, key="Mine", delay="1h", priority=5, tags={"a": "b"}, title="One")
        other = await ctx.start("worker_flow", 2, version=1, attributes={"region": "eu"})
        found = [(await ctx.wait_any(end=done(run_id))).value.value for run_id in (one, other)]
        return [one, other, found]

    worker = await harness.worker(starter, worker_flow)
    run = await worker.start(starter, by="ann")
    await harness.advance("2h")
    one, other, found = await harness.result(run)

    assert found == [{"number": 1, "key": "mine", "version": 1}, {"number": 2, "key": None, "version": 1}]
    view = await worker.do(worker.engine.runs.get(one))
    assert (view.parent, view.priority, dict(view.tags), view.title) == (None, 5, {"a": "b"}, "One")
    assert view.started_by == "ann"
    assert view.started_at is not None
    assert view.started_at - view.created_at >= timedelta(hours=1)
    assert dict((await worker.do(worker.engine.runs.get(other))).attributes) == {"region": "eu"}


async def test_a_start_whose_key_is_taken_fails_at_once(harness: Harness):
    @workflow
    async def starter(ctx: Context) -> Any:
        run_id = await ctx.start(worker_flow, 1, key="taken")
        outcome = (await ctx.wait_any(end=done(run_id))).value
        return [outcome.status, outcome.failure.message]

    worker = await harness.worker(starter, worker_flow, receiver)
    await worker.start(receiver, key="taken")
    status, message = await harness.result(await worker.start(starter))

    assert status == "failed"
    assert "taken" in message


async def test_children_are_started_by_name_with_options(harness: Harness):
    @workflow
    async def parent(ctx: Context) -> list[Any]:
        child = await ctx.child("worker_flow", 1, key="c", tags={"vip"}, delay="1h")
        spawned = await ctx.spawn("worker_flow", 2, title="Spawned", deadline="2h")
        return [child, spawned]

    worker = await harness.worker(parent, worker_flow)
    run = await worker.start(parent, deadline="3h")
    await harness.advance("2h")
    child, spawned = await harness.result(run)

    assert child == {"number": 1, "key": "c", "version": 1}
    view = await worker.do(worker.engine.runs.get(spawned))
    assert (view.title, view.parent) == ("Spawned", run.run_id)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda ctx: ctx.child(worker_flow, 1, prioritty=1), "did you mean priority=?"),
        (lambda ctx: ctx.spawn(worker_flow, 1, queue="x"), "has no option 'queue'"),
        (lambda ctx: ctx.start(worker_flow, 1, on_parent_close="leave"), "has no option 'on_parent_close'"),
        (lambda ctx: ctx.child("worker_flw", 1), "did you mean 'worker_flow'?"),
        (lambda ctx: ctx.child(worker_flow, 1, version=0), "a version is a whole number from 1"),
        (lambda ctx: ctx.child(print, 1), "which is not a workflow"),
        (lambda ctx: ctx.child(worker_flow, 1, priority=1_000), "priority is 1000"),
        (lambda ctx: ctx.child(worker_flow, 1, deadline="1s", delay="2s"), "deadline is '1s'"),
    ],
)
async def test_an_option_that_does_not_exist_says_which_one_does(harness: Harness, call: Any, words: str):
    @workflow
    async def parent(ctx: Context) -> str:
        try:
            await call(ctx)
        except InvalidOptionError as error:
            return str(error)
        return ""

    worker = await harness.worker(parent, worker_flow)

    assert words in await harness.result(await worker.start(parent))


async def test_an_option_of_a_start_that_does_not_exist_says_which_one_does(harness: Harness):
    worker = await harness.worker(worker_flow)

    with pytest.raises(InvalidOptionError, match="start has no option 'prioritty'") as caught:
        await worker.start(worker_flow, 1, prioritty=3)
    assert caught.value.fix == "did you mean priority=?"


async def test_other_code_at_a_message_stops_the_run(harness: Harness):
    sends = [True]

    @workflow
    async def flow(ctx: Context) -> None:
        await (ctx.signal("x", "y", name="n") if sends[0] else ctx.cancel("x", name="n"))
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    sends[0] = False
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")

    with pytest.raises(RunPaused, match="this code took another path") as caught:
        await harness.result(run)
    assert caught.value.why == "recorded: signal n · now: cancel n"
