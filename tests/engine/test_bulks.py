"""Acts on many runs: found whole, done once each, stopped, and gone on with after a crash anywhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from stepwell import Context, Engine, Retry, step, workflow
from stepwell.engine import bulk_workflow, bulks
from stepwell.engine.bulks import BulkItem, BulkView
from stepwell.errors import FilterError, InvalidOptionError, NotFoundError, RequestError
from stepwell.virtual.loop import VirtualLoop
from tests.cases.harness import Harness, Node
from tests.cases.stores import STORES

FAST: dict[str, Any] = {"lease": "10s", "sweep_every": "1s"}


class Shop:
    """Runs that wait, and runs that fail until their cause is mended."""

    def __init__(self) -> None:
        self.is_broken = True

    def workflows(self) -> tuple[Any, Any]:
        async def work() -> str:
            if self.is_broken:
                raise ConnectionError("no stock")
            return "done"

        @workflow
        async def waits(ctx: Context) -> Any:
            return (await ctx.receive("go")).payload

        @workflow
        async def fails(ctx: Context) -> str:
            return await ctx.step("work", step(work, retry=Retry(max_attempts=1)))

        return waits, fails


async def begin(node: Node, verb: str, where: str | None, **options: Any) -> BulkView:
    return await node.do(node.engine.bulks.start(verb, where, by="ann", **options))


async def outcomes(node: Node, bulk: BulkView) -> Counter[str]:
    return Counter(item.outcome for item in await node.do(node.engine.bulks.items(bulk.name)))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pages and chunks of few runs."""
    monkeypatch.setattr(bulks, "PAGE", 3)
    monkeypatch.setattr(bulk_workflow, "PAGE", 3)
    monkeypatch.setattr(bulk_workflow, "CHUNK", 2)


async def test_all_runs_that_match_are_acted_upon_and_no_others(harness: Harness):
    waits, fails = Shop().workflows()
    worker = await harness.worker(waits, fails)
    runs = [await worker.start(waits) for _ in range(7)]
    failed = await worker.start(fails)
    await harness.drain()

    bulk = await begin(worker, "cancel", "status:waiting", reason="closing")
    await harness.advance("10s")
    later = await worker.start(waits)
    await harness.drain()

    assert (bulk.name, bulk.verb, bulk.by, bulk.where) == ("bulk-1", "cancel", "ann", "status:waiting")
    over = await worker.do(worker.engine.bulks.get("bulk-1"))
    assert (over.state, over.matched, over.done, over.is_over) == ("done", 7, 7, True)
    items = await worker.do(worker.engine.bulks.items("1"))
    assert sorted(item.run_id for item in items) == sorted(run.run_id for run in runs)
    assert {(item.outcome, item.status) for item in items} == {("done", "cancelled")}
    assert (await harness.status(runs[0])).reason == "closing"
    assert [(await harness.status(run)).status for run in (failed, later)] == ["failed", "waiting"]


async def test_it_says_which_had_it_before_and_which_refuse_it_and_why(harness: Harness):
    waits, fails = Shop().workflows()
    worker = await harness.worker(waits, fails)
    free, paused, failed = await worker.start(waits), await worker.start(waits), await worker.start(fails)
    await harness.drain()
    await worker.do(worker.engine.holds.pause(paused.run_id))
    named = [free.run_id, paused.run_id, failed.run_id, "nobody", free.run_id]

    await begin(worker, "pause", None, runs=named)
    await harness.advance("10s")
    found = {item.run_id: item for item in await worker.do(worker.engine.bulks.items("bulk-1"))}

    assert {run_id: item.outcome for run_id, item in found.items()} == {
        free.run_id: "done",
        paused.run_id: "before",
        failed.run_id: "refused",
        "nobody": "refused",
    }
    assert found["nobody"] == BulkItem("nobody", "refused", "gone", found["nobody"].why)
    assert "nobody" in found["nobody"].why
    view = await worker.do(worker.engine.bulks.get("bulk-1"))
    assert (view.matched, view.done, view.before, view.refused, view.where) == (4, 1, 1, 2, "")


async def test_a_repair_is_done_to_many(harness: Harness):
    shop = Shop()
    waits, fails = shop.workflows()
    worker = await harness.worker(waits, fails)
    runs = [await worker.start(fails) for _ in range(4)]
    waiting = await worker.start(waits)
    await harness.drain()
    shop.is_broken = False

    bulk = await begin(worker, "redrive", "since:1h", reason="stock is back")
    await harness.advance("10s")

    assert [await harness.result(run) for run in runs] == ["done"] * 4
    assert await outcomes(worker, bulk) == {"done": 4, "refused": 1}
    assert (await harness.status(waiting)).status == "waiting"
    acts = await worker.do(worker.engine.runs.list_acts(runs[0].run_id))
    assert [(act.verb, act.by, act.reason) for act in acts] == [("redrive", "ann by bulk-1", "stock is back")]


async def test_it_is_stopped_between_two_chunks_and_what_was_done_stays_done(harness: Harness):
    (waits, _), client = Shop().workflows(), await harness.client()
    worker = await harness.worker(waits)
    for _ in range(6):
        await worker.start(waits)
    await harness.drain()

    async def abort_it(name: str) -> None:
        if name == "runs.cancel" and worker.wire.count(name) == 3:
            assert await client.do(client.engine.bulks.abort("bulk-1"))

    worker.wire.after = abort_it
    await begin(worker, "cancel", "status:waiting")
    await harness.advance("10s")

    view = await client.do(client.engine.bulks.get("bulk-1"))
    assert (view.state, view.matched, view.done) == ("aborted", 6, 4)
    assert await client.do(client.engine.bulks.abort("bulk-1")) is False
    assert len(await worker.do(worker.engine.runs.list("status:waiting"))) == 2


