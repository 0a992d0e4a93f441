"""`ctx.topic`, and `ctx.wait_any` over everything: fresh, replayed, and with a fault at every call to the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Context, Event, RunFailed, WaitTimeout, done, signal, timer, topic, workflow
from stepwell.errors import HistoryDivergedError
from stepwell.ids import RunId
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger
from tests.replay.sweep import PUBLISH, Program, sweep


class Shipped(Event):
    order: str
    parcels: int = 1


def topics(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        first = await ctx.topic("news", since="start")
        second = await ctx.topic("news", since="start", name="again", where={"n": 3})
        await ctx.step("between", ledger.act, 1)
        return [first, second, await ctx.topic("news", since="all", name="last")]

    script = tuple(("1s", f"{PUBLISH}news", {"n": n}) for n in range(1, 4))
    return Program(program, script=script, lasts="10s")


def timeouts(ledger: Ledger) -> Program:
    @workflow
    async def program(ctx: Context) -> list[Any]:
        try:
            await ctx.topic("silence", timeout="2s")
        except WaitTimeout:
            await ctx.step("late", ledger.act, 1)
        return [await ctx.topic("news", timeout="1h")]

    return Program(program, script=(("30s", f"{PUBLISH}news", 1),), lasts="20s")


def combined(ledger: Ledger) -> Program:
    @workflow
    async def child(ctx: Context) -> str:
        await ctx.sleep("work", "45s")
        return "worked"

    @workflow
    async def program(ctx: Context) -> list[Any]:
        slow = ctx.child(child, name="slow")
        found: list[Any] = []
        for late in ("2m", "2m", "10s", "2m"):
            arrived = await ctx.wait_any(
                "first",
                event=topic("news", since="start"),
                message=signal("go"),
                late=timer(late),
                child=done(slow),
            )
            value = arrived.value
            found.append([arrived.label, getattr(value, "payload", getattr(value, "value", value))])
        return [*found, await slow]

    script = (("8s", f"{PUBLISH}news", "n"), ("8s", "go", "s"))
    return Program(program, others=(child,), script=script, lasts="45s")


def shared(ledger: Ledger) -> Program:
    async def branch(ctx: Context) -> Any:
        return await ctx.topic("news")

    @workflow
    async def program(ctx: Context) -> list[Any]:
        both = await ctx.join("both", {"a": branch, "b": branch})
        return [both["a"], both["b"], await ctx.step("after", ledger.act, 1)]

    return Program(program, script=(("30s", f"{PUBLISH}news", 5),), lasts="20s")


SWEEPS: dict[str, tuple[Any, Any]] = {
    "topics": (topics, [{"n": 1}, {"n": 3}, {"n": 2}]),
    "timeouts": (timeouts, [1]),
    "combined": (combined, [["event", "n"], ["message", "s"], ["late", None], ["child", "worked"], "worked"]),
    "shared": (shared, [5, 5, 1]),
}


@pytest.mark.parametrize("name", SWEEPS)
async def test_a_fault_at_any_call_changes_nothing(mode: str, name: str):
    build, output = SWEEPS[name]

    outcome = await sweep(build, mode)

    assert (outcome.status, outcome.output) == ("completed", output)


async def test_a_typed_event_comes_back_as_its_type_and_is_matched_by_field(harness: Harness):
    @workflow
    async def wait(ctx: Context, order: str) -> list[Any]:
        event = await ctx.topic(Shipped, where={"order": order})
        return [type(event).__name__, event.order, event.parcels]

    worker = await harness.worker(wait)
    runs = {order: await worker.start(wait, order) for order in ("41", "42")}
    await harness.drain()

    assert await worker.publish(Shipped("40")) == 0
    assert await worker.publish(Shipped("42", parcels=3)) == 1
    await harness.drain()
    assert await harness.result(runs["42"]) == ["Shipped", "42", 3]
    assert (await harness.status(runs["41"])).status == "waiting"
    assert "an event of 'Shipped' with order=\"41\"" in (await worker.engine.explain(runs["41"].run_id)).sentence
    assert await worker.publish(Shipped, {"order": "41"}) == 1


async def test_an_event_that_does_not_match_is_there_for_others(harness: Harness):
    @workflow
    async def wait(ctx: Context, n: int) -> Any:
        return await ctx.topic("jobs", where={"n": n}, since="all")

    worker = await harness.worker(wait)
    for n in (1, 2):
        await worker.publish("jobs", {"n": n, "more": [n]}, deliver="one", retain="1h")
    runs = [await worker.start(wait, n) for n in (2, 3, 1)]
    await harness.drain()

    assert [await harness.result(runs[0]), await harness.result(runs[2])] == [
        {"n": 2, "more": [2]},
        {"n": 1, "more": [1]},
    ]
    assert (await harness.status(runs[1])).status == "waiting"


async def test_values_are_compared_as_they_are_stored(harness: Harness):
    @workflow
    async def wait(ctx: Context) -> Any:
        return (await ctx.topic("t", where={"none": None, "one": 1, "yes": True, "text": "ä" * 300}))["nr"]

    worker = await harness.worker(wait)
    run = await worker.start(wait)
    await harness.drain()
    right = {"none": None, "one": 1.0, "yes": True, "text": "ä" * 300}

    wrongs: tuple[dict[str, Any], ...] = ({"none": 0}, {"one": 2}, {"one": "1"}, {"yes": 1}, {"text": "ä"})

    for nr, wrong in enumerate(wrongs):
        assert await worker.publish("t", {**right, **wrong, "nr": nr}) == 0
    assert await worker.publish("t", {**right, "nr": 9}) == 1
    await harness.drain()
    assert await harness.result(run) == 9


async def test_a_loop_over_kept_events_has_no_gap_and_no_duplicate(harness: Harness):
    @workflow
    async def collect(ctx: Context) -> list[int]:
        return [await ctx.topic("numbers", since="start") for _ in range(6)]

    worker = await harness.worker(collect)
    run = await worker.start(collect)
    for n in range(3):
        await worker.publish("numbers", n, retain="1h")
    await harness.drain()
    for n in range(3, 6):
        await worker.publish("numbers", n, retain="1h")
        await worker.publish("other", n, retain="1h")
    await harness.drain()

    assert await harness.result(run) == [0, 1, 2, 3, 4, 5]


async def test_a_chain_does_not_get_an_event_twice(harness: Harness):
    @workflow
    async def collect(ctx: Context, found: list[int]) -> list[int]:
        found = [*found, await ctx.topic("numbers", since="all")]
        if len(found) < 3:
            ctx.continue_as_new(found)
        return found

    worker = await harness.worker(collect)
    for n in range(3):
        await worker.publish("numbers", n, retain="1h")
    run = await worker.start(collect, [])
    await harness.drain()

    assert await harness.result(run) == [0, 1, 2]


async def test_what_a_timeout_left_behind_is_there_for_the_next_wait(harness: Harness):
    """The event comes while the run, already woken by its deadline, goes on elsewhere."""
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()

    @workflow
    async def wait(ctx: Context) -> Any:
        async def other(ctx: Context) -> None:
            await ctx.step("work", work)

        async def listen(ctx: Context) -> Any:
            try:
                return await ctx.topic("t", timeout="1s")
            except WaitTimeout:
                await ctx.sleep("nap", "1h")
                return ["later", await ctx.topic("t", name="again")]

        return (await ctx.join("both", {"other": other, "listen": listen}))["listen"]

    worker = await harness.worker(wait)
    worker.wire.drops_hints = True
    run = await worker.start(wait)
    await harness.drain()
    client = await harness.client()
    assert await client.publish("t", 1, deliver="one") == 1
    await harness.advance("2s")
    gate.set()
    await harness.advance("3h")

    assert await harness.result(run) in (1, ["later", 1])


async def test_branches_that_wait_for_the_same_all_get_it(harness: Harness, ledger: Ledger):
    @workflow
    async def wait(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(*(ctx.topic("t", name=name) for name in ("a", "b", "c"))))

    worker = await harness.worker(wait)
    run = await worker.start(wait)
    await harness.drain()

    assert await worker.publish("t", 7) == 1
    await harness.drain()
    assert await harness.result(run) == [7, 7, 7]


async def test_of_one_only_one_branch_gets_each(harness: Harness):
    @workflow
    async def wait(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(*(ctx.topic("t", name=name) for name in ("a", "b"))))

    worker = await harness.worker(wait)
    run = await worker.start(wait)
    await harness.drain()

    assert [await worker.publish("t", n, deliver="one") for n in (1, 2)] == [1, 1]
    await harness.drain()
    assert await harness.result(run) == [1, 2]


async def test_a_child_that_loses_goes_on_and_can_be_awaited(harness: Harness):
    @workflow
    async def slow(ctx: Context) -> str:
        await ctx.sleep("work", "1h")
        return "done"

    @workflow
    async def parent(ctx: Context) -> list[Any]:
        child = ctx.child(slow)
        first = await ctx.wait_any(child=done(child), late=timer("1m"))
        return [first.label, await child]

    @workflow
    async def leaving(ctx: Context) -> str:
        return (await ctx.wait_any(child=done(ctx.child(slow)), late=timer("1m"))).label

    worker = await harness.worker(slow, parent, leaving)
    run, other = await worker.start(parent), await worker.start(leaving)
    await harness.advance("2m")
    assert await harness.result(other) == "late"
    await harness.advance("2h")

    assert await harness.result(run) == ["late", "done"]


async def test_a_spawned_run_is_waited_for_by_its_id(harness: Harness):
    @workflow
    async def slow(ctx: Context, hours: int) -> str:
        await ctx.sleep("work", f"{hours}h")
        return f"{hours} hours"

    @workflow
    async def parent(ctx: Context) -> list[Any]:
        runs = [await ctx.spawn(slow, hours, name="spawned") for hours in (3, 2)]
        first = await ctx.wait_any(a=done(runs[0]), b=done(runs[1]), late=timer("9h"))
        second = await ctx.wait_any("second", a=done(runs[0]), late=timer("9h"))
        return [first.label, first.value.value, second.label, second.value.value]

    @workflow
    async def stranger(ctx: Context, run_id: str) -> str:
        return (await ctx.wait_any(a=done(RunId(run_id)), late=timer("1h"))).label

    worker = await harness.worker(slow, parent, stranger)
    run = await worker.start(parent)
    other = await worker.start(stranger, run.run_id)
    await harness.advance("4h")

    assert await harness.result(run) == ["b", "2 hours", "a", "3 hours"]
    assert await harness.result(other) == "late"  # any run may be awaited, and this one took longer


async def test_a_child_that_fails_is_an_outcome(harness: Harness):
    @workflow
    async def broken(ctx: Context) -> str:
        ctx.fail("no stock")

    @workflow
    async def parent(ctx: Context) -> list[Any]:
        arrived = await ctx.wait_any(child=done(ctx.child(broken)), never=signal("never"))
        outcome = arrived.value
        return [arrived.label, outcome.ok, outcome.status, outcome.failure.message]

    worker = await harness.worker(broken, parent)
    run = await worker.start(parent)
    await harness.drain()

    assert await harness.result(run) == ["child", False, "failed", "no stock"]


async def test_only_the_earliest_timer_is_stored(harness: Harness):
    @workflow
    async def wait(ctx: Context) -> str:
        return (await ctx.wait_any(b=timer("2h"), a=timer("1h"), c=timer("1h"), go=signal("go"))).label

    worker = await harness.worker(wait)
    run = await worker.start(wait)
    await harness.drain()
    waits = (await worker.engine.runs.detail(run.run_id)).history.waits
    assert sorted(wait.kind.value for wait in waits) == ["signal", "timer"]
    await harness.advance("1h")

    assert await harness.result(run) == "a"


async def test_an_event_whose_shape_the_code_does_not_know_any_more_pauses_the_run(harness: Harness):
    @workflow
    async def wait(ctx: Context) -> Any:
        return await ctx.topic(Shipped)

    worker = await harness.worker(wait)
    run = await worker.start(wait)
    await harness.drain()
    await worker.publish("Shipped", {"no": "order"})
    await harness.drain()

    view = await harness.status(run)
    assert view.status == "paused"
    assert view.failure is not None
    assert view.failure.code == HistoryDivergedError.code


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"ordr": "1"}, "have no field 'ordr'"),
        ({"order": ["1"]}, "order is a list"),
        (lambda event: True, "where is"),
    ],
)
async def test_conditions_that_no_event_could_meet_fail_the_run_at_once(harness: Harness, where: Any, text: str):
    @workflow
    async def wait(ctx: Context) -> Any:
        return await ctx.topic(Shipped, where=where)

    worker = await harness.worker(wait)
    run = await worker.start(wait)
    await harness.drain()

    with pytest.raises(RunFailed, match=text):
        await harness.result(run)


async def test_an_event_starts_a_run_once_for_each_key(harness: Harness):
    @workflow
    async def pack(ctx: Context, event: Shipped) -> list[Any]:
        return [event.order, event.parcels]

    worker = await harness.worker(pack)
    await worker.do(worker.engine.on(Shipped, start=pack, key="order"))
    await worker.publish(Shipped("a"), event_id="first")
    await worker.publish(Shipped("a", 2))
    await worker.publish(Shipped("b"))
    await worker.publish(Shipped("c"), event_id="first")
    await harness.drain()

    runs = await worker.engine.runs.list()
    assert sorted((run.key, tuple(run.output)) for run in runs) == [("a", ("a", 1)), ("b", ("b", 1))]
    await worker.publish("Shipped", {"parcels": "many", "order": "d"})
    assert len(await worker.engine.runs.list()) == 2
