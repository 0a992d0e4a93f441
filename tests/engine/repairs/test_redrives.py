"""Letting failed runs go on: from the failure, from elsewhere, with other code or another input."""

from __future__ import annotations

import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidMoveError,
)
from tests.engine.repairs.scene import (
    ONCE,
    World,
    fails,
    three,
)


async def test_a_failed_run_goes_on_from_its_failure(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        world.broken = set()
        plan = await engine.repairs.redrive(run.run_id)
        assert (plan.kept, plan.dropped) == (("a",), ("b",))
        assert await run.result("60s") == ["a 1", "b 2", "c 1"]
        with pytest.raises(InvalidMoveError):
            await engine.repairs.redrive(run.run_id)


async def test_a_redrive_reaches_a_failed_child(url: str, world: World) -> None:
    body = step(world.do, name="do", retry=ONCE)

    @workflow(name="inner")
    async def inner(ctx: Context) -> str:
        await ctx.step("first", world.do, "first")
        return await ctx.step(body, "x")

    @workflow(name="outer")
    async def outer(ctx: Context) -> str:
        return await ctx.child(inner)

    world.broken = {"x"}
    async with Engine(url, workflows=[inner, outer]) as engine:
        run = await engine.start(outer)
        await fails(run)
        world.broken = set()
        plan = await engine.repairs.redrive(run.run_id)
        assert len(plan.retried) == 1
        assert await run.result("60s") == "x 2"
        assert world.calls["first"] == 1


async def test_a_run_is_redriven_on_the_newest_version_with_another_input(url: str, world: World) -> None:
    body = step(world.do, name="do", retry=ONCE)

    @workflow(name="order", version=1)
    async def old(ctx: Context, name: str) -> str:
        return await ctx.step(body, name)

    @workflow(name="order", version=2)
    async def new(ctx: Context, name: str) -> str:
        return "new " + await ctx.step(body, name)

    world.broken = {"bad"}
    async with Engine(url, workflows=[old, new]) as engine:
        run = await engine.start(old, "bad")
        await fails(run)
        with pytest.raises(InvalidInputError):
            await engine.repairs.redrive(run.run_id, version="new", input=[1])
        plan = await engine.repairs.redrive(run.run_id, version="new", input="good")
        assert (plan.version, plan.new_version, plan.has_new_input, plan.warnings) == (1, 2, True, ())
        assert await engine.result(run.run_id, timeout="60s") == "new good 1"
        view = await run.status()
        assert (view.version, view.input) == (2, "good")


async def test_a_redrive_says_that_what_is_kept_was_done_with_the_old_input(url: str, world: World) -> None:
    @workflow(name="order")
    async def order(ctx: Context, name: str) -> str:
        await ctx.step("first", world.do, "first")
        return await ctx.step("second", step(world.do, retry=ONCE), name)

    world.broken = {"bad"}
    async with Engine(url, workflows=[order]) as engine:
        run = await engine.start(order, "bad")
        await fails(run)
        kept = await engine.repairs.redrive(run.run_id, input="good", dry_run=True)
        assert any("old input" in warning for warning in kept.warnings)
        plan = await engine.repairs.redrive(run.run_id, input="good", from_path="/")
        assert (plan.kept, plan.warnings) == ((), ())
        assert await run.result("60s") == "good 1"
        assert world.calls["first"] == 2


async def test_a_redrive_may_skip_what_failed(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        plan = await engine.repairs.redrive(run.run_id, from_path="a", skip="a", result="given")
        assert (plan.supplied, plan.dropped) == (("a",), ("b",))
        await fails(run)
        assert world.calls == {"a": 1, "b": 2}


async def test_a_key_that_another_run_has_is_not_taken_back(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow, key="k")
        await fails(run)
        other = await engine.start(flow, key="k", delay="1h", dedup=0)
        assert other.is_new
        with pytest.raises(AlreadyExistsError):
            await engine.repairs.rewind(run.run_id, "a")
