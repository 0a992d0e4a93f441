"""What code says of its run: set once, whatever happens to workers and code, and carried on to successors."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from stepwell import Break, Context, Continue, RunFailed, SyncContext, Workflow, step, workflow
from stepwell.errors import InvalidOptionError
from stepwell.views import RunView
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

DUE = datetime(2026, 12, 1, 9, tzinfo=UTC)


def said(run: RunView) -> tuple[Any, ...]:
    return run.title, run.attributes, run.tags


async def paths(harness: Harness, run: Any, kind: str = "describe") -> list[str]:
    return [entry.path for entry in await harness.history(run) if entry.kind == kind]


async def test_what_code_says_is_recorded_once_and_a_replay_sets_nothing_again(harness: Harness, ledger: Ledger):
    @workflow
    async def orders(ctx: Context) -> str:
        ctx.set_title("An order")
        ctx.set_attributes(region="eu", amount=Decimal("42.10"), due=DUE, vip=True, old=1)
        await ctx.step("a", ledger.act)
        ctx.set_attributes({"order.items": 2}, amount=43, old=None)
        ctx.add_tags("vip", team="shop")
        ctx.remove_tags("vip", "unknown")
        await ctx.receive("go")
        ctx.set_title("Paid")
        ctx.set_title(None)
        return "done"

    worker = await harness.worker(orders)
    run = await worker.start(orders, tags={"first"}, attributes={"source": "web"})
    await harness.drain()
    expected = {"amount": 43, "due": DUE, "order.items": 2, "region": "eu", "source": "web", "vip": True}
    tags = {"first": "", "team": "shop"}

    assert said(await harness.status(run)) == ("An order", expected, tags)
    before = await harness.history(run)
    worker = await harness.takeover(worker, orders)
    await worker.engine.runs.list()
    assert await harness.history(run) == before
    assert [entry.value for entry in before] == [
        "An order",
        {"amount": "42.10", "due": "2026-12-01T09:00:00Z", "old": 1, "region": "eu", "vip": True},
        None,
        {"amount": 43, "old": None, "order.items": 2},
        ["team=shop", "vip"],
        ["unknown", "vip"],
    ]

    await worker.signal(run.run_id, "go")
    assert await harness.result(run) == "done"
    assert said(await harness.status(run)) == (None, expected, tags)
    assert await paths(harness, run) == [
        "set_title()",
        "set_attributes(amount, due, old, region, vip)",
        "set_attributes(amount, old, order.items)",
        "add_tags(team, vip)",
        "remove_tags(unknown, vip)",
        "set_title()#2",
        "set_title()#3",
    ]


async def test_what_is_refused_is_refused_in_a_replay_too(harness: Harness, ledger: Ledger):
    refusals: list[InvalidOptionError] = []

    @workflow
    async def flow(ctx: Context) -> None:
        ctx.set_attributes(n=1)
        try:
            ctx.set_attributes(n="one", m=1)
        except InvalidOptionError as error:
            refusals.append(error)
            ctx.set_attributes(m="told")
        try:
            ctx.set_attributes({f"a{number}": number for number in range(31)})
        except InvalidOptionError as error:
            refusals.append(error)
        ctx.set_attributes(n=None)
        ctx.set_attributes(n="one")
        ctx.set_attributes({f"a{number}": number for number in range(30)})
        try:
            ctx.add_tags(*(f"t{number}" for number in range(21)))
        except InvalidOptionError:
            ctx.add_tags("few")
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")
    await harness.result(run)

    view = await harness.status(run)
    assert view.attributes == {**{f"a{number}": number for number in range(30)}, "m": "told", "n": "one"}
    assert view.tags == {"few": ""}
    first, second = refusals[:2]
    assert (first.code, first.title) == ("SW103", "attribute 'n' is a number in this run, and 'one' is text")
    assert first.fix == "give a number, or another name; or remove it first: ctx.set_attributes(n=None)"
    assert second.title == "this run would have 33 attributes"
    assert {str(one) for one in refusals} == {str(first), str(second)}


async def test_a_refusal_that_code_does_not_expect_fails_the_run(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        ctx.set_attributes(n=1)
        ctx.set_attributes(n=True)

    worker = await harness.worker(flow)
    run = await worker.start(flow)

    with pytest.raises(RunFailed, match="attribute 'n' is a number in this run, and 'true' is a boolean"):
        await harness.result(run)


async def test_successors_have_it_and_children_only_know_who_started_them(harness: Harness, ledger: Ledger):
    @workflow
    async def child(ctx: Context) -> None:
        await ctx.step("a", ledger.act)

    @workflow
    async def chain(ctx: Context, number: int) -> int:
        if number < 2:
            ctx.set_attributes({f"n{number}": number, "gone": None})
            ctx.add_tags(f"t{number}")
            ctx.set_title(f"round {number}")
            await ctx.child(child)
            await ctx.spawn(child, name="spawned")
            ctx.continue_as_new(number + 1)
        return number

    worker = await harness.worker(chain, child)
    run = await worker.start(chain, 0, key="c", by="ann", attributes={"gone": "x", "kept": "y"}, tags={"first"})
    assert await harness.result(run) == 2

    last = await harness.status("c")
    assert said(last) == ("round 1", {"kept": "y", "n0": 0, "n1": 1}, {"first": "", "t0": "", "t1": ""})
    assert last.started_by == "ann"
    children = await worker.do(worker.engine.runs.list("workflow:child"))
    assert [(one.started_by, *said(one)) for one in children] == [("ann", None, {}, {})] * 4


async def test_a_replay_of_a_trimmed_loop_does_not_bring_back_what_was_said_before_it(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        ctx.set_attributes(status="begun")

        async def body(inner: Context, number: int) -> Continue[int] | Break[int]:
            inner.set_attributes(status=f"round {number}")
            await inner.receive("next")
            return Continue(number + 1) if number < 5 else Break(number)

        await ctx.loop("rounds", body, 0, trim_every=1, keep=0)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    for number in range(4):
        assert (await harness.status(run)).attributes == {"status": f"round {number}"}
        worker = await harness.takeover(worker, flow)
        await worker.signal(run.run_id, "next")
        await harness.drain()
    await worker.signal(run.run_id, "next")
    await worker.signal(run.run_id, "next")
    await harness.result(run)
    assert (await harness.status(run)).attributes == {"status": "round 5"}


async def test_code_may_say_more_or_less_while_runs_are_on_their_way(harness: Harness, ledger: Ledger):
    def made(before: dict[str, Any], after: dict[str, Any]) -> Workflow[Any, Any]:
        @workflow(name="flow")
        async def flow(ctx: Context) -> None:
            if before:
                ctx.set_attributes(before)
            await ctx.step("a", ledger.act)
            await ctx.receive("go")
            if after:
                ctx.set_attributes(after)

        return flow

    first = made({"region": "eu"}, {})
    worker = await harness.worker(first)
    run = await worker.start(first)
    await harness.drain()
    # The run has passed the first place: it keeps what it said there, and does not say what is new there.
    second = made({"source": "web"}, {"region": "us", "paid": True})
    worker = await harness.deploy(worker, second)
    await worker.signal(run.run_id, "go")
    await harness.result(run)

    assert (await harness.status(run)).attributes == {"paid": True, "region": "us"}
    assert await paths(harness, run) == ["set_attributes(region)", "set_attributes(paid, region)"]


async def test_a_rewound_run_says_again_what_its_dropped_record_had(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        ctx.set_attributes(status="new")
        await ctx.step("a", ledger.act)
        ctx.set_attributes(status="a is done")
        await ctx.step("b", ledger.act)
        ctx.set_attributes(status="b is done")
        await ctx.receive("go")

    worker = await harness.worker(flow)
    run = await worker.start(flow, title="A flow", by="ann")
    await harness.drain()
    before = await paths(harness, run)
    await worker.do(worker.engine.repairs.rewind(run.run_id, "b"))
    await harness.drain()

    assert (await harness.status(run)).attributes == {"status": "b is done"}
    assert await paths(harness, run) == before
    fork = (await worker.do(worker.engine.repairs.fork(run.run_id, "b", by="bo"))).fork_id
    assert fork is not None
    copy = await harness.status(fork)
    assert (copy.title, copy.started_by) == ("A flow", "bo")
    await harness.drain()
    assert (await harness.status(fork)).attributes == {"status": "b is done"}


async def test_a_plain_function_says_it_once_too(harness: Harness, ledger: Ledger):
    @workflow
    def flow(ctx: SyncContext) -> None:
        ctx.set_title("plain")
        ctx.set_attributes(n=1)
        ctx.step("a", step(ledger.act))
        ctx.set_attributes(n=2)
        ctx.add_tags("x")
        ctx.sleep("rest", "1m")
        ctx.remove_tags("x")
        ctx.set_attributes(n=3)

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    assert said(await harness.status(run)) == ("plain", {"n": 2}, {"x": ""})
    await harness.result(run)

    assert said(await harness.status(run)) == ("plain", {"n": 3}, {})
    assert await paths(harness, run) == [
        "set_title()",
        "set_attributes(n)",
        "set_attributes(n)#2",
        "add_tags(x)",
        "remove_tags(x)",
        "set_attributes(n)#3",
    ]