async def test_it_waits_for_a_worker_and_says_that_it_is_to_stop(harness: Harness):
    client = await harness.client()
    await begin(client, "cancel", "status:active")
    assert (await client.do(client.engine.bulks.get("bulk-1"))).state == "running"
    assert await client.do(client.engine.bulks.abort("bulk-1"))
    assert (await client.do(client.engine.bulks.get("bulk-1"))).state == "aborting"

    await client.do(client.engine.serve_bulks())
    await harness.advance("10s")

    # It found nothing to do: acts on many runs are not among those that they act upon.
    view = await client.do(client.engine.bulks.get("bulk-1"))
    assert (view.state, view.matched, view.is_over) == ("done", 0, True)


async def test_names_count_up_and_never_twice(harness: Harness):
    waits, _ = Shop().workflows()
    worker = await harness.worker(waits)
    await worker.start(waits, key="bulk-2")
    started = await worker.do(
        asyncio.wait_for(asyncio.gather(*(worker.engine.bulks.start("pause", "status:paused") for _ in range(4))), 60)
    )

    assert sorted(bulk.name for bulk in started) == ["bulk-1", "bulk-3", "bulk-4", "bulk-5"]
    assert [bulk.name for bulk in await worker.do(worker.engine.bulks.list(limit=2))] == ["bulk-5", "bulk-4"]
    with pytest.raises(NotFoundError):
        await worker.do(worker.engine.bulks.get("bulk-2"))


@pytest.mark.parametrize(
    ("verb", "where", "options", "error"),
    [
        ("cancle", "status:failed", {}, InvalidOptionError),
        ("cancel", None, {}, InvalidOptionError),
        ("cancel", "status:failed", {"runs": ["x"]}, InvalidOptionError),
        ("cancel", "status:failed", {"reasn": "x"}, InvalidOptionError),
        ("cancel", "status:failed", {"compensate": "yes"}, InvalidOptionError),
        ("rewind", "status:failed", {}, InvalidOptionError),
        ("redrive", "status:failed", {"version": "newest"}, InvalidOptionError),
        ("cancel", "status:faild", {}, FilterError),
        ("cancel", None, {"runs": [f"r{number}" for number in range(10_001)]}, RequestError),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_nothing_is_stored(
    harness: Harness, verb: str, where: str | None, options: dict[str, Any], error: type[Exception]
):
    client = await harness.client()
    with pytest.raises(error):
        await begin(client, verb, where, **options)

    assert await client.do(client.engine.bulks.list()) == []


async def test_too_many_runs_for_one_act_are_refused(harness: Harness, monkeypatch: pytest.MonkeyPatch):
    waits, _ = Shop().workflows()
    worker = await harness.worker(waits)
    for _ in range(5):
        await worker.start(waits)
    monkeypatch.setattr(bulks, "MATCHED_MAX", 4)

    await begin(worker, "cancel", "status:active")
    await harness.advance("1m")

    assert (await worker.do(worker.engine.bulks.get("bulk-1"))).state == "failed"
    assert len(await worker.do(worker.engine.runs.list("status:waiting"))) == 5
    with pytest.raises(RequestError, match="more than 4 runs match"):
        await worker.do(worker.engine.bulks.match("status:active"))


# --- a crash anywhere ---


@pytest.mark.parametrize("verb", ["cancel", "retry", "rewind"])
def test_a_worker_that_dies_at_any_call_leaves_an_act_that_another_one_ends(verb: str):
    calls = virtually(sweep_once(verb, None))
    assert calls > 20

    for call in range(1, calls + 1):
        virtually(sweep_once(verb, call))


def virtually(work: Coroutine[Any, Any, int]) -> int:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


async def sweep_once(verb: str, call: int | None) -> int:
    """Kill the worker after its n-th call to the store; how many calls there were."""
    shop, harness = Shop(), Harness(STORES["sqlite"](), "live")
    waits, fails = shop.workflows()
    flow, where = (fails, "status:failed") if verb == "retry" else (waits, "status:waiting")
    client, worker = await harness.client(), await harness.worker(waits, fails, **FAST)
    runs = [await worker.start(flow) for _ in range(5)]
    await harness.drain()
    shop.is_broken = False
    worker.wire.calls.clear()

    async def die(_: str) -> None:
        if len(worker.wire.calls) == call:
            worker.crash()
            await asyncio.get_running_loop().create_future()

    worker.wire.after = die
    bulk = await begin(client, verb, where, **({"path": "/"} if verb == "rewind" else {}))
    await harness.advance("5s")
    calls = len(worker.wire.calls)
    await harness.worker(waits, fails, **FAST)
    await harness.advance("1m")

    engine: Engine = client.engine
    view = await client.do(engine.bulks.get(bulk.name))
    assert (view.state, view.matched, view.done) == ("done", 5, 5), (call, view)
    items = await client.do(engine.bulks.items(bulk.name))
    assert sorted(item.run_id for item in items) == sorted(run.run_id for run in runs)
    for run in runs:
        acts = await client.do(engine.runs.list_acts(run.run_id))
        assert [act.verb for act in acts] == [verb], (call, acts)
    await harness.close()
    return calls
