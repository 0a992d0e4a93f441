"""Edda, as a library in this process, on SQLite or PostgreSQL. A start there is also the first stretch of execution."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from edda import EddaApp, activity, publish, receive, sleep, subscribe, workflow  # type: ignore[import-not-found]

from bench.peers.drivers.notes import NOTES
from bench.peers.drivers.workloads import Told, main

_AT_ONCE = 10  # runs at one time in this process; more wait for a connection
_POLL_SECONDS = 0.005


@activity
async def tick(_: Any, number: int) -> int:
    """The smallest step there is."""
    return number + 1


@workflow
async def sequence(ctx: Any, run: str, n: int) -> dict[str, int]:
    """Trivial steps, one after the other."""
    number = 0
    for _ in range(n):
        number = await tick(ctx, number)
    return {"number": number}


@workflow
async def waiting(ctx: Any, run: str, n: int) -> dict[str, int]:
    """Waits for a message on a channel of its own, then one step."""
    await subscribe(ctx, run)
    NOTES.reaches(run)
    await receive(ctx, run)
    return {"number": await tick(ctx, n)}


@workflow
async def sleeping(ctx: Any, run: str, n: int) -> dict[str, int]:
    """Sleeps."""
    NOTES.sleeps(run)
    await sleep(ctx, n)
    NOTES.wakes(run)
    return {"number": n}


@workflow
async def long(ctx: Any, run: str, n: int) -> dict[str, int]:
    """As `sequence`, and then it waits for a message."""
    await subscribe(ctx, run)
    number = 0
    for _ in range(n):
        number = await tick(ctx, number)
    NOTES.reaches(run)
    await receive(ctx, run)
    return {"number": number}


WORKFLOWS = {"sequence": sequence, "waiting": waiting, "sleeping": sleeping, "long": long}


class Edda:
    """One application."""

    waits_at_once = 64

    def __init__(self) -> None:
        self._begun: dict[str, asyncio.Task[str]] = {}
        self._instances: dict[str, str] = {}

    async def open(self, order: dict[str, Any]) -> None:
        logging.disable(logging.WARNING)
        self._keeps_instances = order["workload"] != "W7"  # there the driver's memory would be taken for the peer's
        # Two at once on one SQLite file fail with errors of its constraints.
        self._room = asyncio.Semaphore(1 if order["url"].startswith("sqlite:") else _AT_ONCE)
        self._app = EddaApp(
            service_name="bench",
            db_url=order["url"].replace("postgresql://", "postgresql+asyncpg://"),
            pool_size=20,
            notify_fallback_interval=1,
        )
        await self._app.initialize()

    async def close(self) -> None:
        await self._app.shutdown()

    async def start(self, kind: str, run: str, argument: int) -> None:
        if kind == "noted":
            raise Told("looks for the runs of dead processes once a minute; this cannot be set")
        if kind not in self._begun:  # two first ones of a kind at once fail
            self._begun[kind] = asyncio.create_task(self._execute(kind, run, argument))
            instance = await self._begun[kind]
        else:
            await self._begun[kind]
            instance = await self._execute(kind, run, argument)
        if self._keeps_instances:
            self._instances[run] = instance

    async def _execute(self, kind: str, run: str, argument: int) -> str:
        async with self._room:
            return str(await WORKFLOWS[kind].start(run=run, n=argument))

    async def run(self, kind: str, run: str, argument: int) -> None:
        await self.start(kind, run, argument)
        await self.result(run)

    async def result(self, run: str) -> None:
        instance = self._instances.pop(run, None)
        if instance is None:
            [found] = (await self._app.storage.list_instances(workflow_name_filter=run))["instances"]
            instance = found["instance_id"]
        while (status := (await self._app.storage.get_instance(instance))["status"]) != "completed":
            if status in {"failed", "cancelled"}:
                raise RuntimeError(f"{run} ended as {status}")
            await asyncio.sleep(_POLL_SECONDS)

    async def signal(self, run: str) -> None:
        await publish(self._app.storage, run, {"go": True})


if __name__ == "__main__":
    main(Edda())
