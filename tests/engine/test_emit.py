"""Events out: emitted with a commit, handed to sinks in order, at least once."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from stepwell import Context, Engine, Fatal, Retry, RetryAfter, RunFailed, StepContext, StepFailed, step, workflow
from stepwell.codec.base import PlaceLike
from stepwell.codec.json_codec import JsonCodec
from stepwell.errors import (
    DuplicateNameError,
    InvalidNameError,
    InvalidOptionError,
    PayloadTooLargeError,
    UnserialisableError,
)
from stepwell.sinks import EmittedEvent, handler
from tests.cases.harness import Harness, Node

THRICE = Retry(max_attempts=3, initial="10s", factor=2, jitter=0)


class Inbox:
    """A sink that remembers what it got, and fails as long as it is told to."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.events: list[EmittedEvent] = []
        self.attempts: list[str] = []
        self.failures = failures
        self.error = error or OSError("the line is dead")

    async def get(self, event: EmittedEvent) -> None:
        self.attempts.append(event.name)
        if self.failures > 0:
            self.failures -= 1
            raise self.error
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]


@step(emits="order.charged")
async def charge(ctx: StepContext, amount: int) -> dict[str, int]:
    ctx.emit("order.charging", {"amount": amount})
    return {"charged": amount}


@workflow
async def order(ctx: Context, amount: int) -> str:
    await ctx.emit("order.begun")
    await ctx.step(charge, amount)
    return await ctx.emit("order.done", {"amount": amount})


@workflow
async def pair(ctx: Context, names: list[str]) -> None:
    for name in names:
        await ctx.emit(name)


def relays_of(engine: Engine) -> list[Any]:
    assert engine._worker is not None
    return list(engine._worker._relays)


async def serve(harness: Harness, inbox: Inbox, *more: Any, **options: Any) -> Node:
    return await harness.worker(order, pair, *more, sinks=[handler(inbox.get, name="inbox", **options)])


async def test_a_sink_gets_the_events_of_a_run_in_the_order_of_the_code(harness: Harness) -> None:
    inbox = Inbox()
    worker = await serve(harness, inbox)
    run = await worker.start(order, 7, key="Order-1")
    await harness.drain()

    assert inbox.names == ["order.begun", "order.charging", "order.charged", "order.done"]
    last = inbox.events[-1]
    assert (last.id, last.payload, last.key) == (await harness.result(run), {"amount": 7}, "order-1")
    assert (last.run_id, last.workflow, last.path, last.attempt) == (run.run_id, "order", "order.done", 1)
    assert [event.payload for event in inbox.events[:3]] == [None, {"amount": 7}, {"charged": 7}]
    assert [event.path for event in inbox.events[:3]] == ["order.begun", "charge", "charge"]
    assert len({event.id for event in inbox.events}) == 4
    assert await worker.engine.outbox.list_pending() == []


async def test_what_is_emitted_is_in_the_history_and_a_replay_emits_nothing(harness: Harness) -> None:
    @workflow
    async def waits(ctx: Context) -> str:
        first = await ctx.emit("first", 1)
        await ctx.receive("go")
        await ctx.emit("second", 2)
        return first

    inbox = Inbox()
    worker = await serve(harness, inbox, waits)
    run = await worker.start(waits)
    await harness.drain()
    assert inbox.names == ["first"]
    worker = await harness.takeover(worker, waits, sinks=[handler(inbox.get, name="inbox")])
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert inbox.names == ["first", "second"]
    assert await harness.result(run) == inbox.events[0].id
    [entry, *_] = await harness.history(run)
    assert (entry.kind, entry.path, entry.value) == ("emit", "first", ["first", inbox.events[0].id])


async def test_an_event_without_a_sink_is_recorded_and_nothing_is_owed(harness: Harness) -> None:
    inbox = Inbox()
    worker = await serve(harness, inbox, events=["other.*", "order.done"])
    run = await worker.start(order, 7)
    await harness.drain()

    assert inbox.names == ["order.done"]
    assert await harness.paths(run) == ["order.begun", "charge", "order.done"]
    assert await worker.engine.outbox.list_pending() == []


