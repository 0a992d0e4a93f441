"""Acts of operators on what failed or waits: an effect is marked as undone, and a wait for the next attempt ends."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.errors import InvalidMoveError, InvalidOptionError, NotFoundError, RollbackIncomplete
from tests.engine.repairs.scene import ONCE, SLOW, World, comes_to, fails, until, waits_at


def saga(world: World) -> Any:
    """Two steps that are undone one after the other, and one that fails."""

    def undo(name: str) -> Any:
        async def compensate(*_: Any) -> None:
            await world.do(f"undo {name}")

        return compensate

    @workflow(name="saga")
    async def flow(ctx: Context) -> None:
        for name in ("a", "b"):
            await ctx.step(name, step(world.do, compensate=step(undo(name), retry=ONCE)), name)
        await ctx.step("c", step(world.do, retry=ONCE), "c")

    return flow


async def test_an_effect_that_a_person_has_undone_is_not_undone_again(url: str, world: World) -> None:
    world.broken = {"c", "undo b"}
    async with Engine(url, workflows=[saga(world)]) as engine:
        run = await engine.start(saga(world).name, key="k")
        with pytest.raises(RollbackIncomplete):
            await run.result("60s")

        assert await engine.repairs.mark_undone("k", "b", reason="refunded by hand", by="ann")

        await comes_to(engine, run, "compensated")
        assert (world.calls["undo a"], world.calls["undo b"]) == (1, 1)
        undone = {entry.path: entry.is_undone for entry in await engine.runs.history(run.run_id) if entry.can_undo}
        assert undone == {"a": True, "b": True}
        [act] = await engine.runs.list_acts(run.run_id)
        assert (act.verb, act.by, act.before, act.after, act.reason) == (
            "mark_undone",
            "ann",
            "compensation_failed",
            "compensating",
            "refunded by hand",
        )
        assert not await engine.repairs.mark_undone("k", "a", reason="twice")


async def test_a_mark_for_another_step_leaves_the_failed_undo_to_be_repeated(url: str, world: World) -> None:
    world.broken = {"c", "undo b"}
    async with Engine(url, workflows=[saga(world)]) as engine:
        run = await engine.start(saga(world).name)
        with pytest.raises(RollbackIncomplete):
            await run.result("60s")
        world.broken = set()

        assert await engine.repairs.mark_undone(run.run_id, "a", reason="it was never there")

        await comes_to(engine, run, "compensated")
        assert (world.calls["undo a"], world.calls["undo b"]) == (0, 2)


async def test_a_mark_names_what_is_left_to_undo(url: str, world: World) -> None:
    world.broken = {"c", "undo a"}
    async with Engine(url, workflows=[saga(world)]) as engine:
        run = await engine.start(saga(world).name)
        with pytest.raises(RollbackIncomplete):
            await run.result("60s")

        with pytest.raises(InvalidMoveError, match="undone already") as undone:
            await engine.repairs.mark_undone(run.run_id, "b", reason="why")
        assert undone.value.fix == "name a step that is left to undo: a"
        with pytest.raises(InvalidMoveError, match="not a step that this rollback undoes"):
            await engine.repairs.mark_undone(run.run_id, "c", reason="why")
        with pytest.raises(NotFoundError):
            await engine.repairs.mark_undone(run.run_id, "x", reason="why")
        with pytest.raises(InvalidOptionError, match="without a reason"):
            await engine.repairs.mark_undone(run.run_id, "a", reason=" ")
        assert (await run.status()).status == "compensation_failed"


async def test_a_step_that_waits_for_its_next_attempt_is_retried_now(url: str, world: World) -> None:
    body = step(world.do, retry=SLOW)

    @workflow(name="slow")
    async def flow(ctx: Context) -> str:
        return await ctx.step("load", body, "load")

    world.broken = {"load"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await until(lambda: waits_at(engine, run, "load"))
        await comes_to(engine, run, "waiting")
        world.broken = set()

        assert await engine.repairs.retry(run.run_id, by="ann")

        assert await run.result("60s") == "load 2"
        assert [(act.verb, act.by, act.before) for act in await engine.runs.list_acts(run.run_id)] == [
            ("retry", "ann", "waiting")
        ]


async def test_a_retry_ends_no_other_wait(url: str, world: World) -> None:
    @workflow(name="waits")
    async def flow(ctx: Context) -> str:
        message = await ctx.receive("go", timeout="30d")
        return str(message.payload)

    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await comes_to(engine, run, "waiting")

        assert not await engine.repairs.retry(run.run_id)

        assert await waits_at(engine, run, "go")
        assert await engine.runs.list_acts(run.run_id) == []


async def test_a_fork_takes_another_version(url: str, world: World) -> None:
    once = step(world.do, retry=ONCE)

    @workflow(name="order", version=1)
    async def first(ctx: Context) -> list[str]:
        return [await ctx.step("a", once, "a"), await ctx.step("b", once, "b")]

    @workflow(name="order", version=2)
    async def second(ctx: Context) -> list[str]:
        return [await ctx.step("a", once, "a"), await ctx.step("c", once, "c")]

    @workflow(name="order", version=3)
    async def third(ctx: Context) -> list[str]:
        return [await ctx.step("x", once, "x")]

    world.broken = {"b"}
    async with Engine(url, workflows=[first, second, third]) as engine:
        run = await engine.start(first)
        await fails(run)
        plan = await engine.repairs.fork(run.run_id, "b", version=2)
        assert plan.fork_id is not None
        assert (plan.version, plan.new_version, plan.warnings) == (1, 2, ())
        assert await engine.result(plan.fork_id, timeout="60s") == ["a 1", "c 1"]
        view = await engine.status(plan.fork_id)
        assert view is not None
        assert (view.version, view.forked_from) == (2, run.run_id)

        misfit = await engine.repairs.fork(run.run_id, "b", version="new", dry_run=True)
        assert misfit.new_version == 3
        assert misfit.warnings[0].startswith("the new run would be paused: SW2")
        for wrong in (0, True, "3"):
            with pytest.raises(InvalidOptionError, match="version is"):
                await engine.repairs.fork(run.run_id, "b", version=wrong)  # type: ignore[arg-type]
