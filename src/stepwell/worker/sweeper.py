"""The sweeper: the safety net under hints and leases."""

from __future__ import annotations

import asyncio

from stepwell.clock import SECOND, span
from stepwell.worker.claimer import Claimer
from stepwell.worker.relay import Relays
from stepwell.worker.resources import Resources
from stepwell.worker.rounds import Rounds


class Sweeper:
    """Frees the runs of dead workers, and looks for anything ready without a hint."""

    def __init__(self, resources: Resources, claimer: Claimer, relays: Relays, rounds: Rounds) -> None:
        self._resources = resources
        self._claimer = claimer
        self._relays = relays
        self._rounds = rounds

    async def serve(self) -> None:
        """Sweep from time to time, and when a lease has ended."""
        every = span(self._resources.settings.sweep_every) / SECOND
        while True:
            # At once when it starts: a worker that lives shorter than a period must not leave stranded runs behind.
            pause = await self._rounds.guarded(self.sweep_once(), otherwise=every)
            await asyncio.sleep(min(pause, every))

    async def sweep_once(self) -> float:
        """Free what is stranded, and wake what may have work. Gives how long no lease will end, in seconds."""
        store, wake = self._resources.store, self._resources.wake
        upcoming = await store.views.upcoming_work(self._resources.registry.definitions)
        if upcoming.has_stranded:
            await store.runs.rescue(stalls_max=self._resources.settings.stalls_max)
        if upcoming.has_stranded or (upcoming.next_wake is not None and upcoming.next_wake < self._claimer.looks_at):
            wake.set()
        self._relays.wake()
        lease_ends_at = upcoming.lease_ends_at
        return float("inf") if lease_ends_at is None else max(0.01, (lease_ends_at - store.now()) / SECOND)