async def test_a_step_that_fails_emits_nothing(harness: Harness) -> None:
    attempts = 0

    async def flaky(ctx: StepContext) -> str:
        nonlocal attempts
        attempts += 1
        ctx.emit("tried", attempts)
        if attempts < 3:
            raise OSError("not yet")
        return "done"

    async def never(ctx: StepContext) -> None:
        ctx.emit("never")
        raise Fatal("no")

    @workflow
    async def tries(ctx: Context) -> bool:
        await ctx.step("flaky", step(flaky, retry=Retry(max_attempts=3)))
        hopeless: Any = step(never, emits="never")
        return (await ctx.try_step(hopeless)).ok

    inbox = Inbox()
    worker = await serve(harness, inbox, tries)
    run = await worker.start(tries)
    await harness.advance("10s")

    assert await harness.result(run) is False
    assert [(event.name, event.payload) for event in inbox.events] == [("tried", 3)]


async def test_what_a_body_changes_after_it_emitted_is_not_in_the_event(harness: Harness) -> None:
    async def count(ctx: StepContext) -> None:
        state = {"n": 0}
        for n in (1, 2):
            state["n"] = n
            ctx.emit("count", state)

    @workflow
    async def counts(ctx: Context) -> None:
        await ctx.step(count)

    inbox = Inbox()
    worker = await serve(harness, inbox, counts)
    await worker.start(counts)
    await harness.drain()

    assert [event.payload for event in inbox.events] == [{"n": 1}, {"n": 2}]


async def test_a_compensation_may_emit(harness: Harness) -> None:
    async def undo(ctx: Context, result: Any) -> None:
        await ctx.emit("undone", result)

    async def refund(ctx: StepContext, result: Any) -> None:
        ctx.emit("refunded", result)

    async def book(value: str) -> str:
        return value

    @workflow
    async def trip(ctx: Context) -> None:
        await ctx.step("hotel", step(book, compensate=undo), "hotel")
        await ctx.step("train", step(book, compensate=refund), "train")
        ctx.fail("rain")

    inbox = Inbox()
    worker = await serve(harness, inbox, trip)
    await worker.start(trip)
    await harness.advance("1s")

    assert [(event.name, event.payload) for event in inbox.events] == [("refunded", "train"), ("undone", "hotel")]


async def test_the_same_event_twice_in_a_scope_is_numbered_or_refused(harness: Harness) -> None:
    @workflow
    async def repeats(ctx: Context) -> list[str]:
        return [await ctx.emit("tick", n) for n in range(3)]

    @workflow(names="unique")
    async def clashes(ctx: Context) -> None:
        for n in range(2):
            await ctx.emit("tick", n)

    inbox = Inbox()
    worker = await serve(harness, inbox, repeats, clashes)
    run = await worker.start(repeats)
    await harness.drain()

    assert await harness.result(run) == [event.id for event in inbox.events]
    assert [event.payload for event in inbox.events] == [0, 1, 2]
    clash = await worker.start(clashes)
    await harness.drain()
    assert (await harness.status(clash)).status == "paused"


# --- sinks that fail ------------------------------------------------------------------------


async def test_a_sink_that_fails_is_tried_again_later_with_the_same_id_and_nothing_overtakes(harness: Harness) -> None:
    inbox = Inbox(failures=2)
    worker = await serve(harness, inbox, retry=THRICE)
    await worker.start(pair, ["a", "b"])
    await harness.advance("9s")
    assert inbox.attempts == ["a"]
    [first, second] = await worker.engine.outbox.list_pending()
    assert (first.attempts, first.failure, second.attempts) == (1, "OSError: the line is dead", 0)

    await harness.advance("2s")
    assert inbox.attempts == ["a", "a"]
    await harness.advance("20s")

    assert inbox.names == ["a", "b"]
    assert (inbox.events[0].id, inbox.events[0].attempt) == (first.event_id, 3)


async def test_a_broken_sink_holds_up_neither_another_sink_nor_another_run(harness: Harness) -> None:
    good, bad = Inbox(), Inbox(failures=1)
    worker = await harness.worker(pair, sinks=[handler(good.get, name="good"), handler(bad.get, name="bad")])
    await worker.start(pair, ["a", "b"])
    await harness.drain()
    await worker.start(pair, ["c"])
    await harness.drain()

    assert good.names == ["a", "b", "c"]
    assert bad.names == ["c"]
    await harness.advance("2s")
    assert bad.names == ["c", "a", "b"]


