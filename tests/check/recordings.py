"""Recordings of real runs, made by a real engine."""

from __future__ import annotations

from typing import Any

from stepwell import Handle
from stepwell.check.histories import Recording
from stepwell.ids import RunId
from tests.cases.harness import Harness


async def record(harness: Harness, run: Handle[Any] | str) -> Recording:
    """What is recorded of a run now."""
    run_id = RunId(run if isinstance(run, str) else run.run_id)
    store = harness.nodes[0].wire.store
    row = await store.views.find(run_id)
    [history] = await store.runs.load([run_id])
    assert row is not None
    return Recording(row, history)


async def begun(harness: Harness, flow: Any, given: Any = None) -> Recording:
    """A run of a workflow, as far as it goes by itself."""
    worker = await harness.worker(flow)
    run = await worker.start(flow, given)
    await harness.drain()
    return await record(harness, run)
