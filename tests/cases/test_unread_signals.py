"""What becomes of signals that a run has not read when it completes: nothing, or a further run, or events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Request, workflow
from stepwell.errors import InvalidOptionError, Unanswered
from tests.cases.harness import Harness

ASK = Request[int, int]("ask")
READ: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    READ.clear()


async def note(word: Any) -> None:
    READ.append(word)


@workflow(unread="continue")
async def one_each(ctx: Context, greeting: str) -> str:
    """Reads one word."""
    word = (await ctx.receive("word")).payload
    await ctx.step(note, word)
    return f"{greeting} {word}"


@workflow(unread="continue")
async def drains(ctx: Context) -> int:
    """Reads what is there, then works for a while."""
    got = await ctx.receive_many("word", timeout=0)
    for message in got:
        await ctx.step(note, message.payload)
    await ctx.sleep("work", "20s")
    return len(got)


@workflow(unread="topic")
async def deaf(ctx: Context) -> str:
    await ctx.receive("end")
    return "done"


@workflow
async def reader(ctx: Context) -> list[Any]:
    return [await ctx.topic("word"), await ctx.topic("word")]


async def generations(harness: Harness, run_id: str) -> list[str]:
    found = [await harness.status(run_id)]
    while found[-1].successor is not None:
        found.append(await harness.status(found[-1].successor))
    return [one.status for one in found]


async def test_a_run_with_unread_signals_continues_with_the_same_input(harness: Harness):
    worker = await harness.worker(one_each)
    run = await worker.start(one_each, "hello", key="k", delay="10s")
    for word in "abc":
        await worker.signal("k", "word", word)

    assert await harness.result(run) == "hello c"
    assert READ == ["a", "b", "c"]
    assert await generations(harness, run.run_id) == ["continued", "continued", "completed"]
    last = await harness.status("k")
    assert (last.input, last.key) == ("hello", "k")


async def test_a_signal_that_comes_while_the_run_works_is_read_by_the_next(harness: Harness):
    worker = await harness.worker(drains)
    run = await worker.start(drains)
    await harness.advance("10s")
    await worker.signal(run.run_id, "word", "late")

    assert await harness.result(run) == 1
    assert READ == ["late"]
    assert await generations(harness, run.run_id) == ["continued", "completed"]


async def test_signals_that_the_code_never_reads_do_not_keep_a_run_going(harness: Harness):
    worker = await harness.worker(drains)
    run = await worker.start(drains)
    await worker.signal(run.run_id, "nobody reads this")

    assert await harness.result(run) == 0
    assert await generations(harness, run.run_id) == ["continued", "completed"]
    [left] = await worker.do(worker.engine.signals.list_unread())
    assert left.name == "nobody reads this"


async def test_a_crash_changes_nothing(harness: Harness):
    worker = await harness.worker(drains)
    run = await worker.start(drains)
    await harness.advance("10s")
    await worker.signal(run.run_id, "word", "late")
    worker = await harness.takeover(worker, drains)

    assert await harness.result(run) == 1
    assert READ == ["late"]


async def test_a_question_is_answered_by_the_next_run(harness: Harness):
    @workflow(unread="continue")
    async def answers(ctx: Context) -> None:
        question = await ctx.receive(ASK)
        await question.reply(question.payload + 1)

    worker = await harness.worker(answers)
    run = await worker.start(answers, key="k", delay="10s")
    asked = [worker.do(worker.engine.ask("k", ASK, number, timeout="1m")) for number in (1, 2)]

    assert await asyncio.gather(*asked) == [2, 3]
    await harness.result(run)
    assert await generations(harness, run.run_id) == ["continued", "completed"]


async def test_a_failed_or_cancelled_run_does_not_continue(harness: Harness):
    @workflow(unread="continue")
    async def fails(ctx: Context) -> None:
        await ctx.receive("go")
        raise ValueError

    worker = await harness.worker(fails)
    failed, cancelled = await worker.start(fails), await worker.start(fails)
    for run in (failed, cancelled):
        await worker.signal(run.run_id, "word", 1)
    await worker.signal(failed.run_id, "go")
    await worker.do(worker.engine.cancel(cancelled.run_id))
    await harness.drain()

    assert await generations(harness, failed.run_id) == ["failed"]
    assert await generations(harness, cancelled.run_id) == ["cancelled"]
    assert len(await worker.do(worker.engine.signals.list_unread())) == 2


async def test_unread_signals_become_events_that_one_run_gets(harness: Harness):
    worker = await harness.worker(deaf, reader)
    run = await worker.start(deaf)
    await worker.signal(run.run_id, "word", "first")
    await worker.signal(run.run_id, "word", {"n": 2})
    await worker.signal(run.run_id, "end")
    assert await harness.result(run) == "done"
    await harness.drain()

    got = await worker.start(reader)
    await harness.drain()
    assert (await harness.status(got)).status == "waiting"
    assert await worker.do(worker.engine.signals.list_unread()) == []


async def test_events_of_unread_signals_keep_their_order(harness: Harness):
    @workflow
    async def eager(ctx: Context) -> list[Any]:
        first = await ctx.topic("word", since="all")
        return [first, await ctx.topic("word", since="all")]

    worker = await harness.worker(deaf, eager)
    run = await worker.start(deaf)
    for word in ("first", {"n": 2}):
        await worker.signal(run.run_id, "word", word)
    await worker.signal(run.run_id, "end")
    await harness.result(run)
    await harness.drain()

    assert await harness.result(await worker.start(eager)) == ["first", {"n": 2}]


async def test_a_question_cannot_become_an_event(harness: Harness):
    worker = await harness.worker(deaf)
    run = await worker.start(deaf)
    asking = asyncio.ensure_future(worker.do(worker.engine.ask(run.run_id, ASK, 2, timeout="1m")))
    await harness.drain()
    await worker.signal(run.run_id, "end")

    with pytest.raises(Unanswered):
        await asking
    assert (await harness.status(run)).status == "completed"


def test_another_word_is_refused():
    with pytest.raises(InvalidOptionError, match="unread of workflow 'w' is 'again'"):

        @workflow(name="w", unread="again")  # type: ignore[call-overload]
        async def w(ctx: Context) -> None: ...
