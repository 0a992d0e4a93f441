"""What step bodies see of each other when one task runs several of them."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import weakref
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from stepwell import Context, Engine, Start, step, workflow
from stepwell.worker.lease import Lease
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger

_MARK: ContextVar[str] = ContextVar("mark", default="none")


async def _same(number: int) -> int:
    return number


async def test_a_body_does_not_see_the_context_variables_of_the_one_before(harness: Harness):
    async def mark(text: str) -> str:
        before = _MARK.get()
        _MARK.set(text)
        return before

    @workflow
    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step(f"s{n}", mark, str(n)) for n in range(4)]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == ["none"] * 4


async def test_a_body_that_cancels_its_task_and_returns_does_not_hurt_the_next(harness: Harness):
    async def cancel_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "returned"

    async def wait() -> str:
        await asyncio.sleep(0.01)
        return "waited"

    @workflow
    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step("first", cancel_itself), await ctx.step("second", wait)]

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == ["returned", "waited"]


async def test_a_body_that_cancels_its_task_later_does_not_lose_the_commit(harness: Harness):
    tasks: list[asyncio.Task[object]] = []

    async def keep_its_task(number: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        return number

    @workflow
    async def flow(ctx: Context) -> int:
        return sum([await ctx.step(f"s{n}", keep_its_task, n) for n in range(6)])

    worker = await harness.worker(flow)

    async def cancel(name: str) -> None:
        if name == "runs.apply" and len(tasks) in (2, 4):
            tasks[-1].cancel()
            await asyncio.sleep(0.001)

    worker.wire.before = cancel
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == 15


async def test_tasks_of_bodies_begin_with_the_workers_context_variables():
    async def mark(text: str) -> str:
        before = _MARK.get()
        _MARK.set(text)
        return before

    @workflow
    async def flow(ctx: Context) -> list[str]:
        one = [await ctx.step(f"s{n}", mark, str(n)) for n in range(3)]
        return one + list(await asyncio.gather(*[ctx.step(f"t{n}", mark, str(n)) for n in range(3)]))

    async with Engine("memory://", workflows=[flow]) as engine:
        assert await (await engine.start(flow)).result() == ["none"] * 6


async def test_bodies_of_runs_that_go_on_together_share_a_task_as_long_as_none_of_them_waits(harness: Harness):
    tasks: dict[int, set[asyncio.Task[object] | None]] = {0: set(), 1: set()}

    async def note(number: int) -> None:
        tasks[number].add(asyncio.current_task())

    @workflow
    async def flow(ctx: Context) -> None:
        for number in range(2):
            await ctx.step(f"s{number}", note, number)

    worker = await harness.worker(flow)
    await worker.do(worker.engine.runs.start_many(flow, [Start() for _ in range(20)]))
    await harness.drain()

    assert (len(tasks[0]), len(tasks[1])) == (20, 1)


async def test_a_body_that_waits_keeps_no_other_run_from_its_own(harness: Harness):
    waiting, is_over = [], asyncio.Event()

    async def wait_for_all(number: int) -> int:
        waiting.append(number)
        if len(waiting) == 20:
            is_over.set()
        await is_over.wait()
        return number

    @workflow
    async def flow(ctx: Context, number: int) -> int:
        return await ctx.step("first", _same, number) + await ctx.step("second", wait_for_all, number)

    worker = await harness.worker(flow)
    runs = await worker.do(worker.engine.runs.start_many(flow, [Start(number) for number in range(20)]))
    await harness.drain()

    assert [await harness.result(run) for run in runs] == list(range(0, 40, 2))


async def test_a_body_leaves_nothing_in_the_task_for_other_runs(harness: Harness):
    """Neither context variables nor a cancel of the task."""

    async def leave(number: int) -> str:
        before = _MARK.get()
        _MARK.set(str(number))
        if number % 3 == 0:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        return before

    async def wait(number: int) -> int:
        await asyncio.sleep(0.001)
        return number

    @workflow
    async def flow(ctx: Context, number: int) -> str:
        await ctx.step("first", _same, number)
        left = await ctx.step("second", leave, number)
        await ctx.step("third", wait, number)
        return left

    worker = await harness.worker(flow)
    runs = await worker.do(worker.engine.runs.start_many(flow, [Start(number) for number in range(20)]))
    await harness.drain()

    assert [await harness.result(run) for run in runs] == ["none"] * 20


async def test_a_body_of_a_run_that_is_cancelled_does_not_hurt_the_runs_that_were_told_with_it(harness: Harness):
    async def wait(number: int) -> int:
        await asyncio.sleep(1)
        return number

    @workflow
    async def flow(ctx: Context, number: int) -> int:
        await ctx.step("first", _same, number)
        return await ctx.step("second", wait, number)

    worker = await harness.worker(flow)
    runs = await worker.do(worker.engine.runs.start_many(flow, [Start(number) for number in range(5)]))
    await harness.advance("0.5s")
    await worker.do(worker.engine.cancel(runs[0].run_id))
    await harness.drain()

    assert (await harness.status(runs[0])).status == "cancelled"
    assert [await harness.result(run) for run in runs[1:]] == [1, 2, 3, 4]


async def test_a_long_row_of_steps_that_never_wait_leaves_the_loop_to_others(harness: Harness):
    steps, turns, is_over = 0, [], asyncio.Event()

    async def count() -> int:
        nonlocal steps
        steps += 1
        return steps

    numbered = step(count, name="count")

    @workflow
    async def flow(ctx: Context) -> int:
        for _ in range(500):
            last = await ctx.step(numbered)
        is_over.set()
        return last

    async def others() -> None:
        while not is_over.is_set():
            turns.append(steps)
            await asyncio.sleep(0)

    worker = await harness.worker(flow)
    task = asyncio.get_running_loop().create_task(others())
    run = await worker.start(flow)
    await harness.drain()
    await task

    assert await harness.result(run) == 500
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 40


async def test_a_body_that_is_held_back_and_not_wanted_any_more_does_not_keep_the_run(harness: Harness):
    async def lasts(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def first_one_then_another(ctx: Context) -> float:
        await ctx.step("one", lasts, 0.2)
        return await ctx.step("another", lasts, 5)

    async def winner(ctx: Context) -> float:
        return await ctx.step("winner", lasts, 0.5)

    async def beside(ctx: Context) -> float:
        return await ctx.step("beside", lasts, 0)

    async def race(ctx: Context) -> float:
        return (await ctx.race("race", {"loser": first_one_then_another, "winner": winner})).value

    @workflow
    async def flow(ctx: Context) -> object:
        await ctx.join("join", {"beside": beside, "race": race})
        return (await ctx.receive("go")).payload

    worker = await harness.worker(flow)

    async def take_long(name: str) -> None:
        if name == "runs.apply":
            await asyncio.sleep(1)

    worker.wire.after = take_long
    run = await worker.start(flow, key="k")
    await harness.advance("20s")
    assert (await harness.status(run)).status == "waiting"
    client = await harness.client()
    await client.signal("k", "go", "gone")
    await harness.advance("20s")

    assert await harness.result(run) == "gone"


@pytest.mark.parametrize(("kind", "call"), [("async", 1), ("plain", 1), ("plain", 2)])
async def test_a_body_begins_only_if_the_lease_is_still_live_when_its_turn_has_come(
    harness: Harness, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, kind: str, call: int
):
    """The process may stand still after a body was called for, and while it waits for a thread."""

    def plain() -> str:
        ledger.note("work")
        return "done"

    async def coroutine() -> str:
        return plain()

    @workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step("work", coroutine if kind == "async" else step(plain))

    is_live, asked = Lease.is_live, itertools.count()

    def runs_out_once(lease: Lease) -> bool:
        if next(asked) != call:
            return is_live(lease)
        ledger.note("refused")
        return False

    worker = await harness.worker(flow, lease="10s")
    monkeypatch.setattr(Lease, "is_live", runs_out_once)
    run = await worker.start(flow)
    await harness.advance("10s")

    assert await harness.result(run) == "done"
    assert ledger.lines == ["refused", "work"]


class _Loaded:
    """Something large that a run works on."""


def _user_of(loaded: _Loaded) -> Callable[[], str]:
    return lambda: str(type(loaded))


async def test_what_a_lambda_holds_is_not_kept_when_its_run_has_ended(harness: Harness):
    held: list[weakref.ref[_Loaded]] = []

    @workflow
    async def flow(ctx: Context) -> None:
        for number in range(3):
            loaded = _Loaded()
            held.append(weakref.ref(loaded))
            await ctx.step(f"use {number}", _user_of(loaded))
        del loaded

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    await harness.result(run)
    gc.collect()

    assert [one() is None for one in held] == [True] * len(held)


async def test_a_wrapper_is_a_step_of_its_own_though_it_has_what_its_function_had(harness: Harness):
    def plain(number: int) -> int:
        return number

    async def flow_of(ctx: Context) -> list[int]:
        first = await ctx.step("plain", plain, 1)

        @functools.wraps(plain)
        def wrapped(number: int) -> int:
            return plain(number) + 10

        return [first, await ctx.step("wrapped", wrapped, 1), await ctx.step("again", plain, 1)]

    flow = workflow(flow_of)
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()

    assert await harness.result(run) == [1, 11, 1]
