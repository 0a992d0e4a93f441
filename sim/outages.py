"""Outages that no single call shows: a store that rejects everything for a while, connections on which nothing is
answered, loops of workers that end, and clocks that are set by hours.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from stepwell.errors import SchemaMissingError, StoreError, StoreNotWritableError, StoreUnavailableError

if TYPE_CHECKING:
    from sim.process import Process
    from sim.world import World
    from stepwell.worker.supervisor import SupervisedLoop
    from stepwell.worker.worker import Worker

_REJECTIONS: tuple[type[StoreError], ...] = (StoreNotWritableError, SchemaMissingError)
_HOUR = 3600.0
# A loop that ends more often than a supervisor starts it again, and how long that may take.
_ENDS_MAX = 8
_GIVE_UP_SECONDS = 10.0
_LOOP_WORDS = ("the worker's loop", "this worker shuts down")


class Outages:
    """What goes wrong for a while in one seed; a stream of its own leaves the stories of old seeds alike."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rng = random.Random(f"{world.seed}/outages")
        self._rejection: type[StoreError] | None = None
        self._silent: Process | None = None
        self._maimed: set[Process] = set()

    def stories(self) -> list[Coroutine[Any, Any, None]]:
        """All that happens."""
        mix = self.world.mix
        return [
            *(self._reject() for _ in range(mix.rejections)),
            *(self._fall_silent() for _ in range(mix.silences)),
            *(self._end_loop() for _ in range(mix.loop_ends)),
            *(self._set_clock() for _ in range(mix.clock_settings)),
        ]

    def is_expected(self, process: Process, words: str) -> bool:
        """Whether what a process logs as an error was done to it here."""
        return process in self._maimed and words.startswith(_LOOP_WORDS)

    # --- calls of the store ---

    def check(self, process: Process) -> None:
        """Raise what the store answers now to every call."""
        if self._rejection is not None and self.world.are_faults_on:
            self.world.stats["rejected"] += 1
            raise self._rejection("simulated: the store does not accept this for now")

    def is_silent(self, process: Process) -> bool:
        """Whether nothing that this process asks is answered."""
        return self._silent is process and self.world.are_faults_on

    async def wait_in_vain(self) -> None:
        """Wait as long as a store waits for an answer: no longer than the lease."""
        self.world.stats["unanswered"] += 1
        await asyncio.sleep(max(1.0, self.world.shape.settings.lease_span / 1e6))
        raise StoreUnavailableError("simulated: nothing was answered in time")

    # --- stories ---

    async def _later(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.2, 3.0))

    async def _reject(self) -> None:
        """The schema is renamed, or rights are revoked, and that is mended before long."""
        await self._later()
        self._rejection = self._rng.choice(_REJECTIONS)
        self.world.trace("rejects")
        await asyncio.sleep(self._rng.choice((0.05, 0.5, 2.0)))
        self._rejection = None
        self.world.trace("accepts")

    async def _fall_silent(self) -> None:
        """The connections of one process are half-open."""
        await self._later()
        process = self._some_worker()
        if process is None:
            return
        self._silent = process
        self.world.trace("silent", process.name)
        await asyncio.sleep(self._rng.choice((0.1, 1.0, 3.0)))
        self._silent = None
        self.world.trace("answers", process.name)

    async def _set_clock(self) -> None:
        """The clock is ahead by hours for a moment, and is mended."""
        await self._later()
        seconds = self._rng.choice((1, 3, 8)) * _HOUR
        self.world.stats["clocks set"] += 1
        self.world.trace("clock", seconds)
        self.world.host.jump(seconds)
        await asyncio.sleep(self._rng.choice((0.0, 0.01, 1.0)))
        self.world.trace("clock", -seconds)
        self.world.host.jump(-seconds)

    async def _end_loop(self) -> None:
        """One loop of a worker ends: once, and is started again; or again and again, and the worker gives up."""
        await self._later()
        process = self._some_worker()
        if process is None:
            return
        worker = process.engine._worker
        if worker is None:
            return
        loops = worker._supervisor._loops
        name = self._rng.choice(sorted(loops))
        self._maimed.add(process)
        self.world.stats["loops ended"] += 1
        self.world.trace("loop ends", process.name, name)
        for _ in range(self._rng.choice((1, 1, _ENDS_MAX))):
            await self._end_once(process, worker, loops[name])
        if worker.failure is not None and not process.lane.is_dead:
            await self._check_given_up(process, worker)

    async def end_this_loop(self, process: Process) -> None:
        """The loop of a worker that asks the store now ends before the store hears of it."""
        task = asyncio.current_task()
        assert task is not None
        self._maimed.add(process)
        self.world.trace("loop ends", process.name, "here")
        task.cancel()
        await asyncio.sleep(0)

    async def _end_once(self, process: Process, worker: Worker, ended: SupervisedLoop) -> None:
        until = self.world.loop.time() + _GIVE_UP_SECONDS
        while ended.task is None or ended.task.done():
            if self.world.loop.time() > until or process.lane.is_dead or process.is_leaving:
                return
            await asyncio.sleep(0.02)
        task = ended.task
        task.cancel()
        # The supervisor restarts it or gives up. A process that stands still does so once it runs again.
        while ended.task is task and ended.timer is None and worker.failure is None:
            if process.lane.is_dead or process.is_leaving or worker._supervisor._is_closed:
                return
            await asyncio.sleep(0.01)

    async def _check_given_up(self, process: Process, worker: Worker) -> None:
        """A worker that gives up gives everything back; whoever started it starts another one."""
        world = self.world
        lease = world.shape.settings.lease_span / 1e6
        until = world.loop.time() + lease + _GIVE_UP_SECONDS
        while not worker.has_failed.is_set() and world.loop.time() < until and not process.lane.is_dead:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        world.stats["workers gave up"] += 1
        if not worker.has_failed.is_set() and not process.lane.is_dead:
            world.violate("I43", "", f"{process.name} gave up, and has not ended {lease + _GIVE_UP_SECONDS:g} s later")
        process.crash()

    def _some_worker(self) -> Process | None:
        ready = [one for one in self.world.processes.values() if one.is_worker and one.is_ready]
        return self._rng.choice(ready) if ready else None
