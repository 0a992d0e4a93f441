"""A worker's loops are watched over, and what one run does to the worker stays with that run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, StepContext, workflow
from stepwell.errors import WorkerStoppedError
from stepwell.replay.journal import Journal
from stepwell.stores.base.workers import lease_lost
from stepwell.views import EntryView, RunView
from stepwell.worker.observers import Observers
from stepwell.worker.registration import Registration
from tests.cases.harness import Harness, Node


class NoClass:
    @property
    def __class__(self) -> Any:
        raise LookupError("there is no such user")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise LookupError("there is no such user")


class NoRepr:
    def __repr__(self) -> str:
        raise LookupError("no words")


class NoEquality:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise LookupError("not comparable")


class OddExit(BaseException):
    def __str__(self) -> str:
        raise LookupError("no words, either")


class NoReprExit(NoRepr, SystemExit):
    pass


def _worker(node: Node) -> Any:
    assert node.engine._worker is not None
    return node.engine._worker


@pytest.mark.parametrize("place", ["returned", "of a step", "input of a child"])
@pytest.mark.parametrize("make", [NoClass, NoRepr, NoEquality])
async def test_an_odd_value_stops_its_own_run_and_no_other(harness: Harness, make: Callable[[], Any], place: str):
    async def give() -> Any:
        return make()

    @workflow
    async def bad(ctx: Context) -> Any:
        await ctx.sleep("pause", "1s")
        if place == "of a step":
            await ctx.step(give)
        elif place == "input of a child":
            await ctx.child(good, make())
        return make()

    @workflow
    async def good(ctx: Context, value: Any) -> Any:
        await ctx.sleep("pause", value)
        return "done"

    worker = await harness.worker(bad, good, lease="10s", sweep_every="1s")
    odd = await worker.start(bad)
    others = [await worker.start(good, f"{seconds}s") for seconds in (2, 3)]
    await harness.advance("20s")

    assert [await harness.result(run) for run in others] == ["done"] * 2
    status = await worker.do(worker.engine.status(odd.run_id))
    assert status is not None
    assert status.status in ("paused", "failed")
    assert status.failure is not None
    later = await worker.start(good, "1s")
    await harness.advance("5s")
    assert await harness.result(later) == "done"


@pytest.mark.parametrize("error", [OddExit, NoReprExit, GeneratorExit, asyncio.CancelledError])
async def test_an_odd_error_of_the_code_stops_its_own_run_and_no_other(
    harness: Harness, error: Callable[[], BaseException]
):
    @workflow
    async def bad(ctx: Context) -> None:
        await ctx.sleep("pause", "1s")
        raise error()

    @workflow
    async def good(ctx: Context) -> str:
        await ctx.sleep("pause", "2s")
        return "done"

    worker = await harness.worker(bad, good, lease="10s", sweep_every="1s")
    odd, other = await worker.start(bad), await worker.start(good)
    await harness.advance("20s")

    assert await harness.result(other) == "done"
    status = await worker.do(worker.engine.status(odd.run_id))
    assert status is not None
    assert status.status in ("paused", "failed", "cancelled")


@pytest.mark.parametrize("verb", ["append", "checkpoint"])
async def test_a_defect_while_a_body_keeps_something_stops_its_own_run_and_no_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, verb: str
):
    take, seen = Journal.take, []

    def fail(self: Journal, *args: Any) -> Any:
        if self.pending.extras.appends or self.pending.extras.progress:
            seen.append(verb)
            raise LookupError("a defect")
        return take(self, *args)

    async def keeps(info: StepContext) -> None:
        await (info.stream("out").append(1) if verb == "append" else info.checkpoint(1))

    @workflow
    async def bad(ctx: Context) -> None:
        await ctx.step(keeps)

    @workflow
    async def good(ctx: Context) -> str:
        await ctx.sleep("pause", "2s")
        return "done"

    monkeypatch.setattr(Journal, "take", fail)
    worker = await harness.worker(bad, good, lease="10s", sweep_every="1s")
    odd, other = await worker.start(bad), await worker.start(good)
    await harness.advance("20s")

    assert seen == [verb]
    assert await harness.result(other) == "done"
    status = await worker.do(worker.engine.status(odd.run_id))
    assert status is not None
    assert status.status == "paused"
    assert "LookupError" in str(status.failure)


@workflow
async def waiting(ctx: Context) -> Any:
    return (await ctx.receive("go")).payload


LOOPS = [("_claimer", "claim_once"), ("_registration", "renew_once"), ("_sweeper", "sweep_once")]


@pytest.mark.parametrize(("part", "name"), LOOPS)
async def test_a_loop_that_ends_a_few_times_is_started_again(harness: Harness, part: str, name: str):
    worker = await harness.worker(waiting, lease="10s", sweep_every="1s")
    served = _worker(worker)
    original, failures = (
        getattr(getattr(served, part), name),
        [KeyError("a defect"), RuntimeError("another"), asyncio.CancelledError()],
    )

    async def fail() -> Any:
        if failures:
            raise failures.pop()
        return await original()

    setattr(getattr(served, part), name, fail)
    run = await worker.start(waiting)
    served._resources.wake.set()
    await harness.advance("20s")
    await worker.signal(run.run_id, "go", "on")
    await harness.advance("20s")

    assert failures == []
    assert served.failure is None
    assert await harness.result(run) == "on"


@pytest.mark.parametrize(("part", "name"), LOOPS)
async def test_a_worker_whose_loop_ends_for_ever_gives_its_runs_to_others(harness: Harness, part: str, name: str):
    broken = await harness.worker(waiting, lease="1h", sweep_every="1s")
    served = _worker(broken)
    runs = [await broken.start(waiting) for _ in range(3)]

    async def fail() -> Any:
        raise RuntimeError("a defect")

    setattr(getattr(served, part), name, fail)
    served._resources.wake.set()
    failing = asyncio.ensure_future(broken.do(broken.engine.wait_failed()))
    await harness.advance("1h")

    assert isinstance(failing.result(), WorkerStoppedError)
    assert "RuntimeError" in failing.result().title
    assert await broken.wire.behind.views.list_workers() == []
    other = await harness.worker(waiting, lease="10s", sweep_every="1s")
    for run in runs:
        await other.signal(run.run_id, "go", 1)
    await harness.advance("5s")
    assert [await harness.result(run) for run in runs] == [1, 1, 1]


async def test_a_loop_that_returns_is_not_taken_for_one_that_works(harness: Harness):
    worker = await harness.worker(waiting, lease="1h", sweep_every="1s")
    served = _worker(worker)

    async def leave() -> None:
        return None

    served._supervisor.supervise("sweeper", leave)
    await harness.advance("1m")

    assert served.failure is not None
    assert "sweeper" in served.failure


def _tasks(served: Any) -> list[asyncio.Task[None]]:
    return [tended.task for tended in served._supervisor._loops.values() if tended.task is not None]


async def test_one_loop_that_is_cancelled_from_outside_is_started_again(harness: Harness):
    worker = await harness.worker(waiting, lease="10s", sweep_every="1s")
    served = _worker(worker)
    for task in _tasks(served):
        task.cancel()
        await harness.advance("1m")

    run = await worker.start(waiting)
    await worker.signal(run.run_id, "go", "on")
    await harness.advance("1m")

    assert served.failure is None
    assert await harness.result(run) == "on"


async def test_a_worker_whose_loops_are_all_cancelled_from_outside_ends(harness: Harness):
    worker = await harness.worker(waiting, lease="1h", sweep_every="1s")
    served = _worker(worker)
    run = await worker.start(waiting)

    for task in _tasks(served):
        task.cancel()
    await harness.advance("1s")

    assert served.failure is not None
    assert "cancelled" in served.failure
    assert await worker.wire.behind.views.list_workers() == []
    other = await harness.worker(waiting)
    await other.signal(run.run_id, "go", 1)
    await harness.advance("5s")
    assert await harness.result(run) == 1


@pytest.mark.parametrize("is_async", [True, False])
def test_an_event_loop_that_ends_ends_its_workers_quietly(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, *, is_async: bool
):
    url = f"sqlite:///{tmp_path / 'left.db'}"

    @workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(hang if is_async else block)

    async def leave() -> None:
        engine = Engine(url, workflows=[flow])
        await engine.__aenter__()
        await engine.start(flow, key="k")
        await asyncio.to_thread(has_begun.wait)

    async def hang() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    def block() -> None:
        has_begun.set()
        may_end.wait()

    async def look() -> tuple[RunView | None, list[EntryView]]:
        async with Engine(url) as engine:
            return await engine.status("k"), await engine.runs.history("k")

    has_begun, may_end = threading.Event(), threading.Event()
    asyncio.run(leave())
    may_end.set()
    found, tried = asyncio.run(look())

    assert [record.getMessage() for record in caplog.records] == []
    assert found is not None
    assert found.status == "running"
    assert found.failure is None
    assert tried == []


class Leaving:
    """An observer that always raises what ends a process."""

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            raise SystemExit(name)

        return fail


async def test_an_observer_that_raises_changes_nothing(harness: Harness):
    async def work() -> int:
        return 1

    @workflow
    async def flow(ctx: Context) -> int:
        await ctx.sleep("pause", "1m")
        return await ctx.step(work)

    worker = await harness.worker(flow)
    served = _worker(worker)
    observers = served._resources.observers = Observers([Leaving()])
    served._resources.committer._on_written = observers.wrote
    run = await worker.start(flow)
    await harness.advance("2m")

    assert await harness.result(run) == 1


async def test_a_loop_that_ends_while_it_takes_a_lost_lease_anew_leaves_a_worker_that_serves(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    register, renew, failures = Registration.register, Registration.renew_once, ["register", "renew"]

    async def lose(self: Registration) -> bool:
        if "renew" in failures:
            failures.remove("renew")
            raise lease_lost("it has run out")
        return await renew(self)

    async def fail(self: Registration) -> None:
        if "register" in failures:
            failures.remove("register")
            raise LookupError("a defect")
        await register(self)

    @workflow
    async def good(ctx: Context) -> str:
        return "done"

    worker = await harness.worker(good, lease="10s", sweep_every="1s")
    monkeypatch.setattr(Registration, "renew_once", lose)
    monkeypatch.setattr(Registration, "register", fail)
    await harness.advance("30s")
    run = await worker.start(good)
    await harness.advance("10s")

    assert failures == []
    assert await harness.result(run) == "done"