async def test_a_sink_that_hangs_is_given_up_on_in_time(harness: Harness) -> None:
    async def hang(event: EmittedEvent) -> None:
        await asyncio.sleep(1_000)

    good = Inbox()
    sinks = [handler(hang, timeout="5s", retry=Retry(max_attempts=1)), handler(good.get, name="good")]
    worker = await harness.worker(pair, sinks=sinks)
    await worker.start(pair, ["a"])
    await harness.advance("6s")

    assert good.names == ["a"]
    [letter] = await worker.engine.outbox.list_dead()
    assert (letter.sink, letter.failure) == ("hang", "TimeoutError: it took longer than its limit of 0:00:05")


async def test_after_the_last_attempt_it_is_a_dead_letter_and_the_next_event_goes_on(harness: Harness) -> None:
    inbox = Inbox(failures=3)
    worker = await serve(harness, inbox, retry=THRICE)
    run = await worker.start(pair, ["a", "b"])
    await harness.advance("1m")

    assert inbox.attempts == ["a", "a", "a", "b"]
    outbox = worker.engine.outbox
    [letter] = await outbox.list_dead()
    assert (letter.name, letter.sink, letter.run_id, letter.attempts) == ("a", "inbox", run.run_id, 3)
    assert await outbox.list_pending() == []
    assert await worker.do(outbox.replay(letter.event_id, by="ann")) == 1
    await harness.drain()
    assert inbox.names == ["b", "a"]
    assert (inbox.events[1].id, inbox.events[1].attempt) == (letter.event_id, 1)
    assert await worker.do(outbox.replay(letter.event_id)) == 0


async def test_a_dead_letter_can_be_dropped(harness: Harness) -> None:
    inbox = Inbox(failures=1, error=Fatal("never"))
    worker = await serve(harness, inbox)
    await worker.start(pair, ["a"])
    await harness.drain()
    outbox = worker.engine.outbox
    [letter] = await outbox.list_dead()

    assert letter.failure == "Fatal: never"
    assert await worker.do(outbox.drop(letter.event_id, "elsewhere")) == 0
    assert await worker.do(outbox.drop(letter.event_id)) == 1
    assert await outbox.list_dead() == []


async def test_a_sink_may_say_when_to_try_again(harness: Harness) -> None:
    inbox = Inbox(failures=1, error=RetryAfter("3m"))
    worker = await serve(harness, inbox)
    await worker.start(pair, ["a"])
    await harness.advance("179s")
    assert inbox.attempts == ["a"]
    await harness.advance("2s")

    assert inbox.names == ["a"]


async def test_a_sink_that_cancels_itself_has_failed(harness: Harness) -> None:
    inbox = Inbox(failures=1, error=asyncio.CancelledError())  # type: ignore[arg-type]
    worker = await serve(harness, inbox)
    await worker.start(pair, ["a"])
    await harness.advance("2s")

    assert inbox.names == ["a"]


async def test_a_sink_that_wants_to_leave_takes_nobody_with_it(harness: Harness) -> None:
    inbox = Inbox(failures=1, error=SystemExit(3))  # type: ignore[arg-type]
    worker = await serve(harness, inbox)
    await worker.start(pair, ["a"])
    await harness.advance("2s")

    assert inbox.names == ["a"]


async def test_a_policy_that_fails_itself_gives_up(harness: Harness) -> None:
    def broken(attempt: int, error: Exception) -> float:
        raise KeyError(attempt)

    inbox = Inbox(failures=1)
    worker = await serve(harness, inbox, retry=Retry(max_attempts=5, delay=broken))
    await worker.start(pair, ["a"])
    await harness.drain()

    assert [letter.name for letter in await worker.engine.outbox.list_dead()] == ["a"]


async def test_a_handler_need_not_be_asynchronous(harness: Harness) -> None:
    got: list[str] = []

    def note(event: EmittedEvent) -> None:
        got.append(event.name)

    worker = await harness.worker(pair, sinks=[handler(note)])
    await worker.start(pair, ["a", "b"])
    await harness.drain()

    assert got == ["a", "b"]


# --- several workers ------------------------------------------------------------------------


