"""Plain asyncio in workflows: what works, and what is refused because a replay could not repeat it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Break, Context, RunPaused, Workflow, timer, workflow
from stepwell.errors import RunError
from stepwell.views import FailureRecord
from tests.cases.harness import Harness
from tests.cases.ledger import Ledger


async def outcome(harness: Harness, flow: Workflow[Any, Any], *signals: str) -> Any:
    worker = await harness.worker(flow)
    run = await worker.start(flow)
    for name in signals:
        await worker.signal(run.run_id, name)
    await harness.advance("10m")
    await harness.takeover(worker, flow)
    return await harness.result(run)


async def paused(harness: Harness, flow: Workflow[Any, Any]) -> FailureRecord:
    with pytest.raises(RunPaused) as caught:
        await outcome(harness, flow)
    assert caught.value.failure is not None
    return caught.value.failure


async def test_gather_takes_operations_as_they_are(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        found = await asyncio.gather(*[ctx.step(f"s{n}", ledger.body(f"s{n}", n)) for n in range(5)])
        await ctx.sleep("pause", "1h")
        return list(found)

    assert await outcome(harness, flow) == [0, 1, 2, 3, 4]
    assert ledger.counts == {f"s{n}": 1 for n in range(5)}


async def test_tasks_and_task_groups_take_operations(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[Any]:
        early = asyncio.create_task(ctx.step("early", ledger.body("early", "e")))
        async with asyncio.TaskGroup() as group:
            one = group.create_task(ctx.step("one", ledger.body("one", 1)))
            two = group.create_task(ctx.sleep("two", "1h"))
        assert two.result().due_at is not None
        return [await early, one.result()]

    assert await outcome(harness, flow) == ["e", 1]
    assert ledger.counts == {"early": 1, "one": 1}


async def test_queues_events_and_locks_order_work_between_branches(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        ready, lock = asyncio.Event(), asyncio.Lock()
        found: list[str] = []

        async def produce() -> None:
            for name in ("a", "b", "c"):
                await queue.put(await ctx.step(name, ledger.body(name, name)))
                await ctx.sleep(f"after {name}", "5m")
            ready.set()

        async def consume() -> None:
            for _ in range(3):
                async with lock:
                    found.append(await queue.get())
            await ready.wait()
            found.append(await ctx.step("end", ledger.body("end", "end")))

        await asyncio.gather(produce(), consume())
        return found

    assert await outcome(harness, flow) == ["a", "b", "c", "end"]
    assert ledger.counts == {"a": 1, "b": 1, "c": 1, "end": 1}


async def test_as_completed_and_wait_see_results_in_the_recorded_order(harness: Harness, ledger: Ledger):
    async def after(seconds: int) -> int:
        await asyncio.sleep(seconds)
        return seconds

    @workflow
    async def flow(ctx: Context) -> list[int]:
        order = []
        for done in asyncio.as_completed([ctx.step(f"s{n}", after, n) for n in (3, 1, 2)]):
            order.append(await done)
        await ctx.sleep("pause", "1h")
        return order

    assert await outcome(harness, flow) == [1, 2, 3]


async def test_cancelling_a_task_stops_its_body(harness: Harness, ledger: Ledger):
    async def slow() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ledger.note("told to stop")
            raise

    @workflow
    async def flow(ctx: Context) -> str:
        task = asyncio.create_task(ctx.step(slow))
        await ctx.sleep("a while", "5s")
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return str(await ctx.step("instead", ledger.body("instead", "cancelled")))
        return "finished"

    assert await outcome(harness, flow) == "cancelled"
    assert ledger.lines == ["told to stop", "instead"]


async def test_an_operation_that_is_never_awaited_is_reported(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        ctx.step("forgotten", ledger.body("forgotten"))
        await ctx.step("done", ledger.body("done"))
        return "done"

    failure = await paused(harness, flow)

    assert (failure.code, failure.path) == ("SW122", "forgotten")
    assert ledger.lines == ["done"]


async def test_a_task_that_nobody_waited_for_is_reported(harness: Harness, ledger: Ledger):
    tasks = []

    @workflow
    async def flow(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.sleep("forgotten", "1h")))
        await ctx.step("done", ledger.body("done"))
        return "done"

    assert (await paused(harness, flow)).code == "SW122"


async def test_an_operation_awaited_twice_is_an_error_of_the_code(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        operation = ctx.step("once", ledger.body("once"))
        await operation
        try:
            await operation
        except RuntimeError:
            return "refused"
        return "ran twice"

    assert await outcome(harness, flow) == "refused"
    assert ledger.lines == ["once"]


REFUSED: dict[str, Any] = {
    "asyncio.to_thread": lambda: asyncio.to_thread(print),
    "open_connection": lambda: asyncio.open_connection("localhost", 1),
    "getaddrinfo": lambda: asyncio.get_running_loop().getaddrinfo("localhost", 80),
    "subprocess": lambda: asyncio.create_subprocess_exec("true"),
}


async def _socket() -> None:
    with socket.socket() as one:
        one.setblocking(False)
        await asyncio.get_running_loop().sock_recv(one, 1)


REFUSED |= {"sockets": _socket}


@pytest.mark.parametrize("name", REFUSED)
async def test_the_outside_world_is_refused_in_workflow_code(harness: Harness, ledger: Ledger, name: str):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("before", ledger.body("before"))
        await REFUSED[name]()
        await ctx.step("after", ledger.body("after"))

    failure = await paused(harness, flow)

    assert failure.code == "SW121"
    assert failure.fix != ""
    assert ledger.lines == ["before"]


@pytest.mark.parametrize("name", ["asyncio.to_thread", "getaddrinfo"])
async def test_a_refusal_cannot_be_swallowed(harness: Harness, ledger: Ledger, name: str):
    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await REFUSED[name]()
        except Exception:
            await ctx.step("instead", ledger.body("instead"))
        return "swallowed"

    assert (await paused(harness, flow)).code == "SW121"
    assert ledger.lines == []


async def test_asyncio_sleep_of_zero_only_lets_others_run(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        await asyncio.sleep(0)
        return str(await ctx.step("a", ledger.body("a", "fine")))

    assert await outcome(harness, flow) == "fine"


async def test_code_that_waits_for_nothing_is_reported(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("before", ledger.body("before"))
        await asyncio.Event().wait()

    failure = await paused(harness, flow)

    assert (failure.code, ledger.lines) == ("SW123", ["before"])


async def test_except_exception_around_a_wait_swallows_nothing(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        try:
            message = await ctx.receive("go")
        except Exception:
            await ctx.step("swallowed", ledger.body("swallowed"))
            return "swallowed"
        finally:
            ledger.note("finally")
        return message.name

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    assert (await harness.status(run)).status == "waiting"
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "go"
    assert ledger.counts == {"finally": 2 if harness.mode == "yield" else 1}


@pytest.mark.parametrize("way", ["except", "finally"])
async def test_code_that_goes_on_while_it_is_torn_down_records_nothing(harness: Harness, ledger: Ledger, way: str):
    @workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.receive("go")
        except BaseException:
            await ctx.step("in vain", ledger.body("in vain"))
            raise
        finally:
            if way == "finally":
                await ctx.step("at last", ledger.body("at last"))
        return "done"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker = await harness.deploy(worker, flow)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert await harness.result(run) == "done"
    assert ledger.lines == (["at last"] if way == "finally" else [])


async def test_a_divergence_cannot_be_swallowed(harness: Harness, ledger: Ledger):
    @workflow(name="flow")
    async def before(ctx: Context) -> str:
        await ctx.sleep("x", "1s")
        await ctx.receive("go")
        return "before"

    @workflow(name="flow")
    async def after(ctx: Context) -> str:
        try:
            await ctx.step("x", ledger.body("x"))
        except Exception:
            await ctx.step("y", ledger.body("y"))
        return "swallowed"

    worker = await harness.worker(before)
    run = await worker.start(before)
    await harness.advance("1m")
    worker = await harness.deploy(worker, after)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert (await harness.status(run)).status == "paused"
    assert ledger.lines == []


async def test_the_log_is_silent_while_the_code_passes_what_it_did_before(
    harness: Harness, ledger: Ledger, caplog: pytest.LogCaptureFixture
):
    @workflow
    async def flow(ctx: Context) -> None:
        ctx.log.warning("begins")
        await ctx.step("a", ledger.body("a"))
        ctx.log.warning("between")
        await ctx.receive("go")
        ctx.log.warning("ends")

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.drain()
    worker = await harness.takeover(worker, flow)
    await worker.signal(run.run_id, "go")
    await harness.drain()

    assert (await harness.status(run)).status == "completed"
    logged = [record.message for record in caplog.records if record.name == "stepwell.workflow"]
    assert logged == ["begins", "between", "ends"]


async def test_leaving_the_interpreter_fails_the_run_and_not_the_worker(harness: Harness, ledger: Ledger):
    @workflow
    async def leaving(ctx: Context) -> None:
        await ctx.step("before", ledger.body("before"))
        raise SystemExit(3)

    @workflow
    async def other(ctx: Context) -> str:
        await ctx.sleep("pause", "1m")
        return "still there"

    worker = await harness.worker(leaving, other)
    runs = [await worker.start(leaving), await worker.start(other)]
    await harness.advance("2m")

    view = await harness.status(runs[0])
    assert (view.status, view.failure.summary) == ("failed", "SystemExit: 3")
    assert await harness.result(runs[1]) == "still there"


# --- sets of tasks ---


def handler(handled: list[int]) -> Any:
    """A step body that notes what it was given."""

    async def handle(value: int) -> int:
        handled.append(value)
        return value

    return handle


async def test_a_set_of_tasks_is_gone_through_in_the_same_order_after_a_replay(harness: Harness, ledger: Ledger):
    handled: list[int] = []
    handle = handler(handled)

    def flow_of() -> Workflow[Any, Any]:
        @workflow(name="sets")
        async def sets(ctx: Context) -> list[int]:
            tasks = [asyncio.create_task(ctx.step(f"load{n}", ledger.body(f"load{n}", n))) for n in range(30)]
            done, _ = await asyncio.wait(tasks)
            out = []
            for number, task in enumerate(done):
                out.append(await ctx.step(f"handle{number}", handle, task.result()))
                if number == 10:
                    await ctx.receive("go")
            return [task.result() for task in done]

        return sets

    flow = flow_of()
    worker = await harness.worker(flow)
    client = await harness.client()
    run = await worker.start(flow)
    await harness.drain()
    occupied = [asyncio.get_running_loop().create_future() for _ in range(97)]  # other addresses for the next tasks
    await harness.takeover(worker, flow_of())
    await client.signal(run.run_id, "go")
    await harness.drain()
    found = await harness.result(run)

    assert sorted(found) == list(range(30))
    assert sorted(handled) == list(range(30))
    assert len(occupied) == 97


async def test_futures_tasks_and_operations_hash_by_their_number_in_the_turn(harness: Harness, ledger: Ledger):
    hashes: list[list[int]] = []

    @workflow
    async def flow(ctx: Context) -> int:
        loop = asyncio.get_running_loop()
        operations = [ctx.step(f"s{n}", ledger.body(f"s{n}", n)) for n in range(3)]
        tasks = [asyncio.create_task(operation) for operation in operations]
        futures = [loop.create_future() for _ in range(3)]
        hashes.append([hash(each) for each in (*operations, *tasks, *futures)])
        total = 0
        for first in asyncio.as_completed([*tasks, asyncio.create_task(ctx.sleep("nap", "1h"))]):
            total += int(isinstance(await first, int))
        return total

    assert await outcome(harness, flow) == 3
    assert len({tuple(each) for each in hashes}) == 1
    assert len(set(hashes[0][3:])) == 6


async def test_operations_in_as_completed_are_begun_in_the_same_order(harness: Harness, ledger: Ledger):
    handled: list[int] = []
    handle = handler(handled)

    @workflow
    async def flow(ctx: Context) -> list[int]:
        found = []
        for first in asyncio.as_completed([ctx.step(f"s{n}", ledger.body(f"s{n}", n)) for n in range(20)]):
            found.append(await first)
            await ctx.step(f"then{len(found)}", handle, found[-1])
        await ctx.sleep("nap", "1h")
        return sorted(found)

    assert await outcome(harness, flow) == list(range(20))
    assert sorted(handled) == list(range(20))


async def test_coroutines_in_as_completed_are_refused(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> None:
        async def work(number: int) -> int:
            return await ctx.step(f"s{number}", ledger.body(f"s{number}", number))

        for first in asyncio.as_completed([work(1)]):
            await first

    failure = await paused(harness, flow)
    assert failure.code == "SW121"
    assert "asyncio.create_task(each)" in failure.fix


async def test_an_aborted_task_group_cancels_in_the_same_order(harness: Harness, ledger: Ledger):
    handled: list[int] = []
    handle = handler(handled)

    @workflow
    async def flow(ctx: Context) -> list[int]:
        cancelled: list[int] = []

        async def waits(number: int) -> None:
            try:
                await ctx.receive(f"never{number}")
            finally:
                cancelled.append(number)

        async def fails() -> None:
            await ctx.step("begin", ledger.body("begin"))
            raise ValueError("no")

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(12):
                    group.create_task(waits(number))
                group.create_task(fails())
        except* ValueError:
            pass
        for place, number in enumerate(cancelled):
            await ctx.step(f"after{place}", handle, number)
        await ctx.sleep("nap", "1h")
        return sorted(cancelled)

    assert await outcome(harness, flow) == list(range(12))
    assert sorted(handled) == list(range(12))


async def test_what_is_recorded_at_once_and_plain_asyncio_go_on_in_the_same_order_after_a_recovery(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        order: list[str] = []

        async def record() -> None:
            await ctx.once("once", lambda: 1)
            order.append("recorded")

        async def pass_on() -> None:
            await asyncio.sleep(0)
            order.append("passed on")

        await asyncio.gather(record(), pass_on())
        seen = await ctx.step("see", lambda: list(order))
        await ctx.sleep("pause", "1h")
        return [*seen, *order]

    seen_before, passed_before, seen_after, passed_after = await outcome(harness, flow)
    assert [seen_before, passed_before] == [seen_after, passed_after]


async def test_a_task_that_is_cancelled_before_its_result_came_is_cancelled_after_a_recovery(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> list[bool]:
        task = asyncio.create_task(_recorded(ctx))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        was_cancelled = await ctx.step("see", lambda: task.cancelled())
        await ctx.sleep("pause", "1h")
        return [was_cancelled, task.cancelled()]

    before, after = await outcome(harness, flow)
    assert before == after


async def _recorded(ctx: Context) -> int:
    return await ctx.once("once", lambda: 1)


@pytest.mark.parametrize("kind", ["join", "map"])
async def test_the_end_of_branches_and_plain_asyncio_go_on_in_the_same_order_after_a_recovery(
    harness: Harness, kind: str
):
    @workflow
    async def flow(ctx: Context) -> list[str]:
        order: list[str] = []
        has_worked = asyncio.Event()

        async def work(inner: Context, _: int = 0) -> None:
            await inner.step("work", lambda: None)
            has_worked.set()

        async def branches() -> None:
            await (ctx.join("both", {"one": work}) if kind == "join" else ctx.map("both", work, [1]))
            order.append("branches")

        async def pass_on() -> None:
            await has_worked.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            order.append("passed on")

        await asyncio.gather(branches(), pass_on())
        seen = await ctx.step("see", lambda: list(order))
        await ctx.sleep("pause", "1h")
        return [*seen, *order]

    found = await outcome(harness, flow)
    assert found[:2] == found[2:]


@pytest.mark.parametrize("kind", ["race", "join", "map"])
async def test_what_tasks_of_a_lost_branch_have_asked_for_is_given_up_with_it(
    harness: Harness, ledger: Ledger, kind: str
):
    async def work() -> None:
        await asyncio.sleep(60)
        ledger.note("worked")

    async def lose(inner: Context) -> None:
        await asyncio.wait([asyncio.create_task(inner.step("work", work)), asyncio.create_task(_wait(inner))])

    async def decide(inner: Context) -> None:
        await inner.sleep("short", "1s")
        if kind != "race":
            inner.fail("the others are not needed")

    @workflow
    async def flow(ctx: Context) -> str:
        branches = [lose, decide]
        try:
            if kind == "race":
                await ctx.race("first", {"lose": lose, "decide": decide})
            elif kind == "join":
                await ctx.join("all", {"lose": lose, "decide": decide}, on_error="fail_fast")
            else:
                await ctx.map("all", lambda inner, number: branches[number](inner), [0, 1], on_error="fail_fast")
        except RunError:
            pass
        await ctx.sleep("pause", "1h")
        return "ended"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await worker.signal(run.run_id, "late")
    await harness.advance("2h")

    assert await harness.result(run) == "ended"
    assert ledger.lines == []
    paths = [entry.path for entry in await harness.history(run)]
    assert not [path for path in paths if path.endswith(("/work", "/late"))]


async def _wait(ctx: Context) -> None:
    await ctx.sleep("before", "2s")
    await ctx.receive("late")


async def _gathered(ctx: Context, _: Any = None) -> Break[None]:
    await asyncio.gather(*[ctx.step(f"g{n}", lambda: None) for n in range(3)])
    return Break(None)


def _same(number: int) -> int:
    return number


BEFORE: dict[str, Callable[[Context], Awaitable[Any]]] = {
    "wait_any": lambda ctx: ctx.wait_any(late=timer("1s")),
    "race": lambda ctx: ctx.race("race", {"one": _gathered, "two": _gathered}),
    "loop": lambda ctx: ctx.loop("loop", _gathered, 0),
    "fail_fast": lambda ctx: ctx.join("join", {"one": _gathered, "two": _gathered}, on_error="fail_fast"),
    "map": lambda ctx: ctx.map("map", _gathered, [1, 2], on_error="fail_fast"),
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("way", ["wait", "as_completed"])
async def test_sets_have_the_same_order_behind_what_a_replay_passes_over(harness: Harness, before: str, way: str):
    @workflow
    async def flow(ctx: Context) -> list[list[int]]:
        await BEFORE[before](ctx)
        order: list[int] = []
        for first in range(0, 40, 5):  # small sets, each of which begins elsewhere in its table
            work = [ctx.step(f"s{n}", _same, n) for n in range(first, first + 4)]
            await asyncio.create_task(asyncio.sleep(0))
            if way == "wait":
                done, _ = await asyncio.wait([asyncio.create_task(each) for each in work])
                order += [task.result() for task in done]
            else:
                order += [await each for each in asyncio.as_completed(work)]
        seen = await ctx.step("see", lambda: list(order))
        await ctx.sleep("pause", "1h")
        return [seen, order]

    seen, order = await outcome(harness, flow)
    assert seen == order
