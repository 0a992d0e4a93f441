"""Waiting for results: how each end is told, and how long one waits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stepwell import Context, NotFoundError, ResultTimeout, Retry, RunCancelled, RunFailed, RunPaused, step, workflow
from stepwell.engine.lookups import SharedLookup
from stepwell.errors import RollbackIncomplete
from stepwell.ids import RunId
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


@workflow
async def waiting(ctx: Context) -> Any:
    return (await ctx.receive("go")).payload


async def test_a_result_is_waited_for_as_long_as_asked(harness: Harness):
    worker = await harness.worker(waiting)
    run = await worker.start(waiting)

    before = harness.clock.now()
    with pytest.raises(ResultTimeout, match="had not ended after 5 s; it continues"):
        await run.result(timeout="5s")
    assert harness.clock.now() - before == 5_000_000
    with pytest.raises(ResultTimeout):
        await run.result(timeout=0)
    await worker.signal(run.run_id, "go", 1)
    assert await run.result(timeout="60s") == 1
    assert await run.result(timeout=0) == 1


async def test_many_may_wait_for_the_same_run(harness: Harness):
    worker = await harness.worker(waiting)
    client = await harness.client()
    run = await worker.start(waiting)
    waiters = [asyncio.ensure_future(node.engine.result(run.run_id)) for node in (worker, client, worker)]
    await harness.advance("10s")
    await worker.signal(run.run_id, "go", "all")
    await harness.advance("2s")

    assert [await waiter for waiter in waiters] == ["all"] * 3


async def test_a_waiter_hears_of_the_end_without_looking_again(harness: Harness):
    worker = await harness.worker(waiting)
    run = await worker.start(waiting)
    await harness.drain()
    waiter = asyncio.ensure_future(run.result())
    await harness.drain()
    looks = worker.wire.count("views.find")
    await worker.signal(run.run_id, "go", "now")
    await harness.drain()

    assert waiter.done()
    assert worker.wire.count("views.find") == looks


async def test_a_waiter_finds_the_end_without_any_hint(harness: Harness):
    worker = await harness.worker(waiting)
    client = await harness.client()
    client.wire.drops_hints = True
    run = await worker.start(waiting)
    waiter = asyncio.ensure_future(client.engine.result(run.run_id))
    await harness.drain()
    await worker.signal(run.run_id, "go", "late")
    await harness.advance("1s")

    assert waiter.result() == "late"


async def test_every_other_end_is_an_error_of_its_own(harness: Harness, ledger: Ledger):
    async def broken() -> None:
        raise ConnectionError("away")

    @workflow(names="unique")
    async def flow(ctx: Context, way: str) -> None:
        await ctx.step("one", step(ledger.body("one"), compensate=broken if way == "stuck" else ledger.body("undo")))
        if way == "diverge":
            await ctx.step("one", ledger.body("one"))
        if way == "cancel":
            await ctx.receive("never")
        raise ValueError("no")

    worker = await harness.worker(flow)
    runs = {way: await worker.start(flow, way) for way in ("fail", "stuck", "diverge", "cancel")}
    await harness.drain()
    await worker.do(worker.engine.cancel(runs["cancel"].run_id, "enough"))
    await harness.advance("1m")

    errors: dict[str, Any] = {}
    for way, run in runs.items():
        with pytest.raises(Exception) as caught:
            await run.result()
        errors[way] = caught.value
    assert {way: type(error) for way, error in errors.items()} == {
        "fail": RunFailed,
        "stuck": RollbackIncomplete,
        "diverge": RunPaused,
        "cancel": RunCancelled,
    }
    assert (errors["fail"].status, errors["stuck"].remaining, errors["cancel"].reason) == ("compensated", 1, "enough")


async def test_a_chain_is_followed_to_its_last_run(harness: Harness):
    @workflow
    async def last(ctx: Context, round: int) -> tuple[int, str]:
        return (round, "last")

    @workflow
    async def flow(ctx: Context, round: int) -> str:
        await ctx.sleep("pause", "5s")
        if round == 2:
            ctx.continue_as_new(round + 1, last)
        ctx.continue_as_new(round + 1)

    worker = await harness.worker(flow, last)
    run = await worker.start(flow, 0)

    assert await run.result(timeout="1m") == (3, "last")


async def test_a_chain_is_followed_while_hints_about_other_runs_arrive(harness: Harness):
    @workflow
    async def chain(ctx: Context, left: int) -> int:
        await ctx.receive("go")
        if left:
            ctx.continue_as_new(left - 1)
        return left

    worker, client = await harness.worker(chain), await harness.client()
    first, other = await worker.start(chain, 1), await worker.start(chain, 0)
    waiters = [asyncio.ensure_future(client.do(client.engine.result(run.run_id))) for run in (first, other)]
    await harness.drain()
    find, views = client.wire.store.views.find, client.wire.store.views

    async def find_and_hear(target: str) -> Any:
        found = await find(target)
        if found is not None and found.status.value == "continued":
            client.wire.behind.wakeups.notify(Hint(HintKind.ENDED, (first.run_id, other.run_id)))
        return found

    views.find = find_and_hear
    await worker.signal(first.run_id, "go", 1)
    await harness.advance("2s")
    await worker.signal(other.run_id, "go", 1)
    status = await worker.do(worker.engine.status(first.run_id))
    assert status is not None
    assert status.successor is not None
    await worker.signal(status.successor, "go", 1)
    await harness.advance("2s")

    assert [waiter.result() for waiter in waiters] == [0, 0]


async def test_a_result_of_nobody(harness: Harness):
    worker = await harness.worker(waiting)

    with pytest.raises(NotFoundError):
        await worker.engine.result("nobody")


async def test_a_waiter_that_gives_up_leaves_nothing_behind(harness: Harness):
    worker = await harness.worker(waiting)
    run = await worker.start(waiting)
    before = len(worker.wire.behind.wakeups._listeners)
    waiter = asyncio.ensure_future(run.result())
    await harness.drain()
    assert len(worker.wire.behind.wakeups._listeners) == before + 1
    waiter.cancel()
    await harness.advance("2s")  # so long it listens for whoever comes next

    assert len(worker.wire.behind.wakeups._listeners) == before


async def test_whoever_waits_looks_now_and_then_without_a_hint(harness: Harness):
    worker, client = await harness.worker(waiting), await harness.client()
    runs = [await worker.start(waiting) for _ in range(2)]
    client.wire.drops_hints = True
    waiters = [asyncio.ensure_future(client.do(client.engine.result(run.run_id))) for run in runs]
    for run in runs:  # the second long after the first
        await harness.advance("10s")
        await run.signal("go", 7)
    await harness.advance("3s")

    assert [waiter.done() and waiter.result() for waiter in waiters] == [7, 7]


async def test_the_store_going_away_while_waiting_is_waited_out(harness: Harness):
    worker = await harness.worker(waiting)
    client = await harness.client()
    run = await worker.start(waiting)
    waiter = asyncio.ensure_future(client.engine.result(run.run_id))
    await harness.drain()
    client.wire.is_down = True
    await worker.signal(run.run_id, "go", "there")
    await harness.advance("10s")
    assert not waiter.done()
    client.wire.is_down = False
    await harness.advance("2s")

    assert waiter.result() == "there"


async def test_a_retry_of_a_failed_run_can_be_awaited(harness: Harness, ledger: Ledger):
    @workflow
    async def flow(ctx: Context) -> str:
        body = step(ledger.failing("call", times=1, value="ok"), retry=Retry(max_attempts=1))
        return str(await ctx.step("call", body))

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    with pytest.raises(RunFailed):
        await run.result()
    assert await worker.do(worker.engine.repairs.retry(run.run_id))

    assert await run.result() == "ok"


class _Views:
    """Runs that are found when a test lets them be, and how often they were asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.may_answer = asyncio.Event()

    async def find_many(self, run_ids: list[Any]) -> list[Any]:
        self.asked.append(run_ids)
        await self.may_answer.wait()
        return [f"{run_id} found" for run_id in run_ids]

    async def find(self, run_id: Any) -> Any:
        self.asked.append(run_id)
        return f"{run_id} found alone"


