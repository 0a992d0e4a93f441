"""When the receipt of a signal must be durable before the next body, and when it may share that body's commit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Workflow, workflow
from stepwell.model.states import EntryKind
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


def receipts_of(harness: Harness) -> list[tuple[str, ...]]:
    """What each commit records that carries a receipt."""
    kinds = [tuple(entry.kind.word for entry in commit.entries) for _, commit, _ in harness.answers]
    return [words for words in kinds if EntryKind.RECEIVE.word in words]


async def run_to_end(harness: Harness, flow: Workflow[Any, Any], sent: str = "ab") -> Any:
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    for number, name in enumerate(sent, 1):
        await harness.advance("1s")
        await worker.signal(run.run_id, name, number)
    await harness.advance("1m")
    return await run.result()


RECEIVE, STEP = EntryKind.RECEIVE.word, EntryKind.STEP.word


async def test_a_receipt_shares_the_commit_of_the_step_behind_it(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[int]:
        first = (await ctx.receive("a")).payload
        done = await ctx.step("one", ledger.act, first)
        return [done, (await ctx.receive("a", "b")).payload]

    assert await run_to_end(harness, flow) == [1, 2]
    assert receipts_of(harness) == [(RECEIVE, STEP), (RECEIVE,)]


async def test_receipts_in_a_row_share_it(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> int:
        found = [(await ctx.receive(name)).payload for name in ("b", "a")]
        return await ctx.step("both", ledger.act, sum(found))

    assert await run_to_end(harness, flow) == 3
    assert receipts_of(harness) == [(RECEIVE, RECEIVE, STEP)]


async def timed(ctx: Context, ledger: Ledger) -> None:
    await ctx.receive("a", timeout="1h")
    await ctx.step("one", ledger.act, 1)


async def told_the_time(ctx: Context, ledger: Ledger) -> None:
    await ctx.receive("a")
    await ctx.step("one", ledger.act, ctx.now().isoformat())


async def beside_another(ctx: Context, ledger: Ledger) -> None:
    async def first(inner: Context) -> None:
        await inner.receive("a")
        await inner.step("one", ledger.act, 1)

    async def second(inner: Context) -> None:
        await inner.receive("b")

    await ctx.join("both", {"first": first, "second": second})


async def after_a_look(ctx: Context, ledger: Ledger) -> None:
    ctx.signals.has("c")
    await ctx.receive("a")
    await ctx.step("one", ledger.act, 1)


@pytest.mark.parametrize(
    ("code", "sent"), [(timed, "a"), (told_the_time, "a"), (beside_another, "ab"), (after_a_look, "a")]
)
async def test_a_receipt_that_a_replay_might_not_repeat_goes_first(
    harness: Harness, ledger: Ledger, code: Any, sent: str
):
    @workflow
    async def flow(ctx: Context) -> None:
        await code(ctx, ledger)

    await run_to_end(harness, flow, sent)
    assert RECEIVE in receipts_of(harness)[0]
    assert STEP not in receipts_of(harness)[0]


async def test_a_receipt_does_not_wait_for_a_body_that_lasts(harness: Harness):
    async def last() -> None:
        await asyncio.sleep(10)

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.receive("a")
        await ctx.step(last)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await worker.signal(run.run_id, "a")
    await harness.advance("1s")

    assert receipts_of(harness) == [(RECEIVE,)]
    detail = await worker.engine.runs.detail(run.run_id)
    assert not detail.signals
    assert not detail.history.waits


async def test_a_body_whose_receipt_was_lost_begins_again_with_the_same_signal(harness: Harness):
    began: list[Any] = []

    async def act(value: Any) -> Any:
        began.append(value)
        await asyncio.sleep(0.01)
        return value

    @workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.step("one", act, (await ctx.receive("a")).payload)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1s")
    await worker.signal(run.run_id, "a", "first")
    await harness.advance("1ms")
    assert began == ["first"]
    assert not receipts_of(harness)
    worker.crash()
    client = await harness.client()
    await client.signal(run.run_id, "a", "second")
    successor = await harness.worker(flow)
    await harness.advance("90m")

    assert await successor.engine.result(run.run_id) == "first"
    assert began == ["first", "first"]
