"""Temporal: a worker and a client in this process, its dev server with a database file beside it. Steps are local
activities.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow  # type: ignore[import-not-found]
from temporalio.client import Client  # type: ignore[import-not-found]
from temporalio.worker import UnsandboxedWorkflowRunner, Worker  # type: ignore[import-not-found]

from bench.peers.drivers.notes import NOTES
from bench.peers.drivers.workloads import main

_LIMIT = timedelta(minutes=5)


@activity.defn
async def tick(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@activity.defn
async def note(run: str, number: int) -> int:
    """A step that can be counted."""
    return NOTES.step(run, number)


async def _steps(count: int) -> int:
    number = 0
    for _ in range(count):
        number = await workflow.execute_local_activity(tick, number, start_to_close_timeout=_LIMIT)
    return number


@workflow.defn(name="sequence")
class Sequence:
    """Trivial steps, one after the other."""

    @workflow.run
    async def run(self, steps: int) -> int:
        return await _steps(steps)


@workflow.defn(name="noted")
class Noted:
    """As `sequence`, and each is noted."""

    @workflow.run
    async def run(self, steps: int) -> int:
        number, run = 0, workflow.info().workflow_id
        for _ in range(steps):
            number = await workflow.execute_local_activity(note, args=[run, number], start_to_close_timeout=_LIMIT)
        return number


class _Signalled:
    def __init__(self) -> None:
        self._gone = False

    @workflow.signal
    def go(self) -> None:
        """What is waited for."""
        self._gone = True

    async def _wait(self) -> None:
        NOTES.reaches(workflow.info().workflow_id)
        await workflow.wait_condition(lambda: self._gone)


@workflow.defn(name="waiting")
class Waiting(_Signalled):
    """Waits for a signal, then one step."""

    @workflow.run
    async def run(self, _: int) -> None:
        await self._wait()
        await _steps(1)


@workflow.defn(name="sleeping")
class Sleeping:
    """Sleeps."""

    @workflow.run
    async def run(self, seconds: int) -> None:
        run = workflow.info().workflow_id
        NOTES.sleeps(run)
        await asyncio.sleep(seconds)
        NOTES.wakes(run)


@workflow.defn(name="long")
class Long(_Signalled):
    """As `sequence`, and then it waits for a signal."""

    @workflow.run
    async def run(self, steps: int) -> int:
        number = await _steps(steps)
        await self._wait()
        return number


class Temporal:
    """A client and a worker with the limits of its defaults."""

    waits_at_once = 1 << 20

    async def open(self, order: dict[str, Any]) -> None:
        self._client = await Client.connect(order["address"])
        self._worker = Worker(
            self._client,
            task_queue="bench",
            workflows=[Sequence, Noted, Waiting, Sleeping, Long],
            activities=[tick, note],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        self._serving = asyncio.create_task(self._worker.run())

    async def close(self) -> None:
        await self._worker.shutdown()
        await self._serving

    async def start(self, kind: str, run: str, argument: int) -> None:
        await self._client.start_workflow(kind, argument, id=run, task_queue="bench")

    async def run(self, kind: str, run: str, argument: int) -> None:
        await self.start(kind, run, argument)
        await self.result(run)

    async def result(self, run: str) -> None:
        await self._client.get_workflow_handle(run).result()

    async def signal(self, run: str) -> None:
        await self._client.get_workflow_handle(run).signal("go")


if __name__ == "__main__":
    main(Temporal())