async def test_workers_share_the_work_and_nothing_is_sent_twice(harness: Harness) -> None:
    inbox = Inbox()
    workers = [await serve(harness, inbox) for _ in range(3)]
    for number in range(30):
        await workers[number % 3].start(pair, [f"{number}.{n}" for n in range(3)])
    await harness.advance("1s")

    assert sorted(inbox.names) == sorted(f"{number}.{n}" for number in range(30) for n in range(3))
    for number in range(30):
        mine = [name for name in inbox.names if name.startswith(f"{number}.")]
        assert mine == [f"{number}.{n}" for n in range(3)]


async def test_what_a_killed_worker_was_sending_is_sent_by_another_with_the_same_id(harness: Harness) -> None:
    begun: list[str] = []

    async def hang(event: EmittedEvent) -> None:
        begun.append(event.id)
        await asyncio.sleep(1e6)

    inbox = Inbox()
    worker = await harness.worker(pair, sinks=[handler(hang, name="inbox", timeout="100d")])
    await worker.start(pair, ["a", "b"])
    await harness.drain()
    await harness.takeover(worker, pair, sinks=[handler(inbox.get, name="inbox")])

    assert inbox.names == ["a", "b"]
    assert begun == [inbox.events[0].id]


async def test_a_worker_that_leaves_gives_back_what_it_was_sending(harness: Harness) -> None:
    async def hang(event: EmittedEvent) -> None:
        await asyncio.sleep(1e6)

    inbox = Inbox()
    worker = await harness.worker(pair, sinks=[handler(hang, name="inbox", timeout="100d")])
    await worker.start(pair, ["a"])
    await harness.drain()
    await worker.shutdown(grace=1.0)
    harness.nodes.remove(worker)
    await serve(harness, inbox)
    await harness.drain()

    assert inbox.names == ["a"]


async def test_a_worker_that_leaves_lets_a_send_end_within_its_grace(harness: Harness) -> None:
    inbox = Inbox()

    async def slow(event: EmittedEvent) -> None:
        await asyncio.sleep(3)
        await inbox.get(event)

    worker = await harness.worker(pair, sinks=[handler(slow)])
    await worker.start(pair, ["a", "b"])
    await harness.drain()
    await worker.shutdown(grace=5.0)
    client = await harness.client()

    assert inbox.names == ["a"]
    assert [owed.name for owed in await client.engine.outbox.list_pending()] == ["b"]
    harness.nodes.remove(worker)


async def test_an_event_waits_for_a_process_that_has_its_sink(harness: Harness) -> None:
    late = Inbox()
    first = await harness.worker(pair, sinks=[handler(Inbox(failures=99).get, name="inbox")])
    await first.start(pair, ["a"])
    await harness.drain()
    await first.shutdown()
    harness.nodes.remove(first)
    await harness.worker(pair, sinks=[])
    await harness.advance("1h")
    relay = await harness.worker(sinks=[handler(late.get, name="inbox")])
    await harness.advance("1s")

    assert late.names == ["a"]
    assert relay.engine._worker is not None


async def test_without_any_hint_events_are_still_sent(harness: Harness) -> None:
    inbox = Inbox()
    relay = await harness.worker(sinks=[handler(inbox.get, name="inbox")], sweep_every="5s")
    relay.wire.drops_hints = True
    sink = handler(Inbox().get, name="inbox")
    worker = await harness.worker(pair, sinks=[sink])
    for node_relay in relays_of(worker.engine):
        await node_relay.drain(0.0)
    await worker.start(pair, ["a"])
    await harness.advance("6s")

    assert inbox.names == ["a"]


async def test_an_idle_relay_asks_for_nothing(harness: Harness) -> None:
    inbox = Inbox()
    worker = await serve(harness, inbox)
    await worker.start(pair, ["a"])
    await harness.drain()
    worker.wire.calls.clear()
    await harness.advance("9m")

    assert [call for call in worker.wire.calls if call.startswith("outbox")] == []
    await harness.advance("2m")
    of_each_sink = ["outbox.next_due"] * 2  # the one of this test, and the one of messages between runs
    assert [call for call in worker.wire.calls if call.startswith("outbox")] == of_each_sink


