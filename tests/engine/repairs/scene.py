"""What repairs are tried on: a world outside of the workflows, and waiting for runs to come to something."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell import Context, Engine, Retry, RunFailed, step, workflow
from stepwell.engine.handles import Handle
from stepwell.engine.views import wait_views

ONCE = Retry(max_attempts=1)
SLOW = Retry(max_attempts=3, initial="1h", max_delay="1h")


class World:
    """Outside of the workflows: it counts what was done to it, and may be out of order."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.attempts: list[tuple[str, int]] = []
        self.broken: set[str] = set()

    async def do(self, name: str) -> str:
        self.calls[name] += 1
        if name in self.broken:
            raise OSError(f"{name} is down")
        return f"{name} {self.calls[name]}"


async def fails(run: Handle[Any]) -> None:
    with pytest.raises(RunFailed):
        await run.result("60s")


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1_000):
        if await holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


async def comes_to(engine: Engine, run: Handle[Any], status: str) -> None:
    for _ in range(500):
        if (await run.status()).status == status:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it is {(await run.status()).status}, not {status}: {await engine.explain(run.run_id)}")


async def waits_at(engine: Engine, run: Handle[Any], path: str) -> bool:
    return path in {wait.path for wait in wait_views(await engine.runs.detail(run.run_id))}


async def has_lines(engine: Engine, run: Handle[Any], count: int) -> bool:
    return len(await engine.runs.history(run.run_id)) >= count


async def has_children(engine: Engine, run: Handle[Any], count: int) -> bool:
    return len((await engine.runs.detail(run.run_id)).children) >= count


def three(world: World) -> Any:
    body = step(world.do, name="do", retry=ONCE)

    @workflow(name="three")
    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step(name, body, name) for name in ("a", "b", "c")]

    return flow
