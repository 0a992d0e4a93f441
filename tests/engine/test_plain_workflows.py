"""`def` workflows: no thread while they wait, their values untouched, and misuse refused with the fix."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from stepwell import (
    Context,
    Engine,
    JoinError,
    RunFailed,
    RunPaused,
    SyncContext,
    SyncEngine,
    WorkerSettings,
    step,
    workflow,
)
from stepwell.environment import LockstepThreads, system_environment
from stepwell.errors import InvalidOptionError, NonDeterministicError
from stepwell.replay.suspend import Suspend

Log = list[str]


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


async def fill(name: str) -> Basket:
    return Basket([name])


async def double(number: int) -> int:
    return number * 2


def triple(number: int) -> int:
    return number * 3


def few_threads(threads_max: int) -> Any:
    environment = system_environment()
    environment.executor.lockstep_threads = LockstepThreads(threads_max)
    return environment


async def until_waiting(engine: Engine) -> None:
    while {view.status for view in await engine.runs.list(limit=1_000)} != {"waiting"}:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("body", [double, triple])
async def test_a_thousand_waiting_runs_need_few_threads(body: Any):
    @workflow
    def flow(ctx: SyncContext, number: int) -> int:
        first: int = ctx.step("work", body, number)
        return first + int(ctx.receive("go").payload)

    before = threading.active_count()
    async with Engine("memory:", workflows=[flow], settings=WorkerSettings(runs_max=2_000)) as engine:
        runs = [await engine.start(flow, number) for number in range(1_000)]
        await until_waiting(engine)
        await asyncio.sleep(0.7)  # the threads of plain step bodies are let go when nothing was called for a while

        assert threading.active_count() - before <= 10

        for run in runs:
            await run.signal("go", 1)
        factor = 2 if body is double else 3
        assert [await run.result("60s") for run in runs] == [number * factor + 1 for number in range(1_000)]
        assert threading.active_count() - before <= 10


@pytest.mark.parametrize("threads_max", [1, 2, 50])
async def test_any_number_of_threads_gives_the_same_result(threads_max: int):
    def item(ctx: SyncContext, number: int) -> list[Any]:
        drawn = [ctx.random(), ctx.random()]
        ctx.sleep("pause", "20ms")
        kept = [ctx.once(f"drawn {value}", partial(float, value)) for value in drawn]
        return [ctx.step(double, number), kept == drawn]

    @workflow
    def flow(ctx: SyncContext) -> list[Any]:
        started = ctx.now()
        joined = ctx.join("both", {"a": lambda c: c.map("inner", item, range(5)), "b": lambda c: c.step(double, 4)})
        return [joined["a"], joined["b"], ctx.map("outer", item, range(20), limit=7), started == ctx.started_at]

    async with Engine("memory:", workflows=[flow], environment=few_threads(threads_max)) as engine:
        runs = [await engine.start(flow) for _ in range(5)]

        results = [await run.result("60s") for run in runs]

    expected = [[number * 2, True] for number in range(20)]
    assert results == [[expected[:5], 8, expected, True]] * 5


async def test_what_the_function_changes_in_a_value_is_not_there_when_it_is_told_it_again():
    @workflow
    def flow(ctx: SyncContext, given: Basket) -> list[list[str]]:
        given.items.append("by the function")
        basket = ctx.step(fill, "first")
        basket.items.append("by the function")
        ctx.join("crowd", {"a": lambda c: c.sleep("a", "10ms"), "b": lambda c: c.sleep("b", "20ms")})
        ctx.receive("go")
        return [given.items, basket.items]

    async with Engine("memory:", workflows=[flow], environment=few_threads(1)) as engine:
        run = await engine.start(flow, Basket(["given"]))
        await asyncio.sleep(0.1)
        await run.signal("go")

        assert await run.result("60s") == [["given", "by the function"], ["first", "by the function"]]


async def test_the_items_of_a_map_are_not_changed_by_an_unwound_call():
    def item(ctx: SyncContext, basket: Basket) -> list[str]:
        basket.items.append("once")
        ctx.sleep("pause", "10ms")
        return basket.items

    @workflow
    def flow(ctx: SyncContext) -> list[list[str]]:
        return ctx.map("all", item, [Basket(), Basket(), Basket()])

    async with Engine("memory:", workflows=[flow], environment=few_threads(1)) as engine:
        assert await (await engine.start(flow)).result("60s") == [["once"]] * 3


async def test_finally_blocks_run_at_each_unwinding_and_record_nothing():
    log: Log = []

    @workflow
    def flow(ctx: SyncContext) -> str:
        try:
            ctx.receive("go")
        except Exception:
            log.append("except Exception")
            raise
        finally:
            log.append("finally")
            with contextlib.suppress(Suspend):
                log.append(str(ctx.step("clean up", double, 1)))
        return "done"

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)
        await until_waiting(engine)
        await asyncio.sleep(0.05)
        assert log == ["finally"]
        assert await engine.runs.history(run.run_id) == []
        await run.signal("go")

        assert await run.result("60s") == "done"
        assert log == ["finally", "finally", "2"]
        assert [entry.path for entry in await engine.runs.history(run.run_id)] == ["go", "clean up"]


async def test_a_blocking_client_serves_plain_workflows_too(tmp_path: Any):
    @step
    def charge(amount: int) -> int:
        return amount + 1

    @workflow
    def flow(ctx: SyncContext, amount: int) -> int:
        ctx.sleep("pause", "10ms")
        return ctx.step(charge, amount)

    def use() -> int:
        with SyncEngine(f"sqlite:///{tmp_path}/shop.db", workflows=[flow]) as engine:
            return engine.start(flow, 1).result("60s")

    assert await asyncio.to_thread(use) == 2


async def test_a_compensation_may_be_a_plain_function_with_operations():
    undone: Log = []

    async def take_back(amount: int) -> None:
        undone.append(f"took back {amount}")

    def undo(ctx: SyncContext, amount: int, result: int) -> None:
        ctx.sleep("cool-off", "10ms")
        ctx.step(take_back, amount + result)

    @workflow
    def flow(ctx: SyncContext) -> None:
        ctx.step(step(double, compensate=undo), 2)
        ctx.fail("no stock")

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)
        with pytest.raises(RunFailed, match="no stock"):
            await run.result("60s")

        assert undone == ["took back 6"]
        assert [entry.path for entry in await engine.runs.history(run.run_id)] == [
            "double",
            "double~undo/cool-off",
            "double~undo/take_back",
            "double~undo",
        ]


# --- misuse ---


async def test_a_blocking_engine_is_refused_in_the_code_of_a_workflow():
    engines: list[SyncEngine] = []

    @workflow
    def flow(ctx: SyncContext) -> str:
        return str(engines[0].status(ctx.run_id))

    def use() -> None:
        with SyncEngine("memory:", workflows=[flow]) as engine:
            engines.append(engine)
            engine.start(flow).result("60s")

    with pytest.raises(RunPaused, match="blocking engine was called") as paused:
        await asyncio.to_thread(use)
    assert "inside a step" in paused.value.fix


def test_a_context_of_the_other_kind_is_refused():
    with pytest.raises(InvalidOptionError, match="is a `def` and takes a Context") as refused:

        @workflow  # type: ignore[arg-type]
        def flow(ctx: Context) -> None:
            return None

    assert "SyncContext" in refused.value.fix
    assert "flow" in refused.value.where
    with pytest.raises(InvalidOptionError, match="is a `async def` and takes a SyncContext"):

        @workflow
        async def other(ctx: SyncContext) -> None:
            return None


def test_a_generator_is_no_workflow():
    with pytest.raises(InvalidOptionError, match="not a function that returns its result"):

        @workflow
        def flow(ctx: SyncContext) -> Any:
            yield 1


async def test_a_context_is_refused_in_another_thread():
    caught: list[BaseException] = []

    @workflow
    def flow(ctx: SyncContext) -> str:
        def use() -> None:
            try:
                ctx.step(double, 1)
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        return "went on"

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)

        assert await run.result("60s") == "went on"
        assert await engine.runs.history(run.run_id) == []
    assert isinstance(caught[0], NonDeterministicError)
    assert "start threads only inside steps" in caught[0].fix


async def test_a_branch_that_uses_the_outer_context_pauses_the_run_with_the_fix():
    @workflow
    def flow(ctx: SyncContext) -> Any:
        return ctx.join("both", {"a": lambda _: ctx.step(double, 1)})

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)

        with pytest.raises(RunPaused, match="outside the function that it belongs to"):
            await run.result("60s")


async def test_code_that_does_something_else_when_it_is_run_again_is_stopped():
    calls = 0

    @workflow
    def flow(ctx: SyncContext) -> int:
        nonlocal calls
        calls += 1
        first = ctx.step("first" if calls == 1 else "other", double, 1)
        return first + int(ctx.receive("go").payload)

    async with Engine("memory:", workflows=[flow]) as engine:
        run = await engine.start(flow)
        await until_waiting(engine)
        await run.signal("go", 1)

        with pytest.raises(RunPaused, match="step first before, step other now"):
            await run.result("60s")


async def test_an_async_branch_in_a_plain_workflow_is_refused():
    async def branch(ctx: Context) -> int:
        return 1

    @workflow
    def flow(ctx: SyncContext) -> Any:
        return ctx.join("both", {"a": branch})  # type: ignore[dict-item]

    async with Engine("memory:", workflows=[flow]) as engine:
        with pytest.raises(RunFailed, match="is not a plain function"):
            await (await engine.start(flow)).result("60s")


async def test_errors_of_operations_are_raised_in_the_function():
    def bad(ctx: SyncContext) -> None:
        raise ValueError("no")

    @workflow
    def flow(ctx: SyncContext) -> list[str]:
        found = []
        try:
            ctx.join("j", {"a": bad})
        except JoinError as error:
            found += list(error.errors)
        try:
            ctx.sleep("s", "-1s")
        except InvalidOptionError:
            found.append("refused")
        ctx.sleep("t", "10ms")
        return found

    async with Engine("memory:", workflows=[flow], environment=few_threads(1)) as engine:
        assert await (await engine.start(flow)).result("60s") == ["a", "refused"]
