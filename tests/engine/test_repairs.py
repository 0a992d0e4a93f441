"""Repairs through the engine: what is done again, what is not, and what is refused. On every store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from stepwell import Break, Context, Continue, Engine, Retry, RunFailed, StepContext, step, workflow
from stepwell.engine.handles import Handle
from stepwell.engine.views import wait_views
from stepwell.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidMoveError,
    InvalidOptionError,
    NotFoundError,
    RepairConflictError,
    RunHeldError,
    StoreUnavailableError,
)
from stepwell.model.amendments import Amended, Amendment

ONCE = Retry(max_attempts=1)
SLOW = Retry(max_attempts=3, initial="1h", max_delay="1h")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/repair.db"


class World:
    """Outside of the workflows: it counts what was done to it, and may be out of order."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.attempts: list[tuple[str, int]] = []
        self.broken: set[str] = set()

    async def do(self, name: str) -> str:
        self.calls[name] += 1
        if name in self.broken:
            raise OSError(f"{name} is down")
        return f"{name} {self.calls[name]}"


@pytest.fixture
def world() -> World:
    return World()


async def fails(run: Handle[Any]) -> None:
    with pytest.raises(RunFailed):
        await run.result("10s")


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1_000):
        if await holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


async def comes_to(engine: Engine, run: Handle[Any], status: str) -> None:
    for _ in range(500):
        if (await run.status()).status == status:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it is {(await run.status()).status}, not {status}: {await engine.explain(run.run_id)}")


async def waits_at(engine: Engine, run: Handle[Any], path: str) -> bool:
    return path in {wait.path for wait in wait_views(await engine.detail(run.run_id))}


async def has_lines(engine: Engine, run: Handle[Any], count: int) -> bool:
    return len(await engine.history(run.run_id)) >= count


async def has_children(engine: Engine, run: Handle[Any], count: int) -> bool:
    return len((await engine.detail(run.run_id)).children) >= count


def three(world: World) -> Any:
    body = step(world.do, name="do", retry=ONCE)

    @workflow(name="three")
    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step(name, body, name) for name in ("a", "b", "c")]

    return flow


# --- rewind ---


