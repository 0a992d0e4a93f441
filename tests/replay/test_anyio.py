"""anyio in workflow code: whatever does no I/O works and replays; what would do I/O is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from stepwell import Context, RunPaused, Workflow, workflow
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def ended(harness: Harness, flow: Workflow[Any, Any]) -> Any:
    """The result of a run that another worker replays from its beginning half-way."""
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("10m")
    await harness.takeover(worker, flow)
    await harness.advance("3h")
    return await harness.result(run)


async def test_task_groups_run_operations(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        found: list[str] = []

        async def work(name: str) -> None:
            found.append(await ctx.step(name, ledger.body(name, name)))

        async with anyio.create_task_group() as group:
            for name in ("a", "b", "c"):
                group.start_soon(work, name)
            group.start_soon(ctx.step, "direct", ledger.body("direct"))
        await ctx.sleep("pause", "1h")
        return found

    assert await ended(harness, flow) == ["a", "b", "c"]
    assert ledger.counts == {"a": 1, "b": 1, "c": 1, "direct": 1}


async def test_a_failure_cancels_the_other_tasks_of_a_group(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        caught: list[str] = []

        async def fail() -> None:
            await anyio.sleep(5)
            raise ValueError("no")

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(fail)
                group.start_soon(ctx.receive, "never")
        except* ValueError as errors:
            caught.append(str(errors.exceptions[0]))
        await ctx.sleep("pause", "1h")
        return caught

    assert await ended(harness, flow) == ["no"]


async def test_move_on_after_and_fail_after_are_durable(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found: list[Any] = []
        with anyio.move_on_after(3600) as scope:
            await ctx.receive("never")
        found.append(scope.cancelled_caught)
        try:
            with anyio.fail_after(60):
                await ctx.receive("never", name="again")
        except TimeoutError:
            found.append("late")
        with anyio.move_on_after(60) as scope:
            found.append(await ctx.step("quick", ledger.body("quick", "quick")))
        found.append(scope.cancelled_caught)
        await ctx.sleep("pause", "1h")
        return found

    assert await ended(harness, flow) == [True, "late", "quick", False]
    assert ledger.lines == ["quick"]


async def test_a_shielded_scope_finishes_its_work(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        with anyio.move_on_after(5):
            try:
                await ctx.receive("never")
            finally:
                with anyio.CancelScope(shield=True):
                    await ctx.step("clean", ledger.body("clean"))
                    await anyio.sleep(10)
                    await ctx.step("up", ledger.body("up"))
        await ctx.sleep("pause", "1h")
        return "done"

    assert await ended(harness, flow) == "done"
    assert ledger.lines == ["clean", "up"]


async def test_events_locks_and_streams(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found: list[Any] = []
        ready, lock, room = anyio.Event(), anyio.Lock(), anyio.Semaphore(1)
        send, receive = anyio.create_memory_object_stream[str](1)

        async def produce() -> None:
            async with send:
                for name in ("a", "b"):
                    await send.send(await ctx.step(name, ledger.body(name, name)))
                    await anyio.sleep(60)
            ready.set()

        async def consume() -> None:
            async with receive, lock, room:
                async for each in receive:
                    found.append(each)

        async with anyio.create_task_group() as group:
            group.start_soon(produce)
            group.start_soon(consume)
            await ready.wait()
            found.append("ready")
        await checkpoint()
        found.append(anyio.current_time() == ctx.now().timestamp())
        await ctx.sleep("pause", "1h")
        return found

    assert await ended(harness, flow) == ["a", "b", "ready", True]
    assert ledger.counts == {"a": 1, "b": 1}


async def test_a_task_may_be_started_and_awaited_until_it_is_ready(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        async def serve(task_status: Any) -> None:
            name = await ctx.step("open", ledger.body("open", "opened"))
            task_status.started(name)
            await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            name = await group.start(serve)
            await ctx.sleep("pause", "1h")
            group.cancel_scope.cancel()
        return str(name)

    assert await ended(harness, flow) == "opened"
    assert ledger.lines == ["open"]


async def _file() -> None:
    await anyio.open_file("/etc/hostname")


OUTSIDE: dict[str, Callable[[], Awaitable[Any]]] = {
    "a thread": lambda: anyio.to_thread.run_sync(print, "not to be seen"),
    "a file": _file,
    "a connection": lambda: anyio.connect_tcp("localhost", 1),
    "a process": lambda: anyio.run_process(["true"]),
}


@pytest.mark.parametrize("what", OUTSIDE)
async def test_the_outside_world_is_refused(harness: Harness, ledger: Ledger, what: str, capfd: Any):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("before", ledger.body("before"))
        await OUTSIDE[what]()
        await ctx.step("after", ledger.body("after"))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    with pytest.raises(RunPaused) as caught:
        await harness.result(run)
    assert caught.value.failure is not None
    assert caught.value.failure.code == "SW121"
    assert "await ctx.step(function" in caught.value.failure.fix
    assert ledger.lines == ["before"]
    assert "not to be seen" not in capfd.readouterr().out


async def test_a_step_may_use_all_of_it(harness: Harness):
    async def body() -> int:
        with anyio.move_on_after(5):
            await anyio.sleep(1)
        return 7

    @workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step(body)

    assert await ended(harness, flow) == 7
