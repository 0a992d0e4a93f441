"""The sweeper: the safety net under hints and leases."""

from __future__ import annotations

import asyncio

from stepwell.clock import SECOND, span
from stepwell.model.workers import NewWorker
from stepwell.worker.claimer import Claimer
from stepwell.worker.relay import Relays
from stepwell.worker.resources import Resources
from stepwell.worker.rounds import Rounds


class Sweeper:
    """Releases the runs of dead workers, and finds due runs whose hint was lost."""

    def __init__(self, resources: Resources, claimer: Claimer, relays: Relays, rounds: Rounds) -> None:
        self._resources = resources
        self._claimer = claimer
        self._relays = relays
        self._rounds = rounds

    async def serve(self) -> None:
        """Sweep at regular intervals, and when a lease has expired."""
        every = span(self._resources.settings.sweep_every) / SECOND
        while True:
            # The first sweep is at once: even a worker that lives for a short time releases stranded runs.
            pause = await self._rounds.guarded(self.sweep_once(), otherwise=every)
            await asyncio.sleep(min(pause, every))

    async def sweep_once(self) -> float:
        """Release stranded runs, and wake the loops that may have work; returns the seconds to the next expiry."""
        store, wake = self._resources.store, self._resources.wake
        if self._resources.registry.has_patterns:
            await self._find_named()
        upcoming = await store.views.upcoming_work(self._resources.registry.definitions)
        if upcoming.has_stranded:
            await self._rescue()
        if upcoming.has_stranded or (upcoming.next_wake is not None and upcoming.next_wake < self._claimer.looks_at):
            wake.set()
        self._relays.wake()
        lease_ends_at = upcoming.lease_ends_at
        return float("inf") if lease_ends_at is None else max(0.01, (lease_ends_at - store.now()) / SECOND)

    async def _find_named(self) -> None:
        """Serve the workflows that have runs, and whose names a pattern of this worker fits."""
        resources = self._resources
        registry, before = resources.registry, len(resources.registry.definitions)
        for definition in await resources.store.views.list_definitions():
            registry.find(definition)
        if len(registry.definitions) > before:
            settings, lease = resources.settings, resources.lease
            worker = NewWorker(lease.incarnation, settings.name, settings.lease_span, registry.definitions)
            await resources.store.workers.register(worker)
            resources.wake.set()

    async def _rescue(self) -> None:
        store, run_log = self._resources.store, self._resources.run_log
        rescued = await store.runs.rescue(stalls_max=self._resources.settings.stalls_max)
        if rescued and run_log is not None:
            for run in await store.views.find_many(rescued):
                if run is not None:
                    run_log.rescued(run)
