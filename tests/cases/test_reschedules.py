"""Waking runs and moving what they wait for, while they wait and before they begin."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepwell import BusinessHours, Context, Retry, SyncContext, signal, step, timer, workflow
from stepwell.errors import InvalidMoveError, InvalidOptionError, NotFoundError, RunHeldError
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger


def minutes(earlier: datetime, later: datetime) -> int:
    return round((later - earlier) / timedelta(minutes=1))


@workflow
async def sleeper(ctx: Context) -> int:
    began = ctx.now()
    await ctx.sleep("nap", "10h")
    return minutes(began, ctx.now())


async def moved(worker: Node, run: Any, *given: Any, **when: Any) -> Any:
    return await worker.do(run.reschedule(*given, **when))


@pytest.mark.parametrize("way", ["path", "only one"])
async def test_a_sleep_is_shortened_and_prolonged(harness: Harness, way: str):
    worker = await harness.worker(sleeper)
    run = await worker.start(sleeper)
    await harness.advance("1h")

    given = ("nap",) if way == "path" else ()
    done = await moved(worker, run, *given, delay="20h")
    assert (done.path, minutes(done.before, done.due_at)) == ("nap", 11 * 60)
    await harness.advance("12h")
    assert (await harness.status(run)).status == "waiting"
    await moved(worker, run, *given, delay="30m")
    await harness.advance("40m")

    assert await harness.result(run) == 13 * 60 + 30
    acts = await worker.do(worker.engine.runs.list_acts(run.run_id))
    assert [act.verb for act in acts] == ["reschedule", "reschedule"]


async def test_a_sleep_that_was_moved_keeps_its_time_after_a_crash(harness: Harness):
    worker = await harness.worker(sleeper)
    run = await worker.start(sleeper)
    await harness.advance("1h")
    await moved(worker, run, "nap", until=harness_time(harness) + timedelta(hours=4))
    await harness.advance("1h")
    await harness.takeover(worker, sleeper)
    await harness.advance("2h")

    assert await harness.result(run) == 300


async def test_timeouts_and_timers_are_moved(harness: Harness):
    @workflow
    async def flow(ctx: Context) -> list[int]:
        began, found = ctx.now(), []
        await ctx.receive("never", timeout="10h", default=None)
        found.append(minutes(began, ctx.now()))
        await ctx.wait_any("first", got=signal("never"), late=timer("10h"))
        found.append(minutes(began, ctx.now()))
        try:
            async with asyncio.timeout(36_000):
                await ctx.receive("ever")
        except TimeoutError:
            found.append(minutes(began, ctx.now()))
        return found

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("1h")
    for path in ("never", "first", "timer"):
        await moved(worker, run, path, delay="1h")
        await harness.advance("1h")

    assert await harness.result(run) == [120, 180, 240]


async def test_a_plain_workflow_is_rescheduled_too(harness: Harness):
    @workflow
    def plain(ctx: SyncContext) -> int:
        began = ctx.now()
        ctx.sleep("nap", "10h")
        return minutes(began, ctx.now())

    worker = await harness.worker(plain)
    run = await worker.start(plain)
    await harness.advance("1h")
    await moved(worker, run, delay=0)
    await harness.advance("1m")

    assert await harness.result(run) == 60


async def test_a_delayed_run_begins_at_another_time_or_now(harness: Harness, ledger: Ledger):
    @workflow
    async def job(ctx: Context, name: str) -> None:
        await ctx.step("work", ledger.body(name))

    worker = await harness.worker(job)
    early = await worker.start(job, "early", delay="10h")
    late = await worker.start(job, "late", delay="1h")
    woken = await worker.start(job, "woken", delay="10h")
    assert (await moved(worker, early, delay="30m")).path == ""
    await moved(worker, late, delay="5h")
    assert await worker.do(woken.wake())
    await harness.drain()
    assert ledger.lines == ["woken"]
    await harness.advance("2h")
    assert ledger.lines == ["woken", "early"]
    await harness.advance("4h")
    assert ledger.lines == ["woken", "early", "late"]


async def test_waking_runs_the_code_again_and_keeps_deadlines_and_attempts(harness: Harness, ledger: Ledger):
    replays: list[bool] = []
    failing = step(
        ledger.failing("fails", times=9), name="fails", retry=Retry(max_attempts=3, initial="1h", factor=1, jitter=0)
    )

    @workflow
    async def flow(ctx: Context) -> str:
        replays.append(ctx.is_replaying)
        await ctx.step("a", ledger.body("a"))
        tried = await ctx.try_step(failing)
        await ctx.sleep("nap", "10h")
        return f"{tried.attempts}"

    worker = await harness.worker(flow)
    run = await worker.start(flow)
    await harness.advance("90m")
    before = len(replays)
    assert await worker.do(run.wake())
    await harness.advance("5m")
    assert len(replays) == before + 1
    assert (await harness.status(run)).status == "waiting"
    await harness.advance("11h")
    await harness.advance("2h")

    assert await harness.result(run) == "3"
    assert ledger.counts == {"a": 1, "fails": 3}


async def test_what_cannot_be_moved_is_refused_with_what_can(harness: Harness, ledger: Ledger):
    @workflow
    async def two(ctx: Context) -> None:
        await asyncio.gather(ctx.sleep("one", "1h"), ctx.sleep("two", "2h"))

    @workflow
    async def message(ctx: Context) -> None:
        await ctx.receive("go")

    @workflow
    async def busy(ctx: Context) -> None:
        await ctx.step("long", asyncio.sleep, 3600)

    worker = await harness.worker(two, message, busy)
    runs = [await worker.start(each) for each in (two, message, busy)]
    await harness.advance("1m")

    with pytest.raises(InvalidOptionError, match="one, two"):
        await moved(worker, runs[0], delay="1h")
    with pytest.raises(NotFoundError, match="'one'"):
        await moved(worker, runs[0], "on", delay="1h")
    with pytest.raises(InvalidOptionError, match="delay or until"):
        await moved(worker, runs[0], "one")
    with pytest.raises(InvalidOptionError, match="both"):
        await moved(worker, runs[0], "one", delay="1h", until=datetime.now(UTC))
    with pytest.raises(InvalidMoveError, match="no wait with a deadline"):
        await moved(worker, runs[1], delay="1h")
    with pytest.raises(RunHeldError):
        await moved(worker, runs[2], delay="1h")
    assert not await worker.do(runs[2].wake())
    await worker.signal(runs[1].run_id, "go")
    await harness.advance("3h")
    with pytest.raises(InvalidMoveError, match="completed"):
        await moved(worker, runs[1], delay="1h")
    assert not await worker.do(runs[1].wake())


async def test_business_hours_end_when_the_office_was_open_long_enough(harness: Harness):
    office = BusinessHours({"mon-fri": "09:00-17:00"}, zone="Europe/Berlin")

    @workflow
    async def review(ctx: Context) -> str:
        began = ctx.now()
        slept = await ctx.sleep_business("review", 20, office)
        assert slept.due_at == office.after(began, 20)
        await ctx.sleep_business("open", "0h", office)
        return slept.woke_at.isoformat()

    worker = await harness.worker(review)
    run = await worker.start(review)
    begun = (await harness.status(run)).created_at
    await harness.advance("8h")
    await harness.takeover(worker, review)
    await harness.advance("10d")

    assert await harness.result(run) == office.after(begun, 20).isoformat()


def harness_time(harness: Harness) -> datetime:
    return datetime.fromtimestamp(harness.clock.now() / 1_000_000, UTC)