async def test_what_is_before_the_place_is_kept_and_the_rest_is_done_again(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"c"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        world.broken = set()

        plan = await engine.rewind(run.run_id, "b", by="ann", reason="b was wrong")

        assert (plan.kept, plan.dropped, plan.is_applied) == (("a",), ("b", "c"), True)
        assert await run.result("10s") == ["a 1", "b 2", "c 2"]
        assert world.calls == {"a": 1, "b": 2, "c": 2}
        acts = await engine.list_acts(run.run_id)
        assert [(act.verb, act.by, act.before, act.after, act.reason) for act in acts] == [
            ("rewind", "ann", "failed", "pending", "b was wrong")
        ]


async def test_a_dry_run_changes_nothing_and_says_the_same(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"c"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        before = await engine.detail(run.run_id)

        plan = await engine.rewind(run.run_id, "b", dry_run=True)

        assert (plan.kept, plan.dropped, plan.is_applied) == (("a",), ("b", "c"), False)
        assert await engine.detail(run.run_id) == before
        assert await engine.list_acts(run.run_id) == []


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

        await engine.rewind(run.run_id, "answer")

        await run.signal("last", "end")
        await comes_to(engine, run, "waiting")
        assert [entry.path for entry in await engine.history(run.run_id)] == ["a"]
        await run.signal("answer", "two")
        assert await run.result("10s") == ["a 1", "two", "end"]


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

        plan = await engine.rewind(run.run_id, "rounds/~3/tick")

        assert plan.kept == ("before",)
        assert await run.result("10s") == 4
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
        assert (await engine.detail(run.run_id)).history.cursors
        world.broken = set()

        await engine.rewind(run.run_id, "rounds/~43")

        assert await run.result("10s") == 45
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
            await engine.rewind(run.run_id, "inner")
            await fails(run)
        world.broken = set()

        await engine.rewind(run.run_id, "second")

        assert await run.result("10s") == ["first 3", "second 4"]
        children = (await engine.detail(run.run_id)).children
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
        [old] = (await engine.detail(run.run_id)).children
        await comes_to(engine, await engine.handle(waits, old.run_id), "waiting")
        await comes_to(engine, run, "waiting")

        plan = await engine.rewind(run.run_id, "first")

        assert plan.cancelled == (old.run_id,)
        await until(lambda: has_children(engine, run, 2))
        new = next(one for one in (await engine.detail(run.run_id)).children if one.run_id != old.run_id)
        await engine.signal(new.run_id, "go", "went")
        assert await run.result("10s") == "went"
        await comes_to(engine, await engine.handle(waits, old.run_id), "cancelled")


async def test_what_could_be_undone_and_is_not_is_told(url: str, world: World) -> None:
    @workflow(name="pays")
    async def pays(ctx: Context) -> str:
        await ctx.step("pay", step(world.do, compensate=world.do), "pay")
        return (await ctx.receive("go")).payload

    async with Engine(url, workflows=[pays]) as engine:
        run = await engine.start(pays)
        await comes_to(engine, run, "waiting")

        plan = await engine.rewind(run.run_id, "pay", dry_run=True)

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
        await engine.rewind(run.run_id, "a")
        await run.signal("go")
        assert await run.result("10s") == 2
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
            await engine.rewind(run.run_id, "a")
        assert "pause it first" in refused.value.fix
        over.set()
        await run.result("10s")
        with pytest.raises(InvalidMoveError) as ended:
            await engine.rewind(run.run_id, "a")
        assert "fork" in ended.value.fix
        with pytest.raises(NotFoundError, match="no run"):
            await engine.rewind("nobody", "a")


async def test_an_unknown_place_is_refused_with_what_is_near(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"c"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        with pytest.raises(NotFoundError, match="place"):
            await engine.rewind(run.run_id, "nowhere")


# --- skip ---


async def test_a_failed_step_is_skipped_with_a_result(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)

        plan = await engine.skip(run.run_id, "b", "given", by="ann")

        assert (plan.kept, plan.supplied, plan.dropped) == (("a",), ("b",), ())
        assert await run.result("10s") == ["a 1", "given", "c 1"]
        assert world.calls == {"a": 1, "b": 1, "c": 1}
        assert [act.verb for act in await engine.list_acts(run.run_id)] == ["skip"]


async def test_a_result_of_another_type_is_refused(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        with pytest.raises(InvalidInputError):
            await engine.skip(run.run_id, "b", ["no", "text"])
        assert (await run.status()).status == "failed"


async def test_a_step_that_is_to_be_tried_again_is_skipped(url: str, world: World) -> None:
    @workflow(name="patient")
    async def patient(ctx: Context) -> list[str]:
        return [await ctx.step("a", step(world.do, retry=SLOW), "a"), await ctx.step("b", world.do, "b")]

    world.broken = {"a"}
    async with Engine(url, workflows=[patient]) as engine:
        run = await engine.start(patient)
        await comes_to(engine, run, "waiting")

        await engine.skip(run.run_id, "a", "given")

        assert await run.result("10s") == ["given", "b 1"]


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
                await engine.skip(run.run_id, "elsewhere", result)
            await engine.skip(run.run_id, path, result)
        assert await run.result("10s") == [42, ["one"], {"n": 1}, "child"]
        [child] = (await engine.detail(run.run_id)).children
        await comes_to(engine, await engine.handle(inner, child.run_id), "cancelled")


async def test_one_of_many_things_that_are_waited_for_cannot_be_skipped(url: str, world: World) -> None:
    from stepwell import signal, timer

    @workflow(name="either")
    async def either(ctx: Context) -> str:
        return (await ctx.wait_any("first", answer=signal("answer"), late=timer("1h"))).label

    async with Engine(url, workflows=[either]) as engine:
        run = await engine.start(either)
        await comes_to(engine, run, "waiting")
        async with Engine(url, workflows=[]) if not url.startswith("memory") else engine as client:
            for path in ("first/late", "first"):
                with pytest.raises((InvalidMoveError, NotFoundError)):
                    await client.skip(run.run_id, path)
        with pytest.raises(InvalidMoveError):
            await engine.skip(run.run_id, "first/late")
        await run.signal("answer")
        assert await run.result("10s") == "answer"


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
            await engine.skip(run.run_id, "night", 1)
        with pytest.raises(InvalidMoveError, match="has its result already"):
            await engine.skip(run.run_id, "a", "b")
        await engine.skip(run.run_id, "night")
        assert await run.result("10s") == "up"


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
        await engine.skip(run.run_id, "both/x/do", "given")
        assert await run.result("10s") == ["given", "y 2"]


# --- redrive ---


async def test_a_failed_run_goes_on_from_its_failure(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        world.broken = set()
        plan = await engine.redrive(run.run_id)
        assert (plan.kept, plan.dropped) == (("a",), ("b",))
        assert await run.result("10s") == ["a 1", "b 2", "c 1"]
        with pytest.raises(InvalidMoveError):
            await engine.redrive(run.run_id)


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
        plan = await engine.redrive(run.run_id)
        assert len(plan.retried) == 1
        assert await run.result("10s") == "x 2"
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
            await engine.redrive(run.run_id, version="new", input=[1])
        plan = await engine.redrive(run.run_id, version="new", input="good")
        assert (plan.version, plan.new_version, plan.has_new_input, plan.warnings) == (1, 2, True, ())
        assert await engine.result(run.run_id, timeout="10s") == "new good 1"
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
        kept = await engine.redrive(run.run_id, input="good", dry_run=True)
        assert any("old input" in warning for warning in kept.warnings)
        plan = await engine.redrive(run.run_id, input="good", start="/")
        assert (plan.kept, plan.warnings) == ((), ())
        assert await run.result("10s") == "good 1"
        assert world.calls["first"] == 2


async def test_a_redrive_may_skip_what_failed(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        plan = await engine.redrive(run.run_id, start="a", skip="a", result="given")
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
            await engine.rewind(run.run_id, "a")


# --- conflicts and lost answers ---


class Between:
    """What happens between an engine and its store when a repair is asked for."""

    def __init__(self, engine: Engine, *, stale: int = 0, lost: int = 0) -> None:
        self._engine, self._stale, self._lost = engine, stale, lost
        self.asked: list[Amendment] = []
        self._amend = engine._store.runs.amend
        engine._store.runs.amend = self.amend  # type: ignore[method-assign]

    async def amend(self, amendment: Amendment) -> Amended:
        self.asked.append(amendment)
        if self._stale > 0:
            self._stale -= 1
            return Amended.STALE
        answer = await self._amend(amendment)
        if self._lost > 0:
            self._lost -= 1
            raise StoreUnavailableError("the answer was lost")
        return answer


async def test_a_run_that_changed_meanwhile_is_planned_anew_a_few_times(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        between = Between(engine, stale=2)
        assert (await engine.rewind(run.run_id, "b")).is_applied
        assert len({one.amendment_id for one in between.asked}) == 3
        await fails(run)
        Between(engine, stale=99)
        with pytest.raises(RepairConflictError, match="SW410"):
            await engine.rewind(run.run_id, "b")
        assert (await run.status()).status == "failed"


async def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(url: str, world: World) -> None:
    flow = three(world)
    world.broken = {"b"}
    async with Engine(url, workflows=[flow]) as engine:
        run = await engine.start(flow)
        await fails(run)
        between = Between(engine, lost=2)

        assert (await engine.skip(run.run_id, "b", "given")).is_applied

        assert len(between.asked) == 3
        assert len(set(between.asked)) == 1
        assert await run.result("10s") == ["a 1", "given", "c 1"]
        assert [act.verb for act in await engine.list_acts(run.run_id)] == ["skip"]
