"""People pause runs, workflows and everything, and let them go on; some forget to, and operators do it at the end."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from sim.process import UNKNOWN
from stepwell.errors import NotFoundError
from stepwell.model.states import TERMINAL

if TYPE_CHECKING:
    from sim.clients import Clients


class Pauses:
    """What is paused in one seed. Its choices are a stream of their own, so that other seeds stay alike."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._world = clients.world
        self._rng = random.Random(f"{self._world.seed}/pauses")
        self.is_on = self._rng.random() < 0.5

    def stories(self) -> list[Any]:
        """Everything that is paused while things go wrong."""
        if not self.is_on:
            return []
        runs = [self._pause_run(self._rng.uniform(0.1, 5)) for _ in range(self._rng.randint(2, 12))]
        workflows = [self._pause_workflow(self._rng.uniform(0.1, 4)) for _ in range(self._rng.choice((0, 0, 1, 2)))]
        return [*runs, *workflows]

    async def _pause_run(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        rows = self._world.checker.rows_now
        active = sorted(run_id for run_id, row in rows.items() if row.status not in TERMINAL)
        owned = [run_id for run_id in active if rows[run_id].owner is not None]
        active = owned if owned and self._rng.random() < 0.6 else active
        if not active:
            return
        target, stays = self._rng.choice(active), self._rng.expovariate(1 / 0.8)
        if await self._try(lambda engine: engine.holds.pause(target, by="ann", reason="a look at it")):
            self._world.stats["runs paused"] += 1
        await asyncio.sleep(stays)
        if self._rng.random() < 0.7:
            await self._try(lambda engine: engine.holds.resume(target, by="ann"))

    async def _pause_workflow(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        name, stays = self._rng.choice(("program", None)), self._rng.expovariate(1 / 0.8)
        if await self._try(lambda engine: engine.holds.pause_workflow(name, by="ann")):
            self._world.stats["workflows paused"] += 1
        await asyncio.sleep(stays)
        if self._rng.random() < 0.7:
            await self._try(lambda engine: engine.holds.resume_workflow(name, by="ann"))

    async def resume_workflows(self) -> None:
        """Let everything go on that is still paused as a whole."""
        for held in await self._try(lambda engine: engine.holds.list()) or ():
            await self._try(lambda engine, name=held.workflow: engine.holds.resume_workflow(name, by="ann"))

    async def _try(self, question: Any) -> Any:
        try:
            return await self._clients.ask(question, is_cancellable=False)
        except (*UNKNOWN, NotFoundError):
            return None
