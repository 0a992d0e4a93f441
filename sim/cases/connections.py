"""Connections to a PostgreSQL server that are half-open: what is said on them is never answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from sim.cases.case import Tried
from stepwell import Context, Engine, Transaction, WorkerSettings, step, workflow
from stepwell.errors import StepwellError

SETTINGS = WorkerSettings(lease="1s", sweep_every="500ms")
SECONDS_MAX = 20.0  # many leases, and far less than what a driver waits by itself


async def _work(number: int) -> int:
    return number


@step(transaction=True)
def _enter(tx: Transaction, number: int) -> int:
    tx.execute("select 1")
    return number


@workflow
async def working(ctx: Context, number: int) -> list[int]:
    """A usual step and a transactional one."""
    return [await ctx.step("work", _work, number), await ctx.step("enter", _enter, number)]


async def _go_on(url: str, proxy: Any, way: str) -> str:
    async with Engine(proxy.url(url), workflows=[working], settings=SETTINGS) as engine:
        await (await engine.start(working, 1)).result()
        getattr(proxy, way)()
        try:
            async with asyncio.timeout(SECONDS_MAX):
                result = await (await engine.start(working, 2)).result()
        except (TimeoutError, StepwellError) as error:
            await engine.shutdown(0.0)
            return f"nothing went on for {SECONDS_MAX:g} s: {type(error).__name__}"
    return "" if result == [2, 2] else f"it gave {result}"


def falling_silent() -> Iterator[Tried]:
    """Every wait for the server ends within the lease, and work goes on over new connections."""
    from tests.servers.cleared import cleared_url
    from tests.servers.proxy import Proxy

    for way in ("cut_silently", "drop_answers"):
        url = cleared_url()
        port = urlsplit(url).port
        assert port is not None
        with Proxy(port) as proxy:
            yield Tried(f"every connection dies by {way}", "live", asyncio.run(_go_on(url, proxy, way)))


PLAYS: dict[str, Any] = {"half-open connections": falling_silent}
