"""Waits that would end after the calendar does are as long as anything may wait, and break no list."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell import Context, Retry, RetryAfter, step, workflow
from stepwell.clock import SPAN_MAX, Instant, to_instant
from tests.cases.harness import Harness

FAR = 999_999_999_999  # seconds


@step(retry=Retry(max_attempts=3))
async def polite() -> None:
    raise RetryAfter(FAR)


@step(retry=Retry(max_attempts=3, delay=lambda _, __: FAR))
async def patient() -> None:
    raise ValueError


@step(retry=Retry(max_attempts=3, initial=FAR, factor=1e300, max_delay=FAR, jitter=1e9))
async def slow() -> None:
    raise ValueError


@workflow
async def far(ctx: Context, how: str) -> None:
    match how:
        case "retry after":
            await ctx.step(polite)
        case "delay of a retry":
            await ctx.step(patient)
        case "back-off":
            await ctx.step(slow)
        case "sleep":
            await ctx.sleep("nap", FAR)
        case "receive":
            await ctx.receive("go", timeout=FAR)
        case "topic":
            await ctx.topic("news", timeout=FAR)
        case _:
            await ctx.sleep_until("nap", datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    "how", ["retry after", "delay of a retry", "back-off", "sleep", "receive", "topic", "until the last day"]
)
async def test_a_wait_past_the_calendar_breaks_no_list(harness: Harness, how: str) -> None:
    worker = await harness.worker(far)
    run = await worker.start(far, how)
    await harness.advance("1s")

    [found] = await worker.engine.runs.list()
    shown = await worker.engine.status(run.run_id)
    assert shown is not None
    assert (found.run_id, found.status, shown.wake_at) == (run.run_id, "waiting", found.wake_at)
    assert await worker.engine.explain(run.run_id) is not None
    await worker.do(worker.engine.cancel(run.run_id))


@pytest.mark.parametrize("option", ["deadline", "max_suspend", "delay"])
async def test_a_start_with_a_time_past_the_calendar_breaks_no_list(harness: Harness, option: str) -> None:
    given: dict[str, Any] = {option: FAR}
    worker = await harness.worker(far)
    run = await worker.start(far, "receive", **given)
    await harness.advance("1s")

    [found] = await worker.engine.runs.list()
    assert found.run_id == run.run_id
    stored = await worker.wire.behind.views.find(run.run_id)
    assert stored is not None
    latest = Instant(worker.engine.now() + SPAN_MAX)
    assert all(at is None or at <= latest for at in (stored.wake_at, stored.deadline_at))
    assert latest < to_instant(datetime(9999, 1, 1, tzinfo=UTC))
    await worker.do(worker.engine.cancel(run.run_id))
