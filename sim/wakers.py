"""People who wake runs that wait, and move their deadlines, while everything goes wrong."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from sim.process import UNKNOWN
from stepwell.errors import RequestError
from stepwell.model.locations import format_path
from stepwell.model.states import RunStatus, WaitKind

if TYPE_CHECKING:
    from sim.clients import Clients

_WAITS = (RunStatus.PENDING, RunStatus.WAITING)


class Wakers:
    """What is woken and moved in one seed. Its choices are a stream of their own, so that other seeds stay alike."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._world = clients.world
        self._rng = random.Random(f"wakers {self._world.seed}")
        self._is_on = self._rng.random() < 0.3

    def stories(self) -> list[Any]:
        """Everything that is woken and moved while things go wrong."""
        if not self._is_on:
            return []
        return [self._act(self._rng.uniform(0.1, 6)) for _ in range(self._rng.randint(3, 15))]

    async def _act(self, seconds: float) -> None:
        rng, world = self._rng, self._world
        await asyncio.sleep(seconds)
        rows = world.checker.rows_now
        waiting = sorted(one for one, row in rows.items() if row.status in _WAITS and row.owner is None)
        if not waiting:
            return
        target = rng.choice(waiting)
        if rng.random() < 0.4:
            done = await self._try(lambda engine: engine.runs.wake(target, by="ann"))
            world.stats["runs woken"] += bool(done)
            return
        path, delay = self._path(target), rng.choice((0.0, 0.05, 0.5, 3.0))
        done = await self._try(lambda engine: engine.runs.reschedule(target, path, delay=delay, by="ann"))
        world.stats["deadlines moved"] += bool(done)

    def _path(self, run_id: str) -> str | None:
        """A wait with a deadline; None for a run that has not begun."""
        detail = self._world.checker.detail(run_id)
        assert detail is not None
        timed = [wait for wait in detail.history.waits if wait.due_at is not None and wait.kind is not WaitKind.RETRY]
        return format_path(self._rng.choice(timed).location, detail.history.names) if timed else None

    async def _try(self, question: Any) -> Any:
        try:
            return await self._clients.ask(question)
        except (*UNKNOWN, RequestError):
            return None
