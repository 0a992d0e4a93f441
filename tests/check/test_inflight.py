"""A check of all runs of a store: pages, what has come for a run, and runs that go on meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Event, workflow
from stepwell.check import inflight
from stepwell.check.inflight import Checked, Code, check_store
from stepwell.clock import Instant
from stepwell.replay.registry import Registry
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


def flow(ledger: Ledger, *names: str, version: int = 1) -> Any:
    @workflow(name="flow", version=version)
    async def run(ctx: Context) -> None:
        for name in names:
            await ctx.step(name, ledger.body(name))
        await ctx.receive("go")
        await ctx.receive("end")

    return run


async def check(node: Node, *flows: Any, **options: Any) -> Checked:
    return await node.do(check_store(node.wire.store, Code(Registry(flows)), **options))


async def test_every_page_is_read_and_told_of(harness: Harness, ledger: Ledger, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inflight, "PAGE", 3)
    worker = await harness.worker(flow(ledger, "a"))
    for _ in range(8):
        await worker.start(flow(ledger, "a"))
    await harness.drain()
    told: list[int] = []

    checked = await check(worker, flow(ledger, "a"), tell=told.append)
    broken = await check(worker, flow(ledger, "b"))

    assert (checked.fit, checked.total, told) == (8, 8, [3, 6, 8])
    assert (broken.fit, len(broken.broken)) == (0, 8)


async def test_only_runs_since_an_instant_are_replayed(harness: Harness, ledger: Ledger):
    worker = await harness.worker(flow(ledger, "a"))
    await worker.start(flow(ledger, "a"))
    await harness.advance("1h")
    late = await worker.start(flow(ledger, "a"))
    await harness.drain()
    since = Instant(worker.wire.store.now() - 60_000_000)

    assert [one.name for one in (await check(worker, flow(ledger, "b"), since=since)).broken] == [late.run_id]


async def test_definitions_that_the_code_does_not_have_are_counted(harness: Harness, ledger: Ledger):
    worker = await harness.worker(flow(ledger, "a"), flow(ledger, "a", version=2))
    for version in (1, 2, 2):
        await worker.start(flow(ledger, "a", version=version))
    await harness.drain()

    assert await check(worker, flow(ledger, "a")) == Checked(1, (), (("flow@2", 2),))


async def test_a_run_that_goes_on_meanwhile_is_read_again(
    harness: Harness, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    worker = await harness.worker(flow(ledger, "a"))
    run = await worker.start(flow(ledger, "a"))
    await harness.drain()
    honest = worker.wire.behind.runs.load

    async def lag(run_ids: Any) -> Any:
        """What was recorded of a run that has been trimmed and gone on since: half of it."""
        return [history._replace(entries=()) for history in await honest(run_ids)]

    monkeypatch.setattr(worker.wire.behind.runs, "load", lag)
    checked = await check_store(worker.wire.behind, Code(Registry([flow(ledger, "a")])))

    assert (checked.fit, checked.broken) == (1, ())
    assert (await harness.status(run)).status == "waiting"


class Told(Event):
    number: int


class ToldOtherwise(Event):
    __topic__ = "Told"
    number: list[int]


def parent(kind: type) -> tuple[Any, Any]:
    async def give(ctx: Context, number: int):
        return 7 if kind is int else "seven"

    give.__annotations__["return"] = kind
    child: Any = workflow(name="child")(give)

    @workflow(name="parent")
    async def parent(ctx: Context) -> None:
        await ctx.child(child, 1)
        await ctx.receive("go")

    return parent, child


async def test_the_result_of_a_child_that_has_come_counts_too(harness: Harness):
    before, child = parent(int)
    first = await harness.worker(before)
    run = await first.start(before)
    await harness.drain()
    await first.shutdown()
    harness.nodes.remove(first)
    second = await harness.worker(child)
    await harness.drain()
    same, changed = parent(int), parent(str)

    assert (await check(second, *same)).broken == ()
    [broken] = (await check(second, *changed)).broken
    assert (broken.run.run_id, broken.divergence.path) == (run.run_id, "child")

    await harness.deploy(second, *changed)
    await harness.drain()
    assert (await harness.status(run)).status == "paused"


async def test_an_event_that_has_come_counts_too(harness: Harness):
    def flow(kind: type[Event]) -> Any:
        @workflow(name="flow")
        async def run(ctx: Context) -> None:
            await ctx.topic(kind, name="news")
            await ctx.receive("go")

        return run

    worker = await harness.worker(flow(Told))
    run = await worker.start(flow(Told))
    await harness.drain()
    await worker.shutdown()
    harness.nodes.remove(worker)
    client = await harness.client()
    await client.publish(Told(number=7))

    assert (await check(client, flow(Told))).broken == ()
    [broken] = (await check(client, flow(ToldOtherwise))).broken
    assert broken.divergence.path == "news"

    await harness.worker(flow(ToldOtherwise))
    await harness.drain()
    assert (await harness.status(run)).status == "paused"
