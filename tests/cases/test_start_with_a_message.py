"""Starting with a message: a signal or a question reaches the active run of a key, or the run that it starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Request, workflow
from stepwell.errors import AskRefused, InvalidInputError, InvalidOptionError, Unanswered
from stepwell.model.signals import Delivery
from tests.cases.harness import Harness

ADD = Request[int, int]("add")


@workflow
async def counter(ctx: Context, start: int) -> int:
    """Counts until it is told to stop."""
    total = start
    while True:
        message = await ctx.receive(ADD, "plus", "stop")
        match message.name:
            case "stop":
                return total
            case "plus":
                total += message.payload
            case _ if message.payload < 0:
                await message.refuse("only up")
            case _:
                total += message.payload
                await message.reply(total)


async def test_a_question_starts_the_run_that_answers_it(harness: Harness):
    worker = await harness.worker(counter)
    engine = worker.engine

    first = await worker.do(engine.ask_or_start(counter, 10, ADD, 1, key="c"))
    second = await worker.do(engine.ask_or_start(counter, 99, ADD, 2, key="C", timeout="1m"))
    assert (first, second) == (11, 13)

    with pytest.raises(AskRefused, match="only up"):
        await worker.do(engine.ask_or_start("counter", 0, ADD, -1, key="c"))
    assert len(await worker.do(engine.runs.list())) == 1


async def test_of_many_who_ask_one_starts_the_run(harness: Harness):
    worker = await harness.worker(counter)

    asking = [worker.do(worker.engine.ask_or_start(counter, 0, ADD, 1, key="c")) for _ in range(5)]

    assert sorted(await asyncio.gather(*asking)) == [1, 2, 3, 4, 5]
    assert len(await worker.do(worker.engine.runs.list())) == 1


async def test_a_question_that_the_started_run_leaves_is_unanswered(harness: Harness):
    @workflow
    async def deaf(ctx: Context) -> None: ...

    worker = await harness.worker(deaf)

    with pytest.raises(Unanswered, match="has not answered 'add'"):
        await worker.do(worker.engine.ask_or_start(deaf, None, ADD, 1, key="d"))


async def test_nothing_is_stored_if_the_question_does_not_fit(harness: Harness):
    worker = await harness.worker(counter)

    with pytest.raises(InvalidInputError):
        await worker.do(worker.engine.ask_or_start(counter, 0, ADD, "one", key="c"))
    assert await worker.do(worker.engine.runs.list()) == []


@pytest.mark.parametrize("is_ended", [False, True])
async def test_a_known_dedup_key_neither_sends_nor_starts(harness: Harness, is_ended: bool):
    worker = await harness.worker(counter)
    runs = worker.engine.runs

    def send(dedup_key: str) -> Any:
        return worker.do(runs.signal_or_start(counter, 0, "plus", 5, key="c", dedup_key=dedup_key))

    first = await send("one")
    if is_ended:
        await worker.signal("c", "stop")
        assert await harness.result(first) == 5
    again = await send("one")

    assert (again.run_id, again.is_new) == (first.run_id, False)
    other = await send("two")
    assert other.is_new is is_ended
    await worker.signal("c", "stop")
    assert await harness.result(other) == (5 if is_ended else 10)


async def test_a_signal_starts_its_run_if_that_is_missing(harness: Harness):
    worker = await harness.worker(counter)
    for number in (1, 2):
        sent = await worker.signal("c", "plus", number, if_missing="start", start=counter, input=100)
        assert sent is Delivery.DELIVERED
    await worker.signal("c", "stop")

    assert await harness.result("c") == 103


@pytest.mark.parametrize("options", [{"if_missing": "start"}, {"start": counter}, {"if_missing": "starts"}])
async def test_a_start_that_is_not_complete_is_rejected(harness: Harness, options: dict[str, Any]):
    worker = await harness.worker(counter)

    with pytest.raises(InvalidOptionError, match="start"):
        await worker.signal("c", "plus", 1, **options)
