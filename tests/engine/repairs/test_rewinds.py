"""Taking a run back: what is done again, what is kept, and what is refused."""

from __future__ import annotations

import asyncio

import pytest

from stepwell import Break, Context, Continue, Engine, StepContext, step, workflow
from stepwell.errors import (
    InvalidMoveError,
    NotFoundError,
    RunHeldError,
)
from tests.engine.repairs.scene import (
    ONCE,
    World,
    comes_to,
    fails,
    has_children,
    has_lines,
    three,
    until,
)


async def test_what_is_before_the_place_is_kept_and_the_rest_is_done_again(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"c"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        world.broken = set()

        plan = await engine.repairs.rewind(run.run_id, "b", by="ann", reason="b was wrong")

        assert (plan.kept, plan.dropped, plan.is_applied) == (("a",), ("b", "c"), True)
        assert await run.result("60s") == ["a 1", "b 2", "c 2"]
        assert world.calls == {"a": 1, "b": 2, "c": 2}
        acts = await engine.runs.list_acts(run.run_id)
        assert [(act.verb, act.by, act.before, act.after, act.reason) for act in acts] == [
            ("rewind", "ann", "failed", "pending", "b was wrong")
        ]


async def test_a_dry_run_changes_nothing_and_says_the_same(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"c"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        before = await engine.runs.detail(run.run_id)

        plan = await engine.repairs.rewind(run.run_id, "b", dry_run=True)

        assert (plan.kept, plan.dropped, plan.is_applied) == (("a",), ("b", "c"), False)
        assert await engine.runs.detail(run.run_id) == before
        assert await engine.runs.list_acts(run.run_id) == []


async def test_a_waiting_run_is_taken_back_and_waits_anew(url: str, world: World) -> None:
    @workflow(name="asks")
    async def asks(ctx: Context) -> list[str]:
        first = await ctx.step("a", world.do, "a")
        said = (await ctx.receive("answer")).payload
        last = (await ctx.receive("last")).payload
        return [first, said, last]

    async with Engine(url, workflows=[asks]) as engine:
        run = await engine.start(asks)
        await run.signal("answer", "one")
        await comes_to(engine, run, "waiting")
        await until(lambda: has_lines(engine, run, 2))
        await comes_to(engine, run, "waiting")

        await engine.repairs.rewind(run.run_id, "answer")

        await run.signal("last", "end")
        await comes_to(engine, run, "waiting")
        assert [entry.path for entry in await engine.runs.history(run.run_id)] == ["a"]
        await run.signal("answer", "two")
        assert await run.result("60s") == ["a 1", "two", "end"]


async def test_a_place_inside_a_loop_takes_back_the_whole_loop(url: str, world: World) -> None:
    async def body(ctx: Context, total: int) -> Continue[int] | Break[int]:
        await ctx.step("tick", world.do, f"tick {total}")
        return Continue(total + 1) if total < 4 else Break(total)

    @workflow(name="loops")
    async def loops(ctx: Context) -> int:
        await ctx.step("before", world.do, "before")
        found = await ctx.loop("rounds", body, 0)
        await ctx.step("after", step(world.do, retry=ONCE), "after")
        return found

    world.broken = {"after"}
    async with Engine(url, workflows=[loops]) as engine:
        run = await engine.start(loops)
        await fails(run)
        world.broken = set()

        plan = await engine.repairs.rewind(run.run_id, "rounds/~3/tick")

        assert plan.kept == ("before",)
        assert await run.result("60s") == 4
        assert world.calls == {"before": 1, "after": 2, **{f"tick {n}": 2 for n in range(5)}}


async def test_a_loop_that_stopped_half_way_begins_at_its_first_iteration(url: str, world: World) -> None:
    tick = step(world.do, name="tick", retry=ONCE)

    async def body(ctx: Context, total: int) -> Continue[int] | Break[int]:
        await ctx.step(tick, f"tick {total}")
        return Continue(total + 1) if total < 45 else Break(total)

    @workflow(name="trims")
    async def trims(ctx: Context) -> int:
        return await ctx.loop("rounds", body, 0, trim_every=5, keep=2)

    world.broken = {"tick 44"}
    async with Engine(url, workflows=[trims]) as engine:
        run = await engine.start(trims)
        await fails(run)
        assert (await engine.runs.detail(run.run_id)).history.cursors
        world.broken = set()

        await engine.repairs.rewind(run.run_id, "rounds/~43")

        assert await run.result("60s") == 45
        assert world.calls["tick 0"] == 2
        assert world.calls["tick 44"] == 2


async def test_a_call_of_a_child_that_is_taken_back_starts_another_child(url: str, world: World) -> None:
    @workflow(name="inner")
    async def inner(ctx: Context, name: str) -> str:
        return await ctx.step("work", world.do, name)

    @workflow(name="outer")
    async def outer(ctx: Context) -> list[str]:
        first = await ctx.child(inner, "first", key="the key")
        second = await ctx.child(inner, "second", name="second")
        await ctx.step("last", step(world.do, retry=ONCE), "last")
        return [first, second]

    world.broken = {"last"}
    async with Engine(url, workflows=[inner, outer]) as engine:
        run = await engine.start(outer)
        await fails(run)
        for _ in range(2):
            await engine.repairs.rewind(run.run_id, "inner")
            await fails(run)
        world.broken = set()

        await engine.repairs.rewind(run.run_id, "second")

        assert await run.result("60s") == ["first 3", "second 4"]
        children = (await engine.runs.detail(run.run_id)).children
        assert len(children) == 7
        assert len({child.run_id for child in children}) == 7


async def test_a_child_that_still_runs_is_cancelled_and_its_key_is_free(url: str, world: World) -> None:
    @workflow(name="waits")
    async def waits(ctx: Context) -> str:
        await ctx.step("work", step(world.do, compensate=world.do), "work")
        return (await ctx.receive("go")).payload

    @workflow(name="outer")
    async def outer(ctx: Context) -> str:
        await ctx.step("first", world.do, "first")
        return await ctx.child(waits, key="only one")

    async with Engine(url, workflows=[waits, outer]) as engine:
        run = await engine.start(outer)
        await comes_to(engine, run, "waiting")
        [old] = (await engine.runs.detail(run.run_id)).children
        await comes_to(engine, await engine.runs.handle(waits, old.run_id), "waiting")
        await comes_to(engine, run, "waiting")

        plan = await engine.repairs.rewind(run.run_id, "first")

        assert plan.cancelled == (old.run_id,)
        await until(lambda: has_children(engine, run, 2))
        new = next(one for one in (await engine.runs.detail(run.run_id)).children if one.run_id != old.run_id)
        await engine.signal(new.run_id, "go", "went")
        assert await run.result("60s") == "went"
        await comes_to(engine, await engine.runs.handle(waits, old.run_id), "cancelled")


async def test_what_could_be_undone_and_is_not_is_told(url: str, world: World) -> None:
    @workflow(name="pays")
    async def pays(ctx: Context) -> str:
        await ctx.step("pay", step(world.do, compensate=world.do), "pay")
        return (await ctx.receive("go")).payload

    async with Engine(url, workflows=[pays]) as engine:
        run = await engine.start(pays)
        await comes_to(engine, run, "waiting")

        plan = await engine.repairs.rewind(run.run_id, "pay", dry_run=True)

        assert plan.not_undone == ("pay",)
        assert any("its effect stays: pay" in line for line in plan.lines)


async def test_attempts_are_counted_on(url: str, world: World) -> None:
    async def tried(context: StepContext, name: str) -> int:
        world.attempts.append((name, context.attempt))
        return context.attempt

    @workflow(name="tries")
    async def tries(ctx: Context) -> int:
        number = await ctx.step("a", tried, "a")
        await ctx.receive("go")
        return number

    async with Engine(url, workflows=[tries]) as engine:
        run = await engine.start(tries)
        await comes_to(engine, run, "waiting")
        await engine.repairs.rewind(run.run_id, "a")
        await run.signal("go")
        assert await run.result("60s") == 2
        assert world.attempts == [("a", 1), ("a", 2)]


async def test_only_a_run_at_rest_is_taken_back(url: str, world: World) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    @workflow(name="holds")
    async def holds(ctx: Context) -> None:
        await ctx.step("a", world.do, "a")

        async def long() -> None:
            begun.set()
            await over.wait()

        await ctx.step("long", long)

    async with Engine(url, workflows=[holds]) as engine:
        run = await engine.start(holds)
        await begun.wait()
        with pytest.raises(RunHeldError, match="SW409") as refused:
            await engine.repairs.rewind(run.run_id, "a")
        assert "pause it first" in refused.value.fix
        over.set()
        await run.result("60s")
        with pytest.raises(InvalidMoveError) as ended:
            await engine.repairs.rewind(run.run_id, "a")
        assert "fork" in ended.value.fix
        with pytest.raises(NotFoundError, match="no run"):
            await engine.repairs.rewind("nobody", "a")


async def test_an_unknown_place_is_refused_with_what_is_near(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"c"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        with pytest.raises(NotFoundError, match="place"):
            await engine.repairs.rewind(run.run_id, "nowhere")
