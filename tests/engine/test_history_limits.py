"""The limit of a run's history: a warning near it, and beyond it a pause that names the way out."""

from __future__ import annotations

import logging

import pytest

from stepwell import Context, workflow
from tests.cases.harness import Harness


async def tick(number: int) -> int:
    return number


async def test_a_run_near_the_limit_is_warned_of_and_beyond_it_is_paused_and_continues_with_a_higher_one(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    @workflow
    async def endless(ctx: Context, rounds: int) -> int:
        for number in range(rounds):
            await ctx.step(tick, number)
        return rounds

    worker = await harness.worker(endless, entries_max=20)
    with caplog.at_level(logging.WARNING, logger="stepwell.worker"):
        fits, near, full = [await worker.start(endless, rounds) for rounds in (10, 18, 40)]
        await harness.drain()

    assert await harness.result(fits) == 10
    assert await harness.result(near) == 18
    paused = await harness.status(full)
    assert paused.status == "paused"
    assert paused.failure is not None
    assert paused.failure.code == "SW126"
    warned = {record.getMessage().split()[4] for record in caplog.records if "with more than 20" in record.getMessage()}
    assert warned == {near.run_id, full.run_id}

    await harness.deploy(worker, endless, entries_max=100)
    await harness.drain()
    await worker.engine.holds.resume(full.run_id, by="ann")
    await harness.drain()
    assert await harness.result(full) == 40
