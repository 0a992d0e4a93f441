"""A run has a limit of unread signals: near it the sender is warned, and beyond it nothing is stored."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stepwell import Context, workflow
from stepwell.errors import MailboxFullError
from stepwell.model.signals import Delivery
from tests.cases.harness import Harness

LIMIT = 10


@workflow
async def slow(ctx: Context) -> list[Any]:
    await ctx.sleep("a nap", "1m")
    got = []
    while (message := await ctx.receive("word", "end")).name == "word":
        got.append(message.payload)
    return got


@workflow
async def teller(ctx: Context, other: str) -> None:
    for number in range(LIMIT + 2):
        await ctx.signal(other, "word", number)


async def test_a_full_mailbox_refuses_signals_until_some_are_read(harness: Harness, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    worker = await harness.worker(slow, signals_max=LIMIT)
    run = await worker.start(slow, key="k")
    for number in range(LIMIT):
        await worker.signal("k", "word", number, dedup_key=str(number))

    warned = [record.getMessage() for record in caplog.records if "unread signals" in record.getMessage()]
    assert warned == [
        f"the mailbox of run {run.run_id} has {count} unread signals; from {LIMIT} on, further ones are refused"
        for count in (8, 9, 10)
    ]
    with pytest.raises(MailboxFullError) as caught:
        await worker.signal("k", "word", 99)
    assert (caught.value.code, caught.value.where, caught.value.why) == (
        "SW423",
        f"run {run.run_id}",
        "10 signals wait to be read already",
    )
    assert "WorkerSettings(signals_max=20)" in caught.value.fix
    assert await worker.signal("k", "word", 0, dedup_key="0") is Delivery.DUPLICATE
    with pytest.raises(MailboxFullError):
        await worker.do(worker.engine.ask("k", "word", 1))
    with pytest.raises(MailboxFullError):
        await worker.do(worker.engine.runs.signal_or_start(slow, None, "word", key="k"))

    await harness.advance("2m")
    await worker.signal("k", "end")
    assert await harness.result(run) == list(range(LIMIT))


async def test_no_more_are_held_for_a_key(harness: Harness):
    worker = await harness.worker(slow, signals_max=LIMIT)
    for number in range(LIMIT):
        assert await worker.signal("k", "word", number, if_missing="hold") is Delivery.HELD

    for again in (
        worker.signal("k", "word", 99, if_missing="hold"),
        worker.do(worker.engine.runs.signal_or_start(slow, None, "word", 99, key="k")),
    ):
        with pytest.raises(MailboxFullError, match="mailbox of key 'k' is full"):
            await again
    assert await worker.do(worker.engine.runs.list()) == []
    await worker.signal("other", "word", 99, if_missing="hold")


async def test_what_a_run_tells_a_full_one_is_sent_later(harness: Harness):
    worker = await harness.worker(slow, teller, signals_max=LIMIT)
    run = await worker.start(slow)
    await harness.result(await worker.start(teller, run.run_id))
    await harness.advance("3m")
    await worker.signal(run.run_id, "end")

    assert await harness.result(run) == list(range(LIMIT + 2))
