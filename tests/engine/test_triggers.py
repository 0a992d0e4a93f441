"""Triggers: what a worker declares, every publisher honours; what nobody declares any more starts nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepwell import App, Context, Engine, Event, SyncEngine, Trigger, Workflow, workflow
from stepwell.codec import Encrypted, JsonCodec, Keys
from stepwell.engine.trigger_records import topic_label
from stepwell.errors import DuplicateNameError, InvalidOptionError, NotFoundError, StepwellError
from stepwell.sinks import TopicSink
from stepwell.testing import kit
from tests.cases.harness import Harness, Node


class Item(msgspec.Struct):
    sku: str
    count: int = 1


class Ordered(Event):
    order: int
    items: list[Item] = []


@workflow
async def pick(ctx: Context, ordered: Ordered) -> list[Any]:
    return [ordered.order, [item.sku for item in ordered.items]]


@workflow
async def count(ctx: Context, item: Item) -> str:
    return f"{item.count} {item.sku}"


@workflow
async def clean_up(ctx: Context) -> str:
    return "clean"


@workflow
async def other(ctx: Context) -> None:
    return None


@workflow
async def emits(ctx: Context, order: int) -> None:
    await ctx.emit(Ordered(order))


EVENT = {"order": 7, "items": [{"sku": "a", "count": 2}]}
TRIGGERS: list[Trigger] = [
    Trigger(Ordered, start=pick, key="order-{order}"),
    Trigger(Ordered, start=count, key="items.0.sku", input="items.0", name="first item"),
    Trigger("Ordered", start=count, key="copy-{order}", input={"sku": "made-{order}", "count": 9}, name="copies"),
    Trigger("Ordered", start=clean_up),
]


async def results(node: Node) -> dict[str, Any]:
    """The results of all runs by key; the run without a key is `none`."""
    runs = await node.do(node.engine.runs.list())
    return {run.key or "none": run.output for run in runs}


STARTED = {"order-7": [7, ["a"]], "a": "2 a", "copy-7": "9 made-7", "none": "clean"}


async def test_every_publisher_honours_what_a_worker_declares(harness: Harness):
    client = await harness.client()
    assert await client.publish("Ordered", EVENT) == 0  # before anything is declared
    worker = await harness.worker(pick, count, clean_up, triggers=TRIGGERS)

    await client.publish("Ordered", EVENT, event_id="e1")
    await harness.drain()
    assert await results(client) == STARTED
    started = {run.run_id for run in await client.do(client.engine.runs.list())}
    for node, topic, event_id in [(client, "Ordered", "e1"), (worker, "Ordered", "e1"), (worker, Ordered, "e1")]:
        await node.publish(topic, EVENT, event_id=event_id)
    await harness.drain()
    assert {run.run_id for run in await client.do(client.engine.runs.list())} == started

    await worker.publish(Ordered(8, [Item("b")]))
    await client.publish("Ordered", {**EVENT, "order": 7})  # its keys have runs
    await harness.drain()
    assert await results(client) == {**STARTED, "order-8": [8, ["b"]], "b": "1 b", "copy-8": "9 made-8"}
    assert len(await client.do(client.engine.runs.list())) == 9


async def test_a_known_trigger_costs_no_further_request(harness: Harness):
    worker, client = await harness.worker(clean_up), await harness.client()
    for _ in range(2):
        await client.publish("Ordered", EVENT)
    await worker.do(worker.engine.on("Ordered", start=clean_up))
    asked = len(client.wire.calls)
    for _ in range(3):
        await client.publish("Ordered", EVENT)
    await harness.drain()

    assert client.wire.calls[asked:].count("events.publish") == 4  # the first was made from too few triggers
    assert client.wire.calls[asked:].count("records.list_records") == 1
    assert len(await client.do(client.engine.runs.list())) == 3


async def test_a_pause_a_resume_and_a_deletion_count_for_the_next_publish_of_every_process(harness: Harness):
    worker, client = await harness.worker(pick, triggers=TRIGGERS[:1]), await harness.client()
    triggers, name = client.engine.triggers, "Ordered:pick"
    numbers = iter(range(100))

    async def started() -> int:
        before = len(await client.do(client.engine.runs.list()))
        await client.publish("Ordered", {"order": next(numbers)})
        await worker.publish(Ordered(next(numbers)))
        await harness.drain()
        return len(await client.do(client.engine.runs.list())) - before

    assert await started() == 2
    assert await client.do(triggers.pause(name, by="ann", reason="wrong invoices"))
    assert not await client.do(triggers.pause(name))
    assert await started() == 0
    [paused] = await client.do(triggers.list(state="paused"))
    assert (paused.name, paused.by, paused.reason, paused.workflow) == (name, "ann", "wrong invoices", "pick")

    # A new worker declares it, with another key, and does not resume it.
    changed = Trigger(Ordered, start=pick, key="o{order}")
    worker = await harness.deploy(worker, pick, triggers=[changed])
    assert await started() == 0
    shown = await client.do(triggers.get(name))
    assert (shown.state, shown.key, shown.by) == ("paused", "o{order}", "ann")
    assert await client.do(triggers.resume(name, by="bo"))
    assert not await client.do(triggers.resume(name))
    assert await started() == 2

    assert await client.do(triggers.delete(name, by="bo"))
    assert await started() == 0
    with pytest.raises(NotFoundError):
        await client.do(triggers.get(name))
    acts = await client.do(triggers.history(name))
    verbs = [("deleted", "bo"), ("resumed", "bo"), ("declared", ""), ("paused", "ann"), ("declared", "")]
    assert [(act.verb, act.by) for act in acts] == verbs
    await harness.deploy(worker, pick, triggers=[changed])
    assert [one.state for one in await client.do(triggers.list(topic="Ordered"))] == ["active"]


async def test_an_event_that_does_not_fit_is_published_and_noted_on_the_trigger(harness: Harness):
    worker = await harness.worker(pick, count, clean_up, triggers=TRIGGERS)
    secret = "canary-1"
    await worker.publish("Ordered", {"order": secret, "items": 3}, event_id="bad")
    await worker.publish("Ordered", {"order": True}, event_id="worse")  # within a minute: not noted again
    await harness.drain()

    assert await results(worker) == {"none": "clean", f"copy-{secret}": f"9 made-{secret}"}
    found = {one.name: one.failure for one in await worker.do(worker.engine.triggers.list())}
    assert {name: failure and failure.event_id for name, failure in found.items()} == {
        **{"Ordered:pick": "bad", "first item": "bad", "copies": "worse"},
        "Ordered:clean_up": None,
    }
    failure = found["Ordered:pick"]
    assert failure is not None
    assert (failure.code, secret in failure.message) == ("SW310", False)
    assert found["first item"] is not None
    assert found["first item"].message == "the event has no `items.0.sku`"

    await harness.advance("61s")
    await worker.publish("Ordered", {"order": 1.5}, event_id="later")
    again = await worker.do(worker.engine.triggers.get("Ordered:pick"))
    assert again.failure is not None
    assert again.failure.event_id == "later"


async def test_a_publisher_without_the_code_leaves_the_check_of_the_input_to_a_worker(harness: Harness):
    await harness.worker(count, triggers=TRIGGERS[1:2])
    client = await harness.client()
    await client.publish("Ordered", {"items": [{"sku": "a", "count": "two"}]})
    await harness.drain()

    [run] = await client.do(client.engine.runs.list())
    assert (run.status, run.key, run.failure and run.failure.code) == ("failed", "a", "SW310")


async def test_a_trigger_lasts_while_a_worker_declares_it_and_a_day_longer(harness: Harness):
    first = await harness.worker(clean_up, triggers=[Trigger("tick", start=clean_up)])
    second = await harness.worker(clean_up, other, triggers=[Trigger("tick", start=clean_up)])
    bystander = await harness.worker(other)
    engine = bystander.engine

    async def state() -> str:
        return (await bystander.do(engine.triggers.get("tick:clean_up"))).state

    await harness.advance("3d")
    lines = await bystander.do(engine.triggers.history("tick:clean_up", limit=99))
    assert await state() == "active"
    # Each worker renews it every six hours, unless another has just done it.
    assert [line.verb for line in lines] == ["renewed"] * (len(lines) - 1) + ["declared"]
    assert 10 <= len(lines) <= 14

    await first.shutdown()
    second.crash()
    harness.nodes = [bystander]
    await harness.advance("24h")
    assert await state() == "active"
    await harness.advance("7h")
    assert await state() == "undeclared"
    assert await bystander.publish("tick") == 0
    assert await bystander.do(engine.runs.list()) == []

    back = await harness.worker(clean_up, triggers=[Trigger("tick", start=clean_up)])
    assert await state() == "active"
    await bystander.publish("tick")
    await harness.drain()
    assert len(await back.do(back.engine.runs.list())) == 1


async def test_a_person_can_resume_an_undeclared_trigger_for_a_day(harness: Harness):
    worker = await harness.worker(clean_up, triggers=[Trigger("tick", start=clean_up)])
    worker = await harness.deploy(worker, other)
    triggers, states = worker.engine.triggers, list[str]()
    for wait in ("31h", "23h", "8h"):
        await harness.advance(wait)
        states.append((await worker.do(triggers.get("tick:clean_up"))).state)
        if wait == "31h":
            assert await worker.do(triggers.resume("tick:clean_up", by="ann"))
    assert states == ["undeclared", "active", "undeclared"]


async def test_after_days_without_any_worker_the_first_to_start_gives_the_others_time_to_declare(harness: Harness):
    client = await harness.client()
    worker = await harness.worker(clean_up, triggers=[Trigger("tick", start=clean_up)])
    await worker.shutdown()
    harness.nodes = [client]
    await harness.advance("5d")
    await client.publish("tick", event_id="meanwhile")

    early = await harness.worker(other)
    await harness.advance("14m")
    assert (await client.do(client.engine.triggers.get("tick:clean_up"))).state == "active"
    late = await harness.worker(clean_up, triggers=[Trigger("tick", start=clean_up)])
    await harness.advance("2h")
    assert (await early.do(early.engine.triggers.get("tick:clean_up"))).state == "active"
    assert [run.output for run in await late.do(late.engine.runs.list())] == ["clean"]


async def test_what_was_declared_last_is_in_force_and_older_code_does_not_renew_it(harness: Harness):
    old = await harness.worker(clean_up, triggers=[Trigger("tick", start=clean_up, key="a")])
    new = await harness.worker(clean_up, triggers=[Trigger("tick", start=clean_up, key="b")])
    await harness.advance("20h")
    assert (await old.do(old.engine.triggers.get("tick:clean_up"))).key == "b"
    await new.shutdown()
    harness.nodes.remove(new)
    await harness.advance("40h")
    assert (await old.do(old.engine.triggers.get("tick:clean_up"))).state == "undeclared"


async def test_declaring_and_publishing_at_once_never_loses_an_acknowledged_trigger(harness: Harness):
    """A publish that begins after the acknowledgement starts a run, whatever the publisher knew before."""
    workers = [await harness.worker(clean_up) for _ in range(2)]
    client = await harness.client()

    async def declare(node: Node, number: int) -> None:
        await node.do(node.engine.on("tick", start=clean_up, key="number", name=f"t{number}"))
        await client.publish("tick", {"number": f"after {number}"})

    await asyncio.gather(*(declare(workers[number % 2], number) for number in range(6)))
    await harness.drain()

    assert {f"after {number}" for number in range(6)} == {run.key for run in await client.do(client.engine.runs.list())}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Trigger(3, start=pick),  # type: ignore[arg-type]
        lambda: Trigger("t", start=print),  # type: ignore[arg-type]
        lambda: Trigger("t", start=pick, key=lambda event: event.order),  # type: ignore[arg-type]
        lambda: Trigger("t", start=pick, input=lambda event: event),  # type: ignore[arg-type]
        lambda: Trigger("t", start=pick, key=3),  # type: ignore[arg-type]
        lambda: Trigger("t", start=pick, key="a..b"),
        lambda: Trigger("t", start=pick, dedup=-1),
        lambda: Trigger("t", start=pick, name="a/b"),
        lambda: Trigger("t", start=clean_up, input="order"),
        lambda: Trigger(Ordered, start=pick, key="ordr"),
        lambda: App(triggers=[Trigger("t", start=pick), Trigger("t", start=pick, key="a")]),
        lambda: App(triggers=[pick]),  # type: ignore[list-item]
    ],
)
def test_what_is_no_trigger_is_rejected_with_a_line_to_write(make: Any) -> None:
    with pytest.raises(StepwellError) as caught:
        make()
    assert caught.value.fix or isinstance(caught.value, DuplicateNameError) or caught.value.why


def test_names_of_triggers_never_meet() -> None:
    @workflow(name="b:c")
    async def first(ctx: Context) -> None: ...

    @workflow(name="c")
    async def second(ctx: Context) -> None: ...

    @workflow(name="x" * 190)
    async def third(ctx: Context) -> None: ...

    made: list[Workflow[Any, Any]] = [first, second, third]
    names = {Trigger(topic, start=each).name for topic in ("a", "a:b", "t" * 190) for each in made}
    assert (len(names), max(map(len, names)) <= 200) == (9, True)
    assert topic_label("t" * 200) != topic_label("t" * 199 + "u")


async def test_an_engine_without_a_worker_cannot_declare(harness: Harness):
    client = await harness.client()
    with pytest.raises(InvalidOptionError, match="no worker"):
        await client.do(client.engine.on("tick", start=clean_up))


async def test_a_run_that_emits_starts_another_through_a_topic_sink() -> None:
    async with Engine(
        "memory:", workflows=[emits, pick], sinks=[TopicSink()], triggers=[Trigger(Ordered, start=pick, key="order")]
    ) as engine:
        await (await engine.start(emits, 5)).result("60s")
        while await engine.status("5") is None:  # noqa: ASYNC110  the relay sends it a moment later
            await asyncio.sleep(0.01)
        assert await engine.result("5", timeout="60s") == [5, []]


async def test_an_encrypted_trigger_shows_neither_its_key_nor_its_input(tmp_path: Path) -> None:
    url, codec = f"sqlite:///{tmp_path}/secret.db", Encrypted(JsonCodec(), keys=Keys("k1", {"k1": bytes(32)}))
    trigger = Trigger("tick", start=count, key="canary.id", input={"sku": "canary.id"}, name="t")
    async with Engine(url, workflows=[count], codec=codec, triggers=[trigger]) as engine:
        await engine.publish("tick", {"canary": {"id": "canary-7"}})
        assert await engine.result("canary-7", timeout="60s") == "1 canary-7"
        stored = await engine._backend.store.records.find("trigger", "t")
        assert stored is not None
        assert (b"canary" in stored.body, stored.state, stored.labels) == (False, "active", ("topic tick",))
    async with Engine(url) as blind:
        [shown] = await blind.triggers.list()
        assert (shown.name, shown.state, shown.key, bool(shown.unreadable)) == ("t", "active", None, True)


def test_a_synchronous_engine_declares_and_lists(tmp_path: Path) -> None:
    with SyncEngine(f"sqlite:///{tmp_path}/sync.db", workflows=[clean_up]) as engine:
        engine.on("tick", start=clean_up, name="t")
        engine.publish("tick")
        assert [(one.name, one.state) for one in engine.triggers.list()] == [("t", "active")]
        assert engine.triggers.pause("t", by="ann")
        assert engine.triggers.get("t").by == "ann"
        assert [act.verb for act in engine.triggers.history("t")] == ["paused", "declared"]
        assert engine.triggers.delete("t")


def test_the_test_kit_declares_the_triggers_of_an_app() -> None:
    app = App(workflows=[pick, clean_up], triggers=[Trigger(Ordered, start=pick, key="order"), TRIGGERS[3]])
    with kit(app=app) as t:
        t.emit(Ordered(3, [Item("c")]))
        run = t.handle(pick, "3")
        assert run.ended().result() == [3, ["c"]]
        assert [one.state for one in t.wait(t.engine.triggers.list())] == ["active", "active"]
