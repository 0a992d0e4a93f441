"""DBOS Transact, as a library in this process, on SQLite or PostgreSQL: asynchronous workflows and steps."""

from __future__ import annotations

import asyncio
from typing import Any

from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found]

from bench.peers.drivers.notes import NOTES
from bench.peers.drivers.workloads import main


@DBOS.step()
async def tick(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@DBOS.step()
async def note(run: str, number: int) -> int:
    """A step that can be counted."""
    return NOTES.step(run, number)


@DBOS.workflow()
async def sequence(steps: int) -> int:
    """Trivial steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await tick(number)
    return number


@DBOS.workflow()
async def noted(steps: int) -> int:
    """As `sequence`, and each is noted."""
    number, run = 0, DBOS.workflow_id
    for _ in range(steps):
        number = await note(run, number)
    return number


@DBOS.workflow()
async def waiting(_: int) -> None:
    """Waits for a message, then one step."""
    NOTES.reaches(DBOS.workflow_id)
    await DBOS.recv_async("go", timeout_seconds=3600)
    await tick(0)


@DBOS.workflow()
async def sleeping(seconds: int) -> None:
    """Sleeps."""
    run = DBOS.workflow_id
    NOTES.sleeps(run)
    await DBOS.sleep_async(seconds)
    NOTES.wakes(run)


@DBOS.workflow()
async def long(steps: int) -> int:
    """As `sequence`, and then it waits for a message."""
    number, run = 0, DBOS.workflow_id
    for _ in range(steps):
        number = await tick(number)
    NOTES.reaches(run)
    await DBOS.recv_async("go", timeout_seconds=3600)
    return number


WORKFLOWS = {"sequence": sequence, "noted": noted, "waiting": waiting, "sleeping": sleeping, "long": long}


class Dbos:
    """One executor."""

    waits_at_once = 1 << 20

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}

    async def open(self, order: dict[str, Any]) -> None:
        config = {
            "name": "bench",
            "system_database_url": order["url"],
            "application_version": "1",  # whoever comes after a kill takes up what it left
            "executor_id": "one",
            "log_level": "ERROR",
            "run_admin_server": False,
            **order.get("settings", {}),
        }
        self._keeps_handles = order["workload"] != "W7"  # there the driver's memory would be taken for the peer's
        DBOS(config=config)
        DBOS.launch()

    async def close(self) -> None:
        await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=0)

    async def start(self, kind: str, run: str, argument: int) -> None:
        with SetWorkflowID(run):
            handle = await DBOS.start_workflow_async(WORKFLOWS[kind], argument)
        if self._keeps_handles:
            self._handles[run] = handle

    async def run(self, kind: str, run: str, argument: int) -> None:
        with SetWorkflowID(run):
            await WORKFLOWS[kind](argument)

    async def result(self, run: str) -> None:
        handle = self._handles.pop(run, None)
        if handle is None:
            handle = await DBOS.retrieve_workflow_async(run)
        await handle.get_result(polling_interval_sec=0.1)

    async def signal(self, run: str) -> None:
        await DBOS.send_async(run, True, topic="go")


if __name__ == "__main__":
    main(Dbos())
