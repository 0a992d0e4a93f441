"""Supplying a result: of a step that failed, of one to be tried again, of a wait."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.errors import (
    InvalidInputError,
    InvalidMoveError,
    InvalidOptionError,
    NotFoundError,
)
from tests.engine.repairs.scene import (
    ONCE,
    SLOW,
    World,
    comes_to,
    fails,
    three,
    until,
    waits_at,
)


async def test_a_failed_step_is_skipped_with_a_result(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)

        plan = await engine.repairs.skip(run.run_id, "b", "given", by="ann")

        assert (plan.kept, plan.supplied, plan.dropped) == (("a",), ("b",), ())
        assert await run.result("60s") == ["a 1", "given", "c 1"]
        assert world.calls == {"a": 1, "b": 1, "c": 1}
        assert [act.verb for act in await engine.runs.list_acts(run.run_id)] == ["skip"]


async def test_a_result_of_another_type_is_refused(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        with pytest.raises(InvalidInputError):
            await engine.repairs.skip(run.run_id, "b", ["no", "text"])
        assert (await run.status()).status == "failed"


async def test_a_step_that_is_to_be_tried_again_is_skipped(url: str, world: World) -> None:
    @workflow(name="patient")
    async def patient(ctx: Context) -> list[str]:
        return [await ctx.step("a", step(world.do, retry=SLOW), "a"), await ctx.step("b", world.do, "b")]

    world.broken = {"a"}
    async with Engine(url, workflows=[patient]) as engine:
        run = await engine.start(patient)
        await comes_to(engine, run, "waiting")

        await engine.repairs.skip(run.run_id, "a", "given")

        assert await run.result("60s") == ["given", "b 1"]


async def test_waits_are_skipped_with_what_they_wait_for(url: str, world: World) -> None:
    @workflow(name="inner")
    async def inner(ctx: Context) -> str:
        return (await ctx.receive("never")).payload

    @workflow(name="waits")
    async def waits(ctx: Context) -> list[Any]:
        await ctx.sleep("night", "8h")
        answer = (await ctx.receive("answer")).payload
        many = [message.payload for message in await ctx.receive_many("many", count=3)]
        event = await ctx.topic("news")
        child = await ctx.child(inner)
        return [answer, many, event, child]

    async with Engine(url, workflows=[waits, inner]) as engine:
        run = await engine.start(waits)
        given = {"night": None, "answer": 42, "many": "one", "news": {"n": 1}, "inner": "child"}
        for path, result in given.items():
            await until(partial(waits_at, engine, run, path))
            await comes_to(engine, run, "waiting")
            with pytest.raises(NotFoundError):
                await engine.repairs.skip(run.run_id, "elsewhere", result)
            await engine.repairs.skip(run.run_id, path, result)
        assert await run.result("60s") == [42, ["one"], {"n": 1}, "child"]
        [child] = (await engine.runs.detail(run.run_id)).children
        await comes_to(engine, await engine.runs.handle(inner, child.run_id), "cancelled")


async def test_one_of_many_things_that_are_waited_for_cannot_be_skipped(url: str, world: World) -> None:
    from stepwell import signal, timer

    @workflow(name="either")
    async def either(ctx: Context) -> str:
        return (await ctx.wait_any("first", answer=signal("answer"), late=timer("1h"))).label

    async with Engine(url, workflows=[either]) as engine:
        run = await engine.start(either)
        await comes_to(engine, run, "waiting")
        # A database in memory has no other engine.
        async with nullcontext(engine) if url.startswith("memory") else Engine(url, workflows=[]) as client:
            for path in ("first/late", "first"):
                with pytest.raises((InvalidMoveError, NotFoundError)):
                    await client.repairs.skip(run.run_id, path)
        with pytest.raises(InvalidMoveError):
            await engine.repairs.skip(run.run_id, "first/late")
        await run.signal("answer")
        assert await run.result("60s") == "answer"


async def test_a_timer_takes_no_result_and_what_is_recorded_is_not_skipped(url: str, world: World) -> None:
    @workflow(name="sleeps")
    async def sleeps(ctx: Context) -> str:
        await ctx.step("a", world.do, "a")
        await ctx.sleep("night", "8h")
        return "up"

    async with Engine(url, workflows=[sleeps]) as engine:
        run = await engine.start(sleeps)
        await comes_to(engine, run, "waiting")
        with pytest.raises(InvalidOptionError, match="no result"):
            await engine.repairs.skip(run.run_id, "night", 1)
        with pytest.raises(InvalidMoveError, match="already has its result"):
            await engine.repairs.skip(run.run_id, "a", "b")
        await engine.repairs.skip(run.run_id, "night")
        assert await run.result("60s") == "up"


async def test_a_skipped_branch_lets_the_others_be_tried_again(url: str, world: World) -> None:
    body = step(world.do, name="do", retry=ONCE)

    @workflow(name="joined")
    async def joined(ctx: Context) -> list[str]:
        def branch(name: str) -> Any:
            async def run(inner: Context) -> str:
                return await inner.step(body, name)

            return run

        return sorted((await ctx.join("both", {"x": branch("x"), "y": branch("y")}, on_error="wait_all")).values())

    world.broken = {"x", "y"}
    async with Engine(url, workflows=[joined]) as engine:
        run = await engine.start(joined)
        await fails(run)
        world.broken = set()
        await engine.repairs.skip(run.run_id, "both/x/do", "given")
        assert await run.result("60s") == ["given", "y 2"]


async def test_a_skipped_step_has_used_what_the_code_had_seen(url: str, world: World) -> None:
    """As if the step had been done: what was seen is used, and what came later is for whoever reads it next."""

    @workflow(name="looks")
    async def looks(ctx: Context) -> list[str]:
        await ctx.receive("begin")
        seen = ctx.signals.latest("note")
        handled = await ctx.step("handle", step(world.do, retry=ONCE), "a")
        later = await ctx.receive("note")
        return [seen.payload if seen else "nothing", handled, later.payload]

    world.broken = {"a"}
    async with Engine(url, workflows=[looks]) as engine:
        run = await engine.start(looks)
        await run.signal("note", "first")
        await run.signal("begin")
        await fails(run)

        await engine.repairs.skip(run.run_id, "handle", "given")
        await run.signal("note", "second")

        assert await run.result("60s") == ["first", "given", "second"]
        assert (await engine.runs.detail(run.run_id)).signals == ()
