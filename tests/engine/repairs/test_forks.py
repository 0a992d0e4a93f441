"""Forks: a new run begins with what another one recorded, with and without encryption."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Engine, RunFailed, done, signal, step, topic, workflow
from stepwell.codec import JsonCodec
from stepwell.codec.base import Codec
from stepwell.codec.encryption import Encrypted, Keys
from stepwell.errors import AlreadyExistsError, InvalidMoveError, NotFoundError
from stepwell.replay.primitives.loop import Break, Continue
from tests.engine.repairs.scene import ONCE, World, comes_to, three


@pytest.fixture(params=["plain", "encrypted"])
def codec(request: pytest.FixtureRequest) -> Codec:
    return JsonCodec() if request.param == "plain" else Encrypted(JsonCodec(), keys=Keys("k", {"k": bytes(range(32))}))


async def test_a_fork_keeps_what_is_before_the_place_and_leaves_the_other_run_alone(
    url: str, codec: Codec, world: World
) -> None:
    flow = three(world)
    async with Engine(url, workflows=[flow], codec=codec) as engine:
        run = await engine.start(flow, key="k", tags={"team": "shop"})
        assert await run.result("60s") == ["a 1", "b 1", "c 1"]
        before = await engine.runs.detail(run.run_id)

        plan = await engine.repairs.fork(run.run_id, "b", key="again", by="ann", reason="once more")

        assert (plan.kept, plan.dropped, plan.is_applied) == (("a",), ("b", "c"), True)
        assert plan.fork_id is not None
        assert await engine.result(plan.fork_id, timeout="60s") == ["a 1", "b 2", "c 2"]
        view = await engine.status("again")
        assert view is not None
        assert (view.run_id, view.forked_from, view.tags) == (plan.fork_id, run.run_id, {"team": "shop"})
        assert await engine.runs.detail(run.run_id) == before
        acts = [await engine.runs.list_acts(one) for one in (run.run_id, plan.fork_id)]
        assert [[(act.verb, act.by, act.reason) for act in each] for each in acts] == [
            [("fork", "ann", "once more")],
            [("forked", "ann", "once more")],
        ]


async def test_every_kind_of_record_is_copied(url: str, codec: Codec, world: World) -> None:
    @workflow(name="inner")
    async def inner(ctx: Context, name: str) -> str:
        return f"child {name}"

    async def body(ctx: Context, total: int) -> Continue[int] | Break[int]:
        await ctx.step("tick", world.do, "tick")
        return Continue(total + 1) if total < 2 else Break(total)

    async def item(ctx: Context, one: int) -> int:
        return one * 2

    def branch(name: str) -> Any:
        async def run(ctx: Context) -> str:
            return await ctx.step("x", world.do, name)

        return run

    @workflow(name="every")
    async def every(ctx: Context, given: str) -> list[Any]:
        found: list[Any] = [given, await ctx.once("once", lambda: "made once")]
        found.append(await ctx.step("paid", step(world.do, compensate=world.do), "paid"))
        found.append([one.payload for one in [await ctx.receive("first")]])
        found.append([one.payload for one in await ctx.receive_many("many", count=2)])
        found.append(await ctx.topic("news", since="all"))
        found.append((await ctx.wait_any("any", second=signal("second"))).value.payload)
        found.append((await ctx.wait_any("event", other=topic("other", since="all"))).value)
        found.append((await ctx.wait_any("ended", child=done(ctx.child(inner, "x", name="x")))).value.value)
        found.append(await ctx.child(inner, "y"))
        found.append(await ctx.join("both", {"p": branch("p"), "q": branch("q")}))
        found.append((await ctx.race("one", {"r": branch("r")})).value)
        found.append(await ctx.loop("rounds", body, 0))
        found.append(await ctx.map("double", item, [1, 2]))
        await ctx.sleep("nap", "1ms")
        found.append(ctx.version("gate", 2))
        await ctx.step("last", world.do, "last")
        return found

    async with Engine(url, workflows=[every, inner], codec=codec) as engine:
        await engine.publish("news", {"n": 1}, retain=True)
        await engine.publish("other", {"n": 2}, retain=True)
        run = await engine.start(every, "input")
        for name in ("first", "many", "second"):
            await run.signal(name, f"sent {name}")
        expected = await run.result("60s")

        plan = await engine.repairs.fork(run.run_id, "last")

        assert plan.fork_id is not None
        assert await engine.result(plan.fork_id, timeout="60s") == expected
        assert world.calls["last"] == 2
        assert {name: count for name, count in world.calls.items() if name != "last" and count > 1} == {"tick": 3}


async def test_what_was_undone_is_done_again_in_a_fork(url: str, codec: Codec, world: World) -> None:
    async def undo(name: str) -> None:
        world.calls[f"undo {name}"] += 1

    @workflow(name="saga")
    async def saga(ctx: Context) -> str:
        await ctx.step("kept", world.do, "kept")
        await ctx.step("paid", step(world.do, compensate=undo), "paid")
        await ctx.step("also", world.do, "also")
        return await ctx.step("sent", step(world.do, retry=ONCE), "sent")

    world.broken = {"sent"}
    async with Engine(url, workflows=[saga], codec=codec) as engine:
        run = await engine.start(saga)
        with pytest.raises(RunFailed):
            await run.result("60s")
        assert (await run.status()).status == "compensated"
        with pytest.raises(InvalidMoveError) as refused:
            await engine.repairs.redrive(run.run_id)
        assert "engine.repairs.fork(" in refused.value.fix
        world.broken = set()

        plan = await engine.repairs.fork(run.run_id, "sent")

        assert (plan.kept, plan.undone) == (("kept", "also"), ("paid",))
        assert plan.fork_id is not None
        assert await engine.result(plan.fork_id, timeout="60s") == "sent 2"
        assert world.calls == {"kept": 1, "paid": 2, "also": 1, "sent": 2, "undo paid": 1}


async def test_a_fork_has_the_input_that_it_is_given(url: str, codec: Codec, world: World) -> None:
    @workflow(name="echoes")
    async def echoes(ctx: Context, text: str) -> str:
        return await ctx.step("say", world.do, text)

    async with Engine(url, workflows=[echoes], codec=codec) as engine:
        run = await engine.start(echoes, "one")
        await run.result("60s")
        plan = await engine.repairs.fork(run.run_id, "/", input="two", run_id="my-own-id")
        assert (plan.fork_id, plan.kept, plan.warnings) == ("my-own-id", (), ())
        assert await engine.result("my-own-id", timeout="60s") == "two 1"


async def test_a_child_that_goes_on_by_itself_cannot_be_copied(url: str, world: World) -> None:
    @workflow(name="waits")
    async def waits(ctx: Context) -> None:
        await ctx.receive("go")

    @workflow(name="parent")
    async def parent(ctx: Context) -> None:
        await ctx.spawn(waits)
        await ctx.step("after", world.do, "after")
        await ctx.receive("end")

    async with Engine(url, workflows=[waits, parent]) as engine:
        run = await engine.start(parent)
        await comes_to(engine, run, "waiting")
        with pytest.raises(InvalidMoveError, match="cannot be copied"):
            await engine.repairs.fork(run.run_id, "after")
        plan = await engine.repairs.fork(run.run_id, "waits", dry_run=True)
        assert not plan.is_applied


async def test_a_taken_key_and_an_unknown_place_make_no_fork(url: str, world: World) -> None:
    flow = three(world)
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await run.result("60s")
        await engine.start(flow, key="taken", delay="1h")
        with pytest.raises(AlreadyExistsError):
            await engine.repairs.fork(run.run_id, "b", key="taken")
        with pytest.raises(NotFoundError):
            await engine.repairs.fork(run.run_id, "nowhere")