async def test_runs_that_end_together_are_looked_for_together():
    views = _Views()
    together: Any = SharedLookup(cast("Store", SimpleNamespace(views=views)), [RunId("a"), RunId("b"), RunId("c")])
    waiters = [asyncio.ensure_future(together.find(run_id)) for run_id in ("b", "a", "c")]
    await asyncio.sleep(0)
    waiters[1].cancel()
    await asyncio.sleep(0)
    views.may_answer.set()

    assert [await waiters[0], await waiters[2]] == ["b found", "c found"]
    assert views.asked == [["a", "b", "c"]]


async def test_whoever_looks_for_all_may_give_up():
    views = _Views()
    together: Any = SharedLookup(cast("Store", SimpleNamespace(views=views)), [RunId("a"), RunId("b")])
    first, second = [asyncio.ensure_future(together.find(run_id)) for run_id in ("a", "b")]
    await asyncio.sleep(0)
    first.cancel()

    assert await second == "b found alone"


def counted_looks(node: Node) -> list[int]:
    """How many runs each look of this process was for, from now on."""
    views = node.engine._backend.store.views
    asked, find, find_many = [], views.find, views.find_many

    async def count_one(target: Any) -> Any:
        asked.append(1)
        return await find(target)

    async def count_many(targets: Any) -> Any:
        asked.append(len(targets))
        return await find_many(targets)

    views.find, views.find_many = count_one, count_many  # type: ignore[method-assign]
    return asked


async def test_results_of_runs_that_end_in_one_commit_cost_another_process_one_look(harness: Harness):
    worker, client = await harness.worker(waiting), await harness.client()
    runs = [await worker.start(waiting) for _ in range(5)]
    waiters = [asyncio.ensure_future(client.engine.result(run.run_id)) for run in runs]
    await harness.advance("100ms")
    asked = counted_looks(client)
    await asyncio.gather(*(worker.signal(run.run_id, "go", place) for place, run in enumerate(runs)))
    await harness.advance("2s")

    assert await asyncio.gather(*waiters) == [0, 1, 2, 3, 4]
    assert max(asked) > 1


async def test_a_result_that_was_made_in_this_process_is_not_looked_for(harness: Harness):
    worker = await harness.worker(waiting)
    runs = [await worker.start(waiting) for _ in range(3)]
    waiters = [asyncio.ensure_future(run.result()) for run in runs]
    await harness.advance("1s")
    asked = counted_looks(worker)
    await asyncio.gather(*(worker.signal(run.run_id, "go", place) for place, run in enumerate(runs)))

    assert await asyncio.gather(*waiters) == [0, 1, 2]
    assert asked == []