async def test_a_store_that_does_not_answer_loses_no_event(harness: Harness) -> None:
    inbox = Inbox()
    worker = await serve(harness, inbox)
    lost: list[str] = []

    async def lose(name: str) -> None:
        if name in ("outbox.take", "outbox.settle") and lost.count(name) < 2:
            lost.append(name)
            worker.wire.is_down = True
            asyncio.get_running_loop().call_later(0.01, setattr, worker.wire, "is_down", False)

    worker.wire.after = lose
    await worker.start(pair, ["a", "b"])
    await harness.advance("5s")

    assert inbox.names == ["a", "b"]
    assert sorted(lost) == ["outbox.settle", "outbox.settle", "outbox.take", "outbox.take"]
    assert await worker.engine.outbox.list_pending() == []


# --- lifecycle ------------------------------------------------------------------------------


@workflow
async def short(ctx: Context, wish: str) -> str:
    if wish == "fail":
        ctx.fail("secret reason")
    if wish == "wait":
        await ctx.receive("go")
    if wish == "undo":
        await ctx.step("do", step(_do, compensate=_undo))
        ctx.fail("no")
    return "secret result"


async def _do() -> str:
    return "done"


async def _nothing(event: EmittedEvent) -> None:
    return None


async def _undo(result: str) -> None:
    return None


async def test_the_end_of_a_run_is_an_event_without_its_payloads(harness: Harness) -> None:
    inbox = Inbox()
    worker = await harness.worker(short, sinks=[handler(inbox.get, "stepwell.run.*", name="inbox")], lifecycle=True)
    for wish in ("complete", "fail", "undo", "wait"):
        await worker.start(short, wish, key=wish)
    await harness.drain()
    await worker.do(worker.engine.cancel("wait", "secret"))
    await harness.advance("1s")

    told = {event.key: event.payload["status"] for event in inbox.events}
    assert told == {"complete": "completed", "fail": "failed", "undo": "compensated", "wait": "cancelled"}
    assert sorted(inbox.names) == sorted(f"stepwell.run.{status}" for status in told.values())
    assert "secret" not in str(inbox.events)
    assert set(inbox.events[0].payload) == {
        *("status", "version", "generation", "created_at", "started_at", "ended_at"),
    }


async def test_an_engine_without_workflows_announces_what_it_cancels(harness: Harness) -> None:
    inbox = Inbox()
    office = await harness.worker(sinks=[handler(inbox.get, name="inbox")], lifecycle=True)
    worker = await harness.worker(short)
    await worker.start(short, "wait", key="k")
    await harness.drain()
    await office.do(office.engine.cancel("k", compensate=False))
    await harness.drain()

    assert inbox.names == ["stepwell.run.cancelled"]


@pytest.mark.parametrize("lifecycle", [False, True])
async def test_lifecycle_events_are_off_unless_asked_for_and_wanted(harness: Harness, lifecycle: bool) -> None:
    inbox = Inbox()
    worker = await harness.worker(
        short, sinks=[handler(inbox.get, "order.*")] if lifecycle else [], lifecycle=lifecycle
    )
    await worker.start(short, "complete")
    await harness.drain()

    assert (inbox.names, await worker.engine.outbox.list_pending()) == ([], [])
    assert worker.engine._routes.announce is None


# --- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "a#b", "-a", "a" * 101, "ä", "a\n", None, 7])
async def test_a_name_that_is_none_is_refused_where_it_is_used(harness: Harness, name: Any) -> None:
    @workflow
    async def emits(ctx: Context) -> None:
        await ctx.emit(name, 1)

    async def body(ctx: StepContext) -> None:
        ctx.emit(name, 1)

    @workflow
    async def steps(ctx: Context) -> None:
        await ctx.step(body)

    inbox = Inbox()
    worker = await serve(harness, inbox, emits, steps)
    for flow in (emits, steps):
        run = await worker.start(flow)
        await harness.drain()
        with pytest.raises(RunFailed, match="not a name of an event"):
            await harness.result(run)
    assert inbox.attempts == []
    with pytest.raises(InvalidNameError) as caught:
        step(body, emits=name if isinstance(name, str) else "a/b")
    assert (caught.value.code, caught.value.fix) == ("SW102", 'use a name such as "order.paid"')


async def test_the_names_of_stepwell_itself_are_refused() -> None:
    with pytest.raises(InvalidNameError, match="reserved for stepwell") as caught:
        step(_do, emits="stepwell.run.completed")
    assert caught.value.fix == "use 'run.completed'"


