"""Publishing: what a caller may get wrong, what it may repeat, and what encryption does to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Event, InvalidInputError, Secret, SyncEngine, done, signal, topic, workflow
from stepwell.codec import Encrypted, JsonCodec, Keys
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import (
    InvalidNameError,
    InvalidOptionError,
    StepwellError,
    StoreUnavailableError,
    UnknownTopicError,
    UnserialisableError,
)
from tests.cases.harness import Harness


class Shipped(Event):
    order: str
    parcels: int = 1


class Renamed(Event):
    __topic__ = "orders.renamed"

    order: str


class Hidden(Event):
    order: str
    token: Secret[str]


@workflow
async def waits(ctx: Context, order: str) -> list[Any]:
    event = await ctx.topic(Shipped, where={"order": order})
    return [event.order, event.parcels]


@workflow
async def starts(ctx: Context, event: Shipped) -> str:
    return event.order


Ask = Callable[[Any], Any]
WRONG: dict[str, tuple[Ask, type[StepwellError]]] = {
    "no topic": (lambda engine: engine.publish(3), UnknownTopicError),
    "the base of all events": (lambda engine: engine.publish(Event()), UnknownTopicError),
    "a class that is no event": (lambda engine: engine.publish(dict, {}), UnknownTopicError),
    "a blank name": (lambda engine: engine.publish(" "), InvalidNameError),
    "a name that is no path": (lambda engine: engine.publish("a/b"), InvalidNameError),
    "a wrong field": (lambda engine: engine.publish(Shipped(3)), InvalidInputError),  # type: ignore[arg-type]
    "a missing field": (lambda engine: engine.publish(Shipped, {"parcels": 2}), InvalidInputError),
    "no payload": (lambda engine: engine.publish(Shipped), InvalidInputError),
    "two payloads": (lambda engine: engine.publish(Shipped("1"), {"order": "2"}), InvalidOptionError),
    "what cannot be stored": (lambda engine: engine.publish("t", object()), UnserialisableError),
    "an unknown way": (lambda engine: engine.publish("t", deliver="some"), InvalidOptionError),
    "a negative time": (lambda engine: engine.publish("t", retain=-1), InvalidOptionError),
    "no time": (lambda engine: engine.publish("t", retain=0), InvalidOptionError),
    "a time that nobody can read": (lambda engine: engine.publish("t", retain="soon"), InvalidOptionError),
    "too long an id": (lambda engine: engine.publish("t", event_id="i" * 501), InvalidOptionError),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_refused_before_anything_is_stored(harness: Harness, name: str):
    worker = await harness.worker(waits)
    await worker.start(waits, "1")
    await harness.drain()
    before = await snapshot(worker.wire.behind)
    ask, kind = WRONG[name]

    with pytest.raises(kind) as caught:
        await worker.do(ask(worker.engine))
    assert caught.value.fix or caught.value.why
    await harness.drain()
    assert await snapshot(worker.wire.behind) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: done(3),  # type: ignore[arg-type]
        lambda: topic("t", since="ever"),  # type: ignore[call-overload]
        lambda: topic(dict),  # type: ignore[type-var]
    ],
)
def test_what_cannot_be_waited_for_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises((InvalidOptionError, UnknownTopicError)):
        make()


async def test_a_child_is_awaited_in_one_place_at_a_time(harness: Harness):
    @workflow
    async def child(ctx: Context) -> int:
        return 1

    @workflow
    async def parent(ctx: Context) -> str:
        one = ctx.child(child)
        await one
        try:
            await ctx.wait_any(child=done(one), other=signal("go"))
        except InvalidOptionError as error:
            return error.title
        return ""

    worker = await harness.worker(child, parent)
    run = await worker.start(parent)
    await harness.drain()

    assert await harness.result(run) == "the code has already awaited child child"


async def test_a_repeated_event_does_nothing_and_tells_the_same(harness: Harness):
    worker = await harness.worker(waits)
    first = await worker.start(waits, "1")
    await harness.drain()
    assert await worker.publish(Shipped("1"), event_id="e") == 1
    await harness.drain()
    second = await worker.start(waits, "1")
    await harness.drain()

    assert await worker.publish(Shipped("1"), event_id="e") == 1
    await harness.drain()
    assert await harness.result(first) == ["1", 1]
    assert (await harness.status(second)).status == "waiting"


async def test_a_lost_answer_is_asked_for_again(harness: Harness):
    worker, client = await harness.worker(waits), await harness.client()
    run = await worker.start(waits, "1")
    await harness.drain()
    lost: list[str] = []

    async def lose(name: str) -> None:
        if name == "events.publish" and not lost:
            lost.append(name)
            raise StoreUnavailableError("the answer was lost on its way")

    client.wire.after = lose
    assert await client.publish(Shipped("1")) == 1
    await harness.drain()
    assert (lost, await harness.result(run)) == (["events.publish"], ["1", 1])


class Lean(Event, omit_defaults=True, rename="camel"):
    order_id: str
    parcels: int = 1


async def test_fields_are_compared_by_their_names_in_python_also_when_they_are_left_out(harness: Harness):
    @workflow
    async def lean(ctx: Context) -> str:
        return (await ctx.topic(Lean, where={"order_id": "7", "parcels": 1})).order_id

    worker = await harness.worker(lean)
    run = await worker.start(lean)
    await harness.drain()

    assert await worker.publish(Lean("7", parcels=2)) == 0
    assert await worker.publish(Lean("7")) == 1
    await harness.drain()
    assert await harness.result(run) == "7"


async def test_a_topic_may_have_another_name_than_its_class(harness: Harness):
    @workflow
    async def renamed(ctx: Context) -> str:
        return (await ctx.topic(Renamed)).order

    worker = await harness.worker(renamed)
    run = await worker.start(renamed)
    await harness.drain()

    assert await worker.publish("orders.renamed", {"order": "7"}) == 1
    await harness.drain()
    assert await harness.result(run) == "7"


def test_a_synchronous_engine_publishes_and_starts(tmp_path: Path) -> None:
    with SyncEngine(f"sqlite:///{tmp_path}/sync.db", workflows=[starts]) as engine:
        engine.on(Shipped, start=starts, key="order")

        assert engine.publish(Shipped("9"), retain=True) == 0
        assert engine.runs.handle(starts, "9").result("60s") == "9"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_encrypted_events_are_matched_and_read_and_show_nothing(tmp_path: Path, store: str):
    codec = Encrypted(JsonCodec(), keys=Keys("k1", {"k1": bytes(32)}))
    url = "memory:" if store == "memory" else f"sqlite:///{tmp_path}/events.db"

    @workflow
    async def secretive(ctx: Context, order: str) -> list[str]:
        event = await ctx.topic(Hidden, where={"order": order}, since="all")
        first = await ctx.wait_any(event=topic("news", since="all"), go=signal("go"))
        return [event.order, event.token.reveal(), first.value["text"]]

    async with Engine(url, workflows=[secretive], codec=codec) as engine:
        await engine.publish(Hidden("canary-1", Secret("canary-2")), retain="1h")
        await engine.publish("news", {"text": "canary-3"}, deliver="one", retain="1h")
        kept = await engine._backend.store.views.list_events(limit=9)
        run = await engine.start(secretive, "canary-1")

        assert await run.result("60s") == ["canary-1", "canary-2", "canary-3"]
        waits = (await engine.runs.detail(run.run_id)).history.entries
        assert b"canary" not in b"".join([event.payload for event in kept] + [entry.value for entry in waits])
    assert b"canary" not in _bytes_in(tmp_path)


def _bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())
