"""Cases about events and topics, from durable-monad and Stem, and the three races between a message and its run."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, WaitTimeout, signal, timer, topic, workflow
from stepwell.engine import events as engine_events
from stepwell.errors import TopicFullError
from tests.cases.harness import Harness


@workflow
async def listener(ctx: Context, since: Any = "wait") -> Any:
    return await ctx.topic("news", since=since)


@workflow
async def patient(ctx: Context) -> Any:
    try:
        return await ctx.topic("news", timeout="1h")
    except WaitTimeout:
        return "timeout"


async def test_sc_05_a_run_resumes_with_the_event_it_waited_for(harness: Harness):
    worker = await harness.worker(listener)
    run = await worker.start(listener)
    await harness.drain()
    assert (await harness.status(run)).status == "waiting"
    assert await worker.publish("news", {"amount": 7}) == 1
    await harness.drain()

    assert await harness.result(run) == {"amount": 7}


@pytest.mark.parametrize("deliver", ["all", "one"])
async def test_sc_08_a_kept_event_is_for_a_later_wait_that_asks_for_it(harness: Harness, deliver: Any):
    worker = await harness.worker(listener)
    assert await worker.publish("news", 1, deliver=deliver, retain="1h") == 0
    await harness.advance("1m")
    runs = {since: await worker.start(listener, since) for since in ("wait", "start", "all")}
    await harness.drain()

    assert await harness.result(runs["all"]) == 1
    assert [(await harness.status(runs[since])).status for since in ("wait", "start")] == ["waiting"] * 2


async def test_sc_10_an_event_whose_time_is_over_is_not_delivered(harness: Harness):
    worker = await harness.worker(listener)
    await worker.publish("news", 1, retain="1h")
    await harness.advance("1h")
    run = await worker.start(listener, "all")
    await harness.drain()

    assert (await harness.status(run)).status == "waiting"
    assert await worker.wire.store.views.list_events(limit=9) == []


async def test_sc_11_a_full_topic_refuses_and_keeps_what_it_has(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    worker = await harness.worker(listener)
    make = engine_events.Events._make
    monkeypatch.setattr(engine_events.Events, "_make", lambda *args: make(*args)._replace(room=3))
    for n in range(3):
        await worker.publish("news", n, retain="1h", deliver="one")

    with pytest.raises(TopicFullError) as caught:
        await worker.publish("news", 3, retain="1h", deliver="one")
    error = caught.value
    assert (error.code, all([error.where, error.why, error.fix])) == ("SW421", True)
    run = await worker.start(listener, "all")
    await harness.drain()
    assert await harness.result(run) == 0
    await worker.publish("news", 3, retain="1h", deliver="one")


async def test_sc_14_an_unread_event_of_a_cancelled_run_goes_to_another_waiter(harness: Harness):
    worker = await harness.worker(listener)
    first, second = await worker.start(listener), await worker.start(listener)
    await harness.drain()
    await worker.shutdown()
    harness.nodes.remove(worker)
    client = await harness.client()
    assert await client.publish("news", 1, deliver="one") == 1
    assert await client.do(client.engine.cancel(first.run_id))
    await harness.worker(listener)
    await harness.drain()

    assert (await harness.status(first)).status == "cancelled"
    assert await harness.result(second) == 1


async def test_sc_16_of_two_topics_the_other_stays_kept(harness: Harness):
    @workflow
    async def either(ctx: Context) -> list[Any]:
        arrived = await ctx.wait_any(a=topic("a"), b=topic("b"))
        return [arrived.label, arrived.value]

    worker = await harness.worker(either)
    run = await worker.start(either)
    await harness.drain()
    assert await worker.publish("b", 2, deliver="one", retain="1h") == 1
    await harness.drain()

    assert await harness.result(run) == ["b", 2]
    assert await worker.publish("a", 1, deliver="one", retain="1h") == 0
    assert [event.topic for event in await worker.wire.store.views.list_events(limit=9)] == ["a"]


async def test_sc_16_what_loses_stays_for_the_next_wait(harness: Harness):
    @workflow
    async def both(ctx: Context) -> list[Any]:
        first = await ctx.wait_any(a=topic("a"), b=topic("b"), s=signal("s"))
        return [first.label, await ctx.topic("b"), (await ctx.receive("s")).payload]

    worker = await harness.worker(both)
    run = await worker.start(both)
    await harness.drain()
    worker.pause()
    client = await harness.client()
    await client.publish("a", 1)
    await harness.advance("1s")
    await client.publish("b", 2, deliver="one")
    await client.signal(run.run_id, "s", 3)
    worker.resume()
    await harness.drain()

    assert await harness.result(run) == ["a", 2, 3]


async def test_sc_17_an_event_or_a_timeout_whichever_is_first(harness: Harness):
    @workflow
    async def either(ctx: Context) -> list[Any]:
        arrived = await ctx.wait_any(event=topic("news"), late=timer("1h"))
        await ctx.sleep("on", "3h")
        return [arrived.label, arrived.value]

    worker = await harness.worker(either)
    early, late = await worker.start(either), await worker.start(either)
    await harness.drain()
    assert await worker.publish("news", 1, deliver="one") == 1
    await harness.advance("2h")
    assert await worker.publish("news", 2) == 0
    await harness.advance("3h")

    assert sorted([await harness.result(early), await harness.result(late)]) == [["event", 1], ["late", None]]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_sc_19_an_event_while_the_run_suspends_is_never_lost(harness: Harness, moment: str):
    """Send and suspend: before the suspending commit it is kept, after it the wait is there."""
    worker, client = await harness.worker(listener), await harness.client()
    sent: list[int] = []

    async def send(name: str) -> None:
        if name == "runs.apply" and not sent:
            sent.append(0)
            sent[0] = await client.publish("news", "there", retain="1h")

    setattr(worker.wire, moment, send)
    run = await worker.start(listener, "start")
    await harness.drain()

    assert await harness.result(run) == "there"
    assert sent == [0 if moment == "before" else 1]


async def test_sc_19_an_event_before_the_wait_is_stored_is_not_for_it(harness: Harness):
    worker, client = await harness.worker(listener), await harness.client()
    sent: list[int] = []

    async def send(name: str) -> None:
        if name == "runs.apply" and not sent:
            sent.append(await client.publish("news", "early", retain="1h"))

    worker.wire.before = send
    run = await worker.start(listener, "wait")
    await harness.drain()

    assert sent == [0]
    assert (await harness.status(run)).status == "waiting"


async def test_sc_20_a_timeout_that_fires_while_the_run_is_cancelled_does_not_revive_it(harness: Harness):
    """Timer and cancel: the cancel comes between the claim for the deadline and the commit of the timeout."""
    worker, client = await harness.worker(patient), await harness.client()
    run = await worker.start(patient)
    await harness.drain()
    cancelled: list[bool] = []

    async def cancel(name: str) -> None:
        if name == "runs.apply" and not cancelled:
            cancelled.append(await client.do(client.engine.cancel(run.run_id, compensate=False)))

    worker.wire.before = cancel
    await harness.advance("2h")

    assert cancelled == [True]
    assert (await harness.status(run)).status == "cancelled"
    assert await client.publish("news", 1) == 0
    await harness.advance("2h")
    assert (await harness.status(run)).status == "cancelled"


async def test_sc_20_an_event_that_comes_while_the_run_is_cancelled_does_not_revive_it(harness: Harness):
    worker, client = await harness.worker(listener), await harness.client()
    run = await worker.start(listener)
    await harness.drain()
    cancelled: list[bool] = []

    async def cancel(name: str) -> None:
        if name == "runs.apply" and not cancelled:
            cancelled.append(await client.do(client.engine.cancel(run.run_id, compensate=False)))

    worker.wire.before = cancel
    assert await client.publish("news", 1, deliver="one") == 1
    await harness.drain()

    assert (await harness.status(run)).status == "cancelled"
    assert [event.payload for event in await client.wire.store.views.list_events(limit=9)] == [b"j1"]


async def test_the_end_of_a_run_gives_back_what_came_at_the_last_moment(harness: Harness):
    """Complete and send: the event reaches the run after its last look and before its end."""

    @workflow
    async def leaving(ctx: Context) -> str:
        return (await ctx.wait_any(event=topic("jobs"), late=timer("1h"))).label

    worker, client = await harness.worker(leaving), await harness.client()
    run = await worker.start(leaving)
    await harness.drain()
    sent: list[int] = []

    async def send(name: str) -> None:
        if name == "runs.apply" and not sent:
            sent.append(await client.publish("jobs", 1, deliver="one"))

    worker.wire.before = send
    await harness.advance("2h")

    assert (await harness.result(run), sent) == ("late", [1])
    assert [event.payload for event in await client.wire.store.views.list_events(limit=9)] == [b"j1"]


async def test_sc_22_a_run_that_waits_for_an_event_survives_a_restart(harness: Harness):
    worker = await harness.worker(listener)
    run = await worker.start(listener)
    await harness.drain()
    worker = await harness.deploy(worker, listener)
    assert (await harness.status(run)).status == "waiting"
    assert await worker.publish("news", 1) == 1
    await harness.drain()

    assert await harness.result(run) == 1


async def test_sm_12_two_runs_wait_and_both_resume(harness: Harness):
    worker = await harness.worker(listener)
    runs = [await worker.start(listener) for _ in range(2)]
    await harness.drain()

    assert await worker.publish("news", "x") == 2
    await harness.drain()
    assert [await harness.result(run) for run in runs] == ["x", "x"]


async def test_sm_13_an_event_without_a_waiter_reaches_nobody(harness: Harness):
    worker = await harness.worker(listener)

    assert await worker.publish("news", "x") == 0
    run = await worker.start(listener, "all")
    await harness.drain()
    assert (await harness.status(run)).status == "waiting"


async def test_sm_15_a_wait_for_an_event_ends_with_its_deadline(harness: Harness):
    worker = await harness.worker(patient)
    run = await worker.start(patient)
    await harness.advance("2h")

    assert await harness.result(run) == "timeout"
    assert await worker.publish("news") == 0


async def test_sm_16_an_event_is_stored_before_anybody_takes_the_run(harness: Harness):
    worker = await harness.worker(listener)
    run = await worker.start(listener)
    await harness.drain()
    worker.crash()
    client = await harness.client()
    assert await client.publish("news", "kept") == 1
    await harness.worker(listener)
    await harness.advance("90m")

    assert await harness.result(run) == "kept"


async def test_sm_16_a_delivered_event_survives_the_death_of_the_worker_that_has_it(harness: Harness):
    worker = await harness.worker(listener)
    run = await worker.start(listener)
    await harness.drain()
    client = await harness.client()

    async def die(name: str) -> None:
        if name == "runs.apply":
            worker.crash()

    worker.wire.before = die
    assert await client.publish("news", "kept", deliver="one") == 1
    await harness.drain()
    await harness.worker(listener)
    await harness.advance("90m")

    assert await harness.result(run) == "kept"


async def test_sm_18_a_cancelled_run_is_not_woken_by_an_event(harness: Harness):
    worker = await harness.worker(patient)
    run = await worker.start(patient)
    await harness.drain()
    assert await worker.do(worker.engine.cancel(run.run_id, "not needed"))
    await harness.drain()

    assert await worker.publish("news", 1) == 0
    await harness.advance("2h")
    view = await harness.status(run)
    assert (view.status, view.reason) == ("cancelled", "not needed")


async def test_sm_27_a_sleep_and_then_an_event(harness: Harness):
    @workflow
    async def both(ctx: Context) -> Any:
        await ctx.sleep("first", "1h")
        return await ctx.topic("news")

    worker = await harness.worker(both)
    run = await worker.start(both)
    await harness.advance("1h")
    assert await worker.publish("news", 1) == 1
    await harness.drain()

    assert await harness.result(run) == 1
