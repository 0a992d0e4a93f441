"""What one run emits reaches others: a sink that publishes on the engine's own topics, and typed events."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import Context, Engine, Event, Handle, StepwellError, SyncContext, step, workflow
from stepwell.sinks import TopicSink
from stepwell.sinks.base import EmittedEvent
from tests.cases.harness import Harness


class Paid(Event):
    order: str


@workflow
async def pays(ctx: Context, order: str) -> str:
    return await ctx.emit(Paid(order=order))


@workflow
async def ships(ctx: Context, order: str) -> str:
    paid = await ctx.topic(Paid, where={"order": order}, timeout="1h")
    return f"shipped {paid.order}"


@workflow
async def thanks(ctx: Context, paid: Paid) -> str:
    return f"thanks for {paid.order}"


async def until_all_wait(engine: Engine, runs: list[Handle[str]]) -> None:
    ids = [run.run_id for run in runs]
    while {run.status for run in await engine.runs.find_many(ids)} != {"waiting"}:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.01)


async def test_an_emitted_event_reaches_a_run_that_waits_for_it_and_starts_another() -> None:
    async with Engine("memory:", workflows=[pays, ships, thanks], sinks=[TopicSink("Paid")]) as engine:
        await engine.on(Paid, start=thanks, key="order")
        waiting = [await engine.start(ships, order) for order in ("1", "2")]
        await until_all_wait(engine, waiting)
        await (await engine.start(pays, "2")).result("60s")

        assert await waiting[1].result("60s") == "shipped 2"
        assert await engine.result("2", timeout="60s") == "thanks for 2"
        status = await waiting[0].status()
        assert status is not None
        assert status.status == "waiting"


async def test_an_event_that_is_handed_over_twice_is_published_once() -> None:
    sink = TopicSink("Paid")
    async with Engine("memory:", workflows=[ships, pays], sinks=[sink]) as engine:
        given: list[EmittedEvent] = []
        send = sink.send

        async def twice(event: EmittedEvent) -> None:
            given.append(event)
            await send(event)
            await send(event)

        sink.send = twice  # type: ignore[method-assign]
        runs = [await engine.start(ships, "7") for _ in range(2)]
        await until_all_wait(engine, runs)
        await (await engine.start(pays, "7")).result("60s")
        assert [await run.result("60s") for run in runs] == ["shipped 7"] * 2
        assert len(given) == 1


async def test_a_topic_sink_without_an_engine_says_so() -> None:
    event = EmittedEvent("e", "Paid", None, "r", "w", None, "p", None, None, 1)  # type: ignore[arg-type]
    with pytest.raises(StepwellError, match="has no engine"):
        await TopicSink().send(event)


async def test_a_typed_event_takes_no_other_payload(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.emit(Paid(order="1"), {"order": "2"})

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(StepwellError, match="has its own payload"):
        await harness.result(run)


async def test_a_plain_function_takes_and_gives_messages(harness: Harness):
    async def note(text: str) -> str:
        return text

    noted = step(note, name="note")

    @workflow
    def flow(ctx: SyncContext) -> list[str]:
        question = ctx.receive("question")
        ctx.reply(question, f"answer to {question.payload}")
        other = ctx.receive("question", name="other")
        ctx.refuse(other, "no more")
        late = ctx.receive("never", timeout="1s", default=None)
        ctx.sleep("for the mail", "1s")
        seen = ctx.signals.latest("news")
        ctx.step(noted, "uses it")
        event = ctx.topic(Paid, since="all", timeout="1m")
        told = ctx.emit("done")
        return [str(late), str(seen.payload if seen else None), event.order, str(bool(told))]

    worker = await harness.worker(flow)
    client = await harness.client()
    run = await worker.start(flow, key="k")
    await harness.drain()
    first = asyncio.ensure_future(client.do(client.engine.ask("k", "question", 1, timeout="60s")))
    await harness.drain()
    second = asyncio.ensure_future(client.do(client.engine.ask("k", "question", 2, timeout="60s")))
    await harness.advance("100ms")
    await client.do(client.engine.signal("k", "news", "sunny"))
    await client.do(client.engine.publish(Paid(order="9"), retain="1h"))
    await harness.advance("10s")

    assert await harness.result(run) == ["None", "sunny", "9", "True"]
    assert await first == "answer to 1"
    with pytest.raises(StepwellError, match="no more"):
        await second
