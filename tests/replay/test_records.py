"""Records that code opens and waits for: one at a place, answered once, and closed by whatever ends the wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Retry, step, workflow
from stepwell.engine.record_answers import new_answer
from stepwell.errors import InvalidNameError
from stepwell.model.records import (
    CLOSED_WITH_RUN,
    Changed,
    ChangeOutcome,
    NewRecord,
    NewRecordEvent,
    Record,
    RecordChange,
    RecordFilter,
    answer_name,
)
from stepwell.model.states import EntryKind
from stepwell.replay.operations import Operation
from stepwell.replay.primitives.record import RecordAwaited, run_record
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

FORM = RecordAwaited(
    "form",
    lambda record_id, now: NewRecord("form", record_id, "open", b"jnull", ("a label",), end_state="cancelled"),
    NewRecordEvent("created"),
    NewRecordEvent("withdrawn"),
    "cancelled",
)


def form(ctx: Context, name: str = "form") -> Operation[Any]:
    """What a public operation of a context will do."""
    scope = ctx._scope
    location, entry = scope.place(name, EntryKind.RECORD)
    return Operation(scope.turn, location, lambda: run_record(scope, location, entry, FORM))


async def forms(harness: Harness) -> list[Record]:
    store = harness.nodes[-1].engine._backend.opened
    return await store.records.list_records(RecordFilter("form", order="oldest"), limit=10)


async def verbs(harness: Harness, record: Record) -> list[str]:
    store = harness.nodes[-1].engine._backend.opened
    events = await store.records.list_events("form", record.record_id, limit=10)
    return [event.verb for event in reversed(events)]


async def close(harness: Harness, record: Record, value: Any, expected: int = 1) -> Changed:
    """Close a form, with an answer."""
    backend = harness.nodes[-1].engine._backend
    closed = NewRecord("form", record.record_id, "completed", b"jnull", ("a label",), is_open=False)
    change_id = f"{record.record_id} {value}"
    change = RecordChange(
        change_id, expected, closed, (NewRecordEvent("completed", "ann"),), (new_answer(backend, record, value),)
    )
    [changed] = await backend.opened.records.change([change])
    return changed


@workflow
async def asking(ctx: Context) -> list[Any]:
    return [await form(ctx), await ctx.step("after", len, "abc")]


async def test_a_record_is_opened_once_and_its_answer_is_received_once(harness: Harness) -> None:
    worker = await harness.worker(asking)
    run = await worker.start(asking)
    await harness.drain()
    [before] = await forms(harness)
    assert (before.state, before.run_id, before.version, before.is_open) == ("open", run.run_id, 1, True)

    await harness.takeover(worker, asking)
    [record] = await forms(harness)
    assert record == before
    assert (await close(harness, record, {"by": "ann"})).outcome is ChangeOutcome.CHANGED
    assert (await close(harness, record, {"by": "bo"})).outcome is ChangeOutcome.STALE
    await harness.drain()

    assert await harness.result(run) == [{"by": "ann"}, 3]
    [record] = await forms(harness)
    assert (record.state, await verbs(harness, record)) == ("completed", ["created", "completed"])


async def test_an_answer_is_not_taken_by_a_wait_for_any_signal(harness: Harness) -> None:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        async def first(inner: Context) -> Any:
            return (await inner.receive(name="any")).payload

        async def second(inner: Context) -> Any:
            answer = await form(inner)
            return [answer, [message.payload for message in inner.signals.all()]]

        found = await ctx.join("both", {"first": first, "second": second})
        return [found["first"], found["second"]]

    worker = await harness.worker(program)
    run = await worker.start(program)
    await harness.drain()
    [record] = await forms(harness)
    with pytest.raises(InvalidNameError):
        await worker.signal(run.run_id, answer_name(record.record_id), "forged")

    await close(harness, record, "the answer")
    await harness.drain()
    await worker.signal(run.run_id, "another", "a signal")
    await harness.drain()

    assert await harness.result(run) == ["a signal", ["the answer", []]]


async def test_a_leftover_answer_does_not_keep_a_run_awake(harness: Harness) -> None:
    @workflow
    async def program(ctx: Context) -> Any:
        task = asyncio.create_task(form(ctx))
        await ctx.receive("stop")
        task.cancel()
        return (await ctx.receive(name="any")).payload

    worker = await harness.worker(program)
    run = await worker.start(program)
    await harness.drain()
    [record] = await forms(harness)
    worker.pause()
    client = await harness.client()
    await client.signal(run.run_id, "stop")
    await close(harness, record, "too late")
    worker.resume()
    await harness.drain()

    assert (await harness.status(run)).status == "waiting"
    await client.signal(run.run_id, "go", "on")
    await harness.drain()
    assert await harness.result(run) == "on"


async def test_a_record_whose_wait_is_cancelled_is_withdrawn(harness: Harness) -> None:
    @workflow
    async def program(ctx: Context) -> str:
        task = asyncio.create_task(form(ctx))
        await ctx.sleep("a moment", "10s")
        task.cancel()
        await ctx.sleep("another", "10s")
        return "done"

    worker = await harness.worker(program)
    run = await worker.start(program)
    await harness.advance("1m")

    assert await harness.result(run) == "done"
    [record] = await forms(harness)
    assert (record.state, await verbs(harness, record)) == ("cancelled", ["created", "withdrawn"])


@pytest.mark.parametrize(("seconds", "expected"), [(10, [["created", CLOSED_WITH_RUN.verb]]), (0, [])])
async def test_a_record_of_a_lost_branch_is_closed_or_was_never_opened(
    harness: Harness, ledger: Ledger, seconds: int, expected: list[list[str]]
) -> None:
    @workflow
    async def program(ctx: Context) -> str:
        async def quick(inner: Context) -> None:
            if seconds:
                await inner.sleep("a moment", seconds)

        async def slow(inner: Context) -> None:
            await form(inner)

        winner = await ctx.race("first", {"slow": slow, "quick": quick})
        await ctx.step("after", ledger.act, 1)
        await ctx.receive("end", timeout="1m", default=None)
        return winner.branch

    worker = await harness.worker(program)
    run = await worker.start(program)
    await harness.advance("30s")

    assert [await verbs(harness, record) for record in await forms(harness)] == expected
    assert [record.is_open for record in await forms(harness)] == [False] * len(expected)
    await harness.advance("1m")
    assert await harness.result(run) == "quick"


async def test_a_rewound_run_opens_another_record(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def program(ctx: Context) -> Any:
        await ctx.step("before", ledger.act, 1)
        return await form(ctx)

    worker = await harness.worker(program)
    run = await worker.start(program)
    await harness.drain()
    await worker.do(worker.engine.repairs.rewind(run.run_id, "before"))
    await harness.drain()

    first, second = await forms(harness)
    assert (first.state, second.state) == ("cancelled", "open")
    await close(harness, second, "new")
    await harness.drain()
    assert await harness.result(run) == "new"


async def test_a_record_that_an_operator_skips_is_closed(harness: Harness) -> None:
    worker = await harness.worker(asking)
    run = await worker.start(asking)
    await harness.drain()
    [record] = await forms(harness)
    explanation = await worker.do(worker.engine.explain(run.run_id))
    assert f"it waits at form until record {record.record_id} is closed" in explanation.sentence

    client = await harness.client()  # which does not know the workflow
    await client.do(client.engine.repairs.skip(run.run_id, "form", "skipped"))
    await harness.drain()

    assert await harness.result(run) == ["skipped", 3]
    [record] = await forms(harness)
    assert (record.state, record.is_open) == ("cancelled", False)


async def test_a_failed_and_retried_run_opens_another_record(harness: Harness, ledger: Ledger) -> None:
    @workflow
    async def program(ctx: Context) -> Any:
        async def asks(inner: Context) -> Any:
            return await form(inner)

        async def fails(inner: Context) -> None:
            await inner.sleep("a moment", "1s")
            await inner.step("fails", step(ledger.failing("fails", 1), retry=Retry(max_attempts=1)))

        return (await ctx.join("both", {"asks": asks, "fails": fails}, on_error="fail_fast"))["asks"]

    worker = await harness.worker(program)
    run = await worker.start(program)
    await harness.drain()
    await harness.advance("5s")
    assert (await harness.status(run)).status == "failed"
    await worker.do(worker.engine.repairs.retry(run.run_id))
    await harness.drain()

    first, second = await forms(harness)
    assert (first.state, second.state) == ("cancelled", "open")
    await close(harness, second, "late")
    await harness.advance("5s")
    assert await harness.result(run) == "late"