async def test_an_event_that_cannot_be_encoded_fails_where_it_stands_and_is_not_published(harness: Harness) -> None:
    @workflow
    async def emits(ctx: Context) -> str:
        await ctx.emit("good", 1)
        try:
            await ctx.emit("bad", {"x": object()})
        except UnserialisableError as error:
            await ctx.receive("go")
            return f"{error.code} {error.where}"
        return "never"

    inbox = Inbox()
    worker = await serve(harness, inbox, emits)
    run = await worker.start(emits)
    await harness.drain()
    worker = await harness.deploy(worker, emits, sinks=[handler(inbox.get, name="inbox")])
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "SW301 workflow emits, path bad"
    assert inbox.names == ["good"]
    assert await harness.paths(run) == ["good", "go"]


async def test_an_event_of_a_step_that_cannot_be_encoded_fails_the_step_at_once(harness: Harness) -> None:
    bodies: list[int] = []

    async def body(ctx: StepContext, payload: str) -> None:
        bodies.append(1)
        ctx.emit("good")
        ctx.emit("bad", object() if payload == "strange" else "x" * 3_000_000)

    @workflow
    async def emits(ctx: Context, payload: str) -> str:
        try:
            await ctx.step(body, payload)
        except StepFailed as error:
            return error.failure.type
        return "never"

    inbox = Inbox()
    worker = await serve(harness, inbox, emits)
    strange, large = await worker.start(emits, "strange"), await worker.start(emits, "large")
    await harness.advance("1m")

    assert [await harness.result(run) for run in (strange, large)] == [
        UnserialisableError.__name__,
        PayloadTooLargeError.__name__,
    ]
    assert (len(bodies), inbox.attempts) == (2, [])


@pytest.mark.parametrize(
    ("make", "error", "title"),
    [
        (lambda: handler(7), InvalidOptionError, "not callable"),  # type: ignore[arg-type]
        (lambda: handler(lambda event: None), InvalidOptionError, "has no name"),
        (lambda: handler(_nothing, name=""), InvalidNameError, "sink name"),
        (lambda: handler(_nothing, []), InvalidOptionError, "wants no events"),
        (lambda: handler(_nothing, "a*b"), InvalidNameError, "wants events 'a\\*b'"),
        (lambda: handler(_nothing, [""]), InvalidNameError, "wants events ''"),
        (lambda: handler(_nothing, [7]), InvalidNameError, "wants events 7"),  # type: ignore[list-item]
        (lambda: handler(_nothing, timeout="0s"), InvalidOptionError, "timeout of sink '_nothing' is 0"),
        (lambda: handler(_nothing, timeout=-1), InvalidOptionError, "negative"),
        (lambda: handler(_nothing, retry=3), InvalidOptionError, "retry of sink"),  # type: ignore[arg-type]
        (lambda: Engine("memory:", sinks=[7]), InvalidOptionError, "7 is not a sink"),  # type: ignore[list-item]
        (lambda: Engine("memory:", sinks=[handler(_nothing), handler(_nothing)]), DuplicateNameError, "two sinks"),
    ],
)
def test_a_sink_that_can_have_no_meaning_is_refused(make: Any, error: type[Exception], title: str) -> None:
    with pytest.raises(error, match=title):
        make()


async def test_events_that_several_threads_of_one_body_emit_at_one_moment_are_all_kept() -> None:
    both = threading.Barrier(2, timeout=60)

    class Meeting(JsonCodec):
        def encode_body(self, value: Any, hint: Any, place: PlaceLike) -> bytes:
            if value in ("left", "right"):
                both.wait()
            return super().encode_body(value, hint, place)

    @step
    def report(ctx: StepContext) -> None:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(partial(ctx.emit, "met"), ["left", "right"]))

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(report)

    got: asyncio.Queue[EmittedEvent] = asyncio.Queue()
    sink = handler(got.put, name="inbox")
    async with Engine("memory:", workflows=[flow], codec=Meeting(), sinks=[sink]) as engine:
        await (await engine.start(flow)).result()
        events = [await asyncio.wait_for(got.get(), 60) for _ in range(2)]

    assert {event.payload for event in events} == {"left", "right"}
    assert len({event.id for event in events}) == 2
