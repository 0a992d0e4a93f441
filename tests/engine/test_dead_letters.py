"""Dead letters: everything that could not be handled, in one list; retried it wakes what waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from stepwell import App, Context, Engine, Retry, Signal, SyncEngine, workflow
from stepwell.errors import InvalidMoveError, InvalidOptionError, NotFoundError
from stepwell.sinks import handler
from tests.cases.harness import Harness, Node


class Order(msgspec.Struct):
    amount: int


approve = Signal[Order]("approve")
taken: list[Any] = []
broken = {"sink": True}


@workflow(signals=[approve])
async def waits(ctx: Context) -> int:
    return (await ctx.receive(approve)).payload.amount


@workflow
async def emits(ctx: Context, number: int) -> None:
    await ctx.emit("done", {"number": number})


@workflow(signals=["go"])
async def records(ctx: Context) -> str:
    first = await ctx.step("first", first_value)
    return first + str((await ctx.receive("go")).payload)


async def first_value() -> str:
    return "1"


@workflow
async def old(ctx: Context) -> str:
    return "old"


async def letters(node: Node, **where: Any) -> list[str]:
    found = await node.do(node.engine.dead_letters.list(**where))
    return [f"{one.kind} {one.name}" for one in found]


def make_sink() -> Any:
    async def chat(event: Any) -> None:
        if broken["sink"]:
            raise OSError("410 Gone")
        taken.append(event.payload)

    return handler(chat, "done", retry=Retry(max_attempts=1))


async def test_a_refused_signal_is_a_letter_and_an_edited_one_wakes_the_run(harness: Harness):
    node = await harness.worker(waits)
    run = await node.start(waits, key="w")
    client = await harness.client()
    await client.signal("w", "approve", {"amount": "many"})
    await harness.advance(5)

    [letter] = await node.do(node.engine.dead_letters.list())
    assert (letter.kind, letter.code, letter.name, letter.key, letter.run_id) == (
        "signal",
        "SW310",
        "approve",
        "w",
        run.run_id,
    )
    assert "amount" in letter.reason
    assert letter.worker
    assert letter.original == b'j{"amount":"many"}'
    assert await letters(node, workflow="other") == []

    assert await node.do(node.engine.dead_letters.edit(letter.letter, {"amount": 7}, by="ann"))
    assert await harness.result(run) == 7
    assert await letters(node) == []
    assert not await node.do(node.engine.dead_letters.retry(letter.letter))
    [handled] = await node.do(node.engine.dead_letters.handled())
    assert (handled.letter, handled.state, handled.by, handled.reason) == (
        letter.letter,
        "retried",
        "ann",
        letter.reason,
    )


async def test_a_signal_of_an_ended_run_goes_to_another_run_or_is_dropped(harness: Harness):
    node = await harness.worker(waits)
    client = await harness.client()
    await node.start(waits, key="w")
    await client.signal("w", "approve", "first")
    await client.signal("w", "approve", "second")
    await harness.advance(5)
    await client.signal("w", approve, Order(1))
    await harness.advance(5)
    first, second = await node.do(node.engine.dead_letters.list("signal"))
    care = node.engine.dead_letters

    with pytest.raises(InvalidMoveError) as raised:
        await node.do(care.retry(first.letter))
    assert "--to" in raised.value.fix
    other = await node.start(waits, key="other")
    assert await node.do(care.edit(first.letter, {"amount": 3}, to="other"))
    assert await harness.result(other) == 3
    with pytest.raises(InvalidOptionError):
        await node.do(care.drop(second.letter, " "))
    assert await node.do(care.drop(second.letter, "sent twice", by="bo"))
    assert await letters(node) == []
    acts = await node.do(node.engine.runs.list_acts(second.run_id))
    assert [(act.verb, act.by, act.reason) for act in acts] == [("drop_signal", "bo", "approve: sent twice")]
    assert not await node.do(care.drop(second.letter, "again"))


async def test_events_that_gave_up_are_retried_in_bulk_with_their_ids(harness: Harness):
    taken.clear()
    broken["sink"] = True
    node = await harness.worker(emits, sinks=[make_sink()])
    for number in range(3):
        await node.start(emits, number)
    await harness.advance(60)
    care = node.engine.dead_letters

    found = await node.do(care.list())
    assert [(one.kind, one.target, one.attempts) for one in found] == [("event", "chat", 1)] * 3
    assert all(one.worker and "410 Gone" in one.reason for one in found)
    ids = {one.payload["event_id"] for one in found}
    await node.do(care.retry_all(kind="event"))
    await harness.advance(60)
    again = await node.do(care.list())
    assert {one.payload["event_id"] for one in again} == ids

    broken["sink"] = False
    assert await node.do(care.edit(again[0].letter, {"number": 100}))
    done = await node.do(care.retry_all(workflow="emits", by="ann"))
    assert (done.handled, done.failed) == (2, {})
    await harness.advance(60)
    assert sorted(one["number"] for one in taken) == [1, 2, 100]
    assert await letters(node) == []


async def test_letters_are_listed_in_pages(harness: Harness):
    broken["sink"] = True
    node = await harness.worker(emits, waits, sinks=[make_sink()])
    for number in range(5):
        await node.start(emits, number)
    client = await harness.client()
    await node.start(waits, key="w")
    await client.signal("w", "approve", 1)
    await harness.advance(60)
    care = node.engine.dead_letters

    seen: list[str] = []
    after: str | None = None
    while page := await node.do(care.list(limit=2, after=after)):
        seen += [one.letter for one in page]
        after = seen[-1]
    everything = await node.do(care.list())
    assert seen == [one.letter for one in everything]
    assert len(seen) == 6
    assert await node.do(care.count(limit=4)) == 4
    await node.do(care.drop(seen[0], "x"))
    assert [one.letter for one in await node.do(care.list(limit=2, after=seen[0]))] == seen[1:3]


async def test_a_run_that_no_worker_knows_is_a_letter_after_a_time_until_one_does(harness: Harness):
    node = await harness.worker(emits)
    client = await harness.client()
    handle = await client.start(old)
    await harness.advance(10)
    assert await letters(node) == []
    await harness.advance(1_800)

    [letter] = await node.do(node.engine.dead_letters.list())
    assert (letter.kind, letter.code, letter.run_id) == ("unserved", "SW402", handle.run_id)
    with pytest.raises(InvalidMoveError, match="no worker knows"):
        await node.do(node.engine.dead_letters.retry(letter.letter))
    done = await node.do(node.engine.dead_letters.retry_all())
    assert list(done.failed) == [letter.letter]

    await harness.worker(old)
    assert await harness.result(handle) == "old"
    assert await letters(node) == []


async def test_dropping_a_run_cancels_it(harness: Harness):
    node = await harness.worker(emits)
    client = await harness.client()
    handle = await client.start(old)
    await harness.advance(3_600)

    [letter] = await node.do(node.engine.dead_letters.list("unserved"))
    assert await node.do(node.engine.dead_letters.drop(letter.letter, "retired", by="ann"))
    assert (await harness.status(handle)).status == "cancelled"
    assert await letters(node) == []


async def test_an_unknown_letter_is_not_found() -> None:
    async with Engine(App("memory://", workflows=[waits])) as engine:
        for name in ("event-1", "signal-x", "run-1", "poison-r1", "hook-1", ""):
            with pytest.raises(NotFoundError):
                await engine.dead_letters.get(name)
        with pytest.raises(InvalidOptionError):
            await engine.dead_letters.list("other")


def test_the_synchronous_engine_lists_letters_too() -> None:
    with SyncEngine("memory://", workflows=[waits]) as engine:
        assert engine.dead_letters.list() == []
        assert engine.dead_letters.retry_all().handled == 0


async def test_a_run_whose_record_cannot_be_read_is_a_letter_until_it_can(tmp_path: Path):
    file, url = tmp_path / "w.db", f"sqlite:///{tmp_path / 'w.db'}"
    async with Engine(url, workflows=[records]) as engine:
        run = await engine.start(records, key="w")
        async with asyncio.timeout(20):
            async for seen in engine.runs.watch("w"):
                if seen.status == "waiting":
                    break
    connection = apsw.Connection(str(file))
    [(whole,)] = connection.execute("select value from stepwell_entries where kind = 's'").fetchall()
    connection.execute("update stepwell_entries set value = x'6aff00' where kind = 's'")
    connection.close()

    async with Engine(url, workflows=[records]) as engine:
        await engine.signal("w", "go", 1)
        async with asyncio.timeout(20):
            async for seen in engine.runs.watch("w"):
                if seen.status == "paused":
                    break
        [letter] = await engine.dead_letters.list()
        assert (letter.kind, letter.key, letter.run_id) == ("history", "w", run.run_id)
        assert "cannot be read back" in letter.reason
        assert (await engine.dead_letters.get(letter.letter)).letter == letter.letter
        assert await engine.dead_letters.list("poison") == []

    connection = apsw.Connection(str(file))
    connection.execute("update stepwell_entries set value = ? where kind = 's'", (whole,))
    connection.close()
    async with Engine(url, workflows=[records]) as engine:
        assert await engine.dead_letters.retry(letter.letter, by="ann")
        assert (await engine.result("w", timeout=20)) == "11"
        assert await engine.dead_letters.list() == []
