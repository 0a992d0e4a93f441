"""A client that keeps starting, signalling and cancelling runs, and notes whatever was acknowledged to it."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stepwell import Engine, Handle, NotFoundError, ResultTimeout, RunCancelled, RunFailed, StepwellError, Workflow
from tests.system.ledger import Ledger
from tests.system.storm_workflows import GENERATIONS, SIGNALS, WORKFLOWS, Job, relay, saga, talk

RESULT_TIMEOUT = "120s"
_WAITING_FOR_SIGNALS = {talk.name: SIGNALS, relay.name: GENERATIONS}


class Client:
    """Has at most `active_max` runs of its own under way."""

    def __init__(
        self,
        engine: Engine,
        ledger: Ledger,
        chance: random.Random,
        *,
        active_max: int,
        workflows: Sequence[Workflow[Job, list[str]]] = WORKFLOWS,
    ) -> None:
        self._engine = engine
        self._ledger = ledger
        self._chance = chance
        self._active_max = active_max
        self._workflows = workflows
        self._numbers = itertools.count(1)
        self._under_way: set[asyncio.Task[None]] = set()

    async def keep_busy(self, stop: asyncio.Event, every: float, is_calm: Callable[[], bool] = lambda: False) -> None:
        """Start runs until told to stop; none while it is to be calm."""
        while not stop.is_set():
            if len(self._under_way) < self._active_max and not is_calm():
                self._spawn(self._one(self._chance.choice(self._workflows)))
            await asyncio.sleep(self._chance.expovariate(1 / every))

    async def finish(self) -> None:
        """Wait for what is under way."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def abandon(self) -> None:
        """Wait for nothing more; the runs go on without us."""
        for task in tuple(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def send(self, target: str) -> None:
        """Send one signal, and note it once it is acknowledged."""
        payload = f"s{os.getpid()}.{next(self._numbers)}.{self._chance.getrandbits(32):08x}"
        try:
            delivery = await self._engine.signal(target, "go", payload, dedup_key=payload)
        except NotFoundError:
            return  # it has ended: cancelled
        self._ledger.acknowledged("signalled", run=target, payload=payload, delivery=delivery.value)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _one(self, definition: Workflow[Job, list[str]]) -> None:
        try:
            handle = await self._start(definition)
            for _ in range(_WAITING_FOR_SIGNALS.get(definition.name, 0)):
                if self._chance.random() < 0.5:
                    await asyncio.sleep(self._chance.uniform(0, 0.3))
                await self.send(handle.run_id)
            if self._chance.random() < 0.12 or (definition is saga and self._chance.random() < 0.25):
                await asyncio.sleep(self._chance.uniform(0, 1.0))
                if await handle.cancel("storm"):
                    self._ledger.acknowledged("cancelled", run=handle.run_id)
            await self._await_result(handle)
        except StepwellError as error:
            self._ledger.note("unacknowledged", error=f"{type(error).__name__}: {error}")

    async def _start(self, definition: Workflow[Job, list[str]]) -> Handle[list[str]]:
        key = f"{definition.name}-{os.getpid()}-{next(self._numbers)}"
        job = Job(size=self._chance.randint(2, 5), fails=self._chance.random() < 0.5)
        handle = await self._engine.start(definition, job, key=key)
        self._ledger.acknowledged("started", run=handle.run_id, key=key)
        if self._chance.random() < 0.1:
            again = await self._engine.start(definition, job, key=key)
            self._ledger.acknowledged("started", run=again.run_id, key=key)
        return handle

    async def _await_result(self, handle: Handle[list[str]]) -> None:
        try:
            value = await handle.result(timeout=RESULT_TIMEOUT)
        except ResultTimeout:
            return
        except RunCancelled:
            self._ledger.acknowledged("ended", run=handle.run_id, status="cancelled")
        except RunFailed as error:
            self._ledger.acknowledged("ended", run=handle.run_id, status=error.status)
        else:
            self._ledger.acknowledged("result", run=handle.run_id, value=value)
