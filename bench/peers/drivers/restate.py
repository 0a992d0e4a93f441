"""Restate: services of its Python SDK behind granian in this process, and requests to the ingress of its server."""

from __future__ import annotations

import asyncio
import functools
from datetime import timedelta
from typing import Any

import aiohttp  # type: ignore[import-not-found]
import restate  # type: ignore[import-not-found]
from granian.constants import HTTPModes, Interfaces  # type: ignore[import-not-found]
from granian.server.embed import Server  # type: ignore[import-not-found]

from bench.peers.drivers.notes import NOTES
from bench.peers.drivers.workloads import main


async def tick(number: int) -> int:
    """The smallest step there is."""
    return number + 1


async def note(run: str, number: int) -> int:
    """A step that can be counted."""
    return NOTES.step(run, number)


async def sequence(ctx: restate.Context, given: dict[str, Any]) -> int:
    """Trivial steps, one after the other."""
    number = 0
    for _ in range(given["n"]):
        number = await ctx.run_typed("tick", tick, number=number)
    return number


async def noted(ctx: restate.Context, given: dict[str, Any]) -> int:
    """As `sequence`, and each is noted."""
    number = 0
    for _ in range(given["n"]):
        number = await ctx.run_typed("note", note, run=given["run"], number=number)
    return number


async def waiting(ctx: restate.Context, given: dict[str, Any]) -> None:
    """Waits for its awakeable, then one step."""
    name, future = ctx.awakeable()
    NOTES.labels[given["run"]] = name
    NOTES.reaches(given["run"])
    await future
    await ctx.run_typed("tick", tick, number=0)


async def sleeping(ctx: restate.Context, given: dict[str, Any]) -> None:
    """Sleeps."""
    NOTES.sleeps(given["run"])
    await ctx.sleep(timedelta(seconds=given["n"]))
    NOTES.wakes(given["run"])


async def long(ctx: restate.Context, given: dict[str, Any]) -> int:
    """As `sequence`, and then it waits."""
    name, future = ctx.awakeable()
    number = 0
    for _ in range(given["n"]):
        number = await ctx.run_typed("tick", tick, number=number)
    NOTES.labels[given["run"]] = name
    NOTES.reaches(given["run"])
    await future
    return number


class Restate:
    """An endpoint and a client."""

    waits_at_once = 1 << 20

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._answers: dict[str, asyncio.Task[None]] = {}

    async def open(self, order: dict[str, Any]) -> None:
        self._ingress, self._label = order["ingress"], order["folder"] + "/awakeable"
        # Beyond this a run is suspended and its connection closed; the server executes only 1,000 at once.
        # Going through a long journal again is inactivity, too: who resumes has its default of a minute.
        is_brief = "inactivity" in order and not order.get("resume")
        patience = timedelta(seconds=order["inactivity"]) if is_brief else None
        service = restate.Service("bench", inactivity_timeout=patience)
        for kind in (sequence, noted, waiting, sleeping, long):
            service.handler()(kind)
        self._server = Server(
            restate.app([service]),
            address="127.0.0.1",
            port=order["port"],
            interface=Interfaces.ASGI,
            http=HTTPModes.http2,
            log_enabled=False,
        )
        self._serving = asyncio.create_task(self._server.serve())
        await asyncio.sleep(0.3)
        # Each wait for a result is a connection.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1_000), timeout=aiohttp.ClientTimeout(total=None)
        )
        await self._post(f"{order['admin']}/deployments", {"uri": f"http://127.0.0.1:{order['port']}", "force": True})

    async def close(self) -> None:
        for name in NOTES.labels:
            if name == "long":
                await asyncio.to_thread(functools.partial(_write, self._label, NOTES.labels[name]))
        await self._session.close()
        self._server.stop()
        await self._serving

    async def start(self, kind: str, run: str, argument: int) -> None:
        self._kinds[run] = kind
        await self._post(f"{self._ingress}/bench/{kind}/send", {"run": run, "n": argument}, key=run)

    async def run(self, kind: str, run: str, argument: int) -> None:
        await self._post(f"{self._ingress}/bench/{kind}", {"run": run, "n": argument}, key=run)

    async def result(self, run: str) -> None:
        kind = self._kinds.pop(run, "long" if run == "long" else "noted")
        url = f"{self._ingress}/restate/invocation/bench/{kind}/{run}/attach"
        async with self._session.get(url) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"{run}: {answer.status} {await answer.text()}")

    async def signal(self, run: str) -> None:
        name = NOTES.labels.get(run) or await asyncio.to_thread(_read, self._label)
        await self._post(f"{self._ingress}/restate/awakeables/{name}/resolve", True)

    async def _post(self, url: str, content: Any, key: str | None = None) -> None:
        headers = {} if key is None else {"idempotency-key": key}
        async with self._session.post(url, json=content, headers=headers) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"{url}: {answer.status} {await answer.text()}")
            await answer.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


if __name__ == "__main__":
    main(Restate())
