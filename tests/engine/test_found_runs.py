"""A start that returns an existing run tells so: with that run, and with a line in the log if it did not end well."""

from __future__ import annotations

import logging

import pytest

from stepwell import Context, workflow
from tests.cases.harness import Harness


@workflow
async def failing(ctx: Context) -> None:
    raise ValueError("no")


@workflow
async def trivial(ctx: Context) -> str:
    return "done"


async def test_a_start_that_finds_a_failed_run_says_so(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    worker = await harness.worker(failing)
    first = await worker.start(failing, key="order-42")
    await harness.drain()

    with caplog.at_level(logging.WARNING, "stepwell.engine"):
        again = await worker.start(failing, key="order-42")

    assert (first.is_new, first.found) == (True, None)
    assert (again.is_new, again.run_id) == (False, first.run_id)
    assert again.found is not None
    assert again.found.status == "failed"
    assert repr(again) == f"<run {first.run_id} (found: failed)>"
    [line] = [record.getMessage() for record in caplog.records if record.name == "stepwell.engine"]
    assert line == (
        f"the start of failing with key 'order-42' started nothing: run {first.run_id} has that key, "
        "and is already failed"
    )


async def test_a_start_that_finds_a_completed_run_is_quiet(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    worker = await harness.worker(trivial)
    await worker.start(trivial, key="k")
    await harness.drain()

    with caplog.at_level(logging.WARNING, "stepwell.engine"):
        again = await worker.start(trivial, key="k")

    assert again.found is not None
    assert again.found.status == "completed"
    assert not [record for record in caplog.records if record.name == "stepwell.engine"]
