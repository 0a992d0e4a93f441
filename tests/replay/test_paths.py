"""Where operations stand: names, numbered uses, changed kinds, places that are not visited any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell import Break, Context, Continue, RunPaused, Workflow, step, timer, workflow
from stepwell.errors import InvalidNameError, InvalidOptionError
from stepwell.views import FailureRecord
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def paused(harness: Harness, flow: Workflow[Any, Any]) -> FailureRecord:
    """Why the run of a workflow was paused."""
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    with pytest.raises(RunPaused) as caught:
        await harness.result(run)
    assert caught.value.failure is not None
    return caught.value.failure


async def redeployed(harness: Harness, before: Workflow[Any, Any], after: Workflow[Any, Any]) -> Any:
    """Run the old code up to its wait for "go", then the new code to its end."""
    worker = await harness.worker(before)
    run = await worker.start(before)
    await harness.advance("1m")
    worker = await harness.deploy(worker, after)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    return await harness.result(run)


async def test_a_second_use_of_a_unique_name_names_both_operations(harness: Harness, ledger: Ledger):
    @workflow(names="unique")
    async def flow(ctx: Context) -> None:
        await ctx.step("notify", ledger.body("first"))
        await ctx.sleep("notify", "1h")

    failure = await paused(harness, flow)

    assert (failure.code, failure.path) == ("SW104", "notify")
    assert "recorded: step notify · now: sleep notify#2" in failure.why
    assert 'leave out @workflow(names="unique")' in failure.fix
    assert ledger.lines == ["first"]


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_unique_step_shares_its_name_with_no_other(harness: Harness, ledger: Ledger, is_first: bool):
    @workflow
    async def flow(ctx: Context) -> None:
        once, again = step(ledger.body("one"), unique=is_first), step(ledger.body("two"), unique=not is_first)
        await ctx.step("notify", once)
        await ctx.step("notify", again)

    failure = await paused(harness, flow)

    assert (failure.code, failure.path) == ("SW104", "notify")
    assert "leave out unique=True" in failure.fix
    assert ledger.lines == ["one"]


async def test_a_second_use_that_is_only_created_runs_neither(harness: Harness, ledger: Ledger):
    @workflow(names="unique")
    async def flow(ctx: Context) -> None:
        await asyncio.gather(ctx.step("x", ledger.body("one")), ctx.step("x", ledger.body("two")))

    assert (await paused(harness, flow)).code == "SW104"
    assert ledger.lines == []


async def test_a_duplicate_name_cannot_be_swallowed(harness: Harness, ledger: Ledger):
    @workflow(names="unique")
    async def flow(ctx: Context) -> str:
        await ctx.step("x", ledger.body("one"))
        try:
            await ctx.step("x", ledger.body("two"))
        except Exception:
            await ctx.step("y", ledger.body("three"))
        return "swallowed"

    assert (await paused(harness, flow)).code == "SW104"
    assert ledger.lines == ["one"]


def test_names_are_numbered_or_unique():
    with pytest.raises(InvalidOptionError, match="names of workflow 'flow' is 'once'"):

        @workflow(names="once")  # type: ignore[call-overload]
        async def flow(ctx: Context) -> None: ...


def test_repeat_is_accepted_and_not_needed():
    with pytest.warns(DeprecationWarning, match="repeat= has no effect") as caught:
        step(print, repeat=True)
    assert caught[0].filename == __file__


async def test_every_operation_numbers_the_uses_of_its_name(harness: Harness, ledger: Ledger):
    async def branch(ctx: Context) -> int:
        return int(await ctx.step("in", ledger.body("in", 1)))

    async def item(ctx: Context, number: int) -> int:
        return int(await ctx.step("in", ledger.body("in", number)))

    async def body(ctx: Context, left: int) -> Continue[int] | Break[int]:
        await ctx.step("in", ledger.body("in", left))
        return Break(left)

    @workflow
    async def flow(ctx: Context) -> None:
        for number in range(2):
            await ctx.step("step", ledger.body("step", number))
            await ctx.once("once", lambda: 1)
            await ctx.sleep("sleep", "1m")
            await ctx.receive("signal", timeout="1m", default=None)
            await ctx.join("join", {"a": branch})
            await ctx.race("race", {"a": branch})
            await ctx.map("map", item, [1])
            await ctx.loop("loop", body, 0)
            await ctx.emit("emit")
            await ctx.rollback_checkpoint("mark")
            await ctx.stream("lines").append(number)
            await ctx.wait_any(late=timer("1m"))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("3m")
    await harness.takeover(worker, flow)
    await harness.result(run)

    own = [path for path in await harness.paths(run) if "/" not in path]
    names = ["step", "once", "sleep", "signal", "join", "race", "map", "loop", "emit", "mark", "stream lines"]
    assert own == [*names, "wait_any", *(f"{name}#2" for name in names), "wait_any#2"]
    assert ledger.lines.count("in") == 8


async def test_names_of_different_kinds_share_their_numbers(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("x", ledger.body("one"))
        await ctx.sleep("x", "1m")
        await ctx.step("x", ledger.body("two"))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.result(run)

    assert await harness.paths(run) == ["x", "x#2", "x#3"]


async def test_numbered_uses_go_on_after_a_replay(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found = []
        for number in range(4):
            found.append(await ctx.step("tick", ledger.body(f"tick {number}", number)))
            await ctx.sleep("pause", "10m")
        return found

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("15m")
    await harness.takeover(worker, flow)

    assert await harness.result(run) == [0, 1, 2, 3]
    assert len(ledger.lines) == 4
    assert (await harness.paths(run))[-2:] == ["tick#4", "pause#4"]


@pytest.mark.parametrize("name", ["a/b", "a#1", "~x", "", " padded", "new\nline", "x" * 201])
async def test_a_name_that_cannot_be_part_of_a_path_fails_the_run(harness: Harness, ledger: Ledger, name: str):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(name, ledger.body("never"))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.type) == ("failed", InvalidNameError.__name__)
    assert ledger.lines == []


async def test_paths_are_fixed_when_operations_are_called(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        tick = step(ledger.act)
        first, second = ctx.step("tick", tick, "first"), ctx.step("tick", tick, "second")
        return [await second, await first]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == ["second", "first"]
    assert [(e.path, e.value) for e in await harness.history(run)] == [("tick#2", "second"), ("tick", "first")]


KINDS: dict[str, Any] = {
    "step": lambda ctx, ledger: ctx.step("x", ledger.body("x")),
    "once": lambda ctx, ledger: ctx.once("x", lambda: 1),
    "sleep": lambda ctx, ledger: ctx.sleep("x", 0),
    "receive_many": lambda ctx, ledger: ctx.receive_many(timeout=0, name="x"),
    "checkpoint": lambda ctx, ledger: ctx.rollback_checkpoint("x"),
    "join": lambda ctx, ledger: ctx.join("x", {"b": lambda c: c.step("inner", ledger.body("inner"))}),
    "race": lambda ctx, ledger: ctx.race("x", {"b": lambda c: c.step("inner", ledger.body("inner"))}),
    "loop": lambda ctx, ledger: ctx.loop("x", _once, 0),
}


async def _once(ctx: Context, state: int) -> Continue[int] | Break[int]:
    return Break(state)


@pytest.mark.parametrize("recorded", KINDS)
async def test_another_kind_at_a_recorded_name_stops_the_run(harness: Harness, ledger: Ledger, recorded: str):
    now = "once" if recorded == "step" else "step"

    @workflow(name="flow")
    async def before(ctx: Context) -> None:
        await KINDS[recorded](ctx, ledger)
        await ctx.receive("go")

    @workflow(name="flow")
    async def after(ctx: Context) -> None:
        await KINDS[now](ctx, Ledger())
        await ctx.receive("go")

    with pytest.raises(RunPaused) as caught:
        await redeployed(harness, before, after)
    assert caught.value.failure.code == "SW201"
    assert caught.value.why == f"recorded: {recorded} x · now: {now} x"


async def test_another_kind_where_the_run_waits_stops_it(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def before(ctx: Context) -> None:
        await ctx.receive("go")

    @workflow(name="flow")
    async def after(ctx: Context) -> None:
        await ctx.step("go", ledger.body("go"))

    with pytest.raises(RunPaused, match="waiting for a signal at go") as caught:
        await redeployed(harness, before, after)
    assert caught.value.failure.code == "SW201"
    assert ledger.lines == []


async def test_what_the_code_no_longer_visits_stops_the_run_before_it_does_anything_new(
    harness: Harness, ledger: Ledger
):
    @workflow(name="flow")
    async def before(ctx: Context) -> None:
        await ctx.step("charge", ledger.body("charge"))
        await ctx.receive("go")

    @workflow(name="flow")
    async def after(ctx: Context) -> None:
        await ctx.receive("go")

    with pytest.raises(RunPaused) as caught:
        await redeployed(harness, before, after)
    assert (caught.value.failure.code, caught.value.failure.path) == ("SW201", "charge")
    assert caught.value.why == "recorded: step charge · now: it waits for a signal at go"
    assert 'ctx.removed("charge", "step")' in caught.value.fix


async def test_a_paused_run_goes_on_with_fixed_code(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def before(ctx: Context) -> str:
        await ctx.step("charge", ledger.body("charge"))
        await ctx.receive("go")
        return "done"

    @workflow(name="flow")
    async def broken(ctx: Context) -> str:
        await ctx.receive("go")
        return "wrong"

    worker = await harness.worker(before)
    run = await worker.start(before)
    await harness.drain()
    worker = await harness.deploy(worker, broken)
    await worker.signal(run.run_id, "go")
    await harness.drain()
    assert (await harness.status(run)).status == "paused"
    worker = await harness.deploy(worker, before)
    assert await worker.do(worker.engine.holds.resume(run.run_id))
    await harness.drain()

    assert await harness.result(run) == "done"
    assert ledger.lines == ["charge"]


@pytest.mark.parametrize("kind", ["step", "sleep"])
async def test_removed_accepts_only_the_recorded_kind(harness: Harness, ledger: Ledger, kind: str):
    @workflow(name="flow")
    async def before(ctx: Context) -> str:
        await ctx.step("charge", ledger.body("charge"))
        await ctx.receive("go")
        return "before"

    @workflow(name="flow")
    async def after(ctx: Context) -> str:
        ctx.removed("charge", kind)
        await ctx.receive("go")
        return "after"

    if kind == "step":
        assert await redeployed(harness, before, after) == "after"
        return
    with pytest.raises(RunPaused, match="recorded: step charge · now: sleep charge"):
        await redeployed(harness, before, after)


async def test_removed_covers_numbered_uses_and_is_nothing_to_new_runs(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def before(ctx: Context) -> str:
        for _ in range(3):
            await ctx.step("tick", step(ledger.body("tick")))
        await ctx.receive("go")
        return "before"

    @workflow(name="flow")
    async def after(ctx: Context) -> str:
        ctx.removed("tick", "step")
        ctx.removed("never there", "loop")
        await ctx.receive("go")
        return "after"

    assert await redeployed(harness, before, after) == "after"
    worker = harness.nodes[-1]
    fresh = await worker.start(after)
    await worker.signal(fresh.run_id, "go")
    await harness.drain()
    assert await harness.result(fresh) == "after"
    assert len(ledger.lines) == 3


async def test_the_fix_for_a_numbered_use_that_was_taken_out_can_be_typed_as_it_is(harness: Harness, ledger: Ledger):
    def build(rounds: int, taken_out: str = "") -> Any:
        @workflow(name="flow")
        async def flow(ctx: Context) -> str:
            for _ in range(rounds):
                await ctx.step("tick", step(ledger.body("tick")))
            if taken_out:
                ctx.removed(taken_out, "step")
            await ctx.receive("go")
            return "done"

        return flow

    with pytest.raises(RunPaused) as caught:
        await redeployed(harness, build(3), build(2))
    assert caught.value.failure.path == "tick#3"
    assert 'ctx.removed("tick", "step")' in caught.value.fix
    assert await redeployed(harness, build(3), build(2, "tick")) == "done"
    with pytest.raises(RunPaused, match="it raises InvalidNameError: name 'tick#2' cannot be part of a path"):
        await redeployed(harness, build(3), build(2, "tick#2"))


async def test_a_misspelt_kind_is_refused_with_the_nearest(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> None:
        ctx.removed("x", "stepp")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    view = await harness.status(run)
    assert (view.status, view.failure.fix) == ("failed", "did you mean 'step'?")


async def test_a_recorded_value_that_no_longer_fits_its_annotation_stops_the_run(harness: Harness):
    async def old() -> str:
        return "text"

    async def new() -> int:
        return 1

    @workflow(name="flow")
    async def before(ctx: Context) -> None:
        await ctx.step("x", old)
        await ctx.receive("go")

    @workflow(name="flow")
    async def after(ctx: Context) -> None:
        await ctx.step("x", new)
        await ctx.receive("go")

    with pytest.raises(RunPaused, match="no longer fits this code"):
        await redeployed(harness, before, after)
