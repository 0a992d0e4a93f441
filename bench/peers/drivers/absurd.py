"""Absurd on PostgreSQL: asynchronous workers and clients in this process, each with a connection of its own."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

from absurd_sdk import AsyncAbsurd  # type: ignore[import-not-found]

from bench.peers.drivers.notes import NOTES
from bench.peers.drivers.workloads import main

_AT_ONCE = 100  # runs that the workers execute at one time
_CONNECTIONS = 2  # an object has one connection; with more pairs of worker and client the polling takes the gain
_POLL_SECONDS = 0.01  # its own default is 0.25


async def tick() -> int:
    """The smallest step there is."""
    return 1


async def sequence(params: dict[str, Any], ctx: Any) -> int:
    """Trivial steps, one after the other."""
    number = 0
    for _ in range(params["n"]):
        number += await ctx.step("tick", tick)
    return number


async def noted(params: dict[str, Any], ctx: Any) -> int:
    """As `sequence`, and each is noted."""
    number = 0

    async def note() -> int:
        return NOTES.step(params["run"], number)

    for _ in range(params["n"]):
        number = await ctx.step("note", note)
    return number


async def waiting(params: dict[str, Any], ctx: Any) -> None:
    """Waits for an event of its own, then one step."""
    NOTES.reaches(params["run"])
    await ctx.await_event(f"go:{params['run']}")
    await ctx.step("tick", tick)


async def sleeping(params: dict[str, Any], ctx: Any) -> None:
    """Sleeps."""
    NOTES.sleeps(params["run"])
    await ctx.sleep_for("nap", params["n"])
    NOTES.wakes(params["run"])


async def long(params: dict[str, Any], ctx: Any) -> int:
    """As `sequence`, and then it waits for an event."""
    number = 0
    for _ in range(params["n"]):
        number += await ctx.step("tick", tick)
    NOTES.reaches(params["run"])
    await ctx.await_event(f"go:{params['run']}")
    return number


class Absurd:
    """Clients and workers. A run is found again by its idempotency key."""

    waits_at_once = 64

    def __init__(self) -> None:
        self._tasks: dict[str, str] = {}
        self._serving: list[asyncio.Task[None]] = []
        self._calls = itertools.count()

    async def open(self, order: dict[str, Any]) -> None:
        if not (order.get("recover") or order.get("resume")):
            control = str(Path(sys.executable).with_name("absurdctl"))
            for words in (["init"], ["create-queue", "bench"]):
                command = [control, words[0], "--database", order["url"], *words[1:]]
                await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
        self._keeps_tasks = order["workload"] != "W7"  # there the driver's memory would be taken for the peer's
        self._clients = [AsyncAbsurd(order["url"], queue_name="bench") for _ in range(_CONNECTIONS)]
        self._workers = [AsyncAbsurd(order["url"], queue_name="bench") for _ in range(_CONNECTIONS)]
        for number, worker in enumerate(self._workers):
            for kind in (sequence, noted, waiting, sleeping, long):
                worker.register_task(kind.__name__)(kind)
            serving = worker.start_worker(
                worker_id=f"bench-{number}",
                concurrency=_AT_ONCE // _CONNECTIONS,
                poll_interval=order.get("poll", _POLL_SECONDS),
                claim_timeout=order.get("claim_timeout", 120),
            )
            self._serving.append(asyncio.create_task(serving))
        for client in self._clients:  # two calls at once would both open its connection
            await client.list_queues()

    async def close(self) -> None:
        for worker in self._workers:
            worker.stop_worker()
        await asyncio.gather(*self._serving)
        for one in (*self._workers, *self._clients):
            await one.close()

    async def start(self, kind: str, run: str, argument: int) -> None:
        spawned = await self._client().spawn(
            kind, {"run": run, "n": argument}, queue="bench", idempotency_key=run, max_attempts=5
        )
        if self._keeps_tasks:
            self._tasks[run] = spawned["task_id"]

    async def run(self, kind: str, run: str, argument: int) -> None:
        await self.start(kind, run, argument)
        await self.result(run)

    async def result(self, run: str) -> None:
        if run not in self._tasks:  # started by a process that is gone; the key finds it, and the rest is ignored
            await self.start("noted", run, 0)
        ended = await self._client().await_task_result(self._tasks.pop(run))
        if ended.state != "completed":
            raise RuntimeError(f"{run} ended as {ended.state}")

    async def signal(self, run: str) -> None:
        await self._client().emit_event(f"go:{run}")

    def _client(self) -> Any:
        return self._clients[next(self._calls) % _CONNECTIONS]


if __name__ == "__main__":
    main(Absurd())
