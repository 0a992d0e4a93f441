"""The registration of a worker at its store: takes its lease, renews it, and takes a new one when it was lost."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from stepwell.clock import SECOND
from stepwell.errors import LeaseLostError, StepwellError
from stepwell.model.workers import NewWorker
from stepwell.worker.claimer import Claimer
from stepwell.worker.executions import Executions
from stepwell.worker.hints import HintListener
from stepwell.worker.resources import Resources
from stepwell.worker.rounds import PAUSE, Rounds, until_answered

_LOG = logging.getLogger("stepwell.worker")

PAUSE_REFUSED = 1.0  # seconds, after an error that only a person can fix


class Registration:
    """Keeps the worker's lease, and passes on what a renewal reports about its runs."""

    def __init__(
        self, resources: Resources, executions: Executions, claimer: Claimer, hints: HintListener, rounds: Rounds
    ) -> None:
        self._resources = resources
        self._executions = executions
        self._claimer = claimer
        self._hints = hints
        self._rounds = rounds
        self._is_renewed = True  # whether the last renewal succeeded
        self._is_registering = False  # a new lease is being taken

    async def register(self) -> None:
        """Take the lease, or another one if it has expired before the answer arrived. Raises final store errors."""
        resources = self._resources
        while True:
            lease, settings = resources.lease, resources.settings
            worker = NewWorker(lease.incarnation, settings.name, settings.lease_span, resources.registry.definitions)
            requested = lease.before_request()
            try:
                await until_answered(partial(resources.store.workers.register, worker))
            except LeaseLostError:
                # It expired before the answer arrived: nothing was claimed with it.
                resources.lease = resources.new_lease()
                continue
            lease.granted(requested)
            return

    async def register_again(self) -> None:
        """Register, and retry until the store accepts: a worker without a lease would live and do nothing."""
        self._is_registering = True
        try:
            while True:
                try:
                    return await self.register()
                except StepwellError as error:
                    _LOG.error("this worker executes no runs: it cannot register again: %s", error.title)
                    await asyncio.sleep(PAUSE_REFUSED)
        finally:
            self._is_registering = False  # also if the loop is cancelled meanwhile

    async def serve(self) -> None:
        """Renew the lease, three times in its span."""
        every = self._resources.settings.lease_span / SECOND / 3
        while True:
            await asyncio.sleep(every if self._is_renewed else min(PAUSE, every))
            self._is_renewed = False  # also if this loop ends and is restarted
            self._is_renewed = await self._rounds.guarded(self.renew_once(), otherwise=False)

    async def renew_once(self) -> bool:
        """Renew the lease, or take a new one if it is lost; false if another task is taking one."""
        lease = self._resources.lease
        if not lease.is_granted:
            if self._is_registering:
                return False  # a renewal now would look like another loss
            # The task that was taking it has ended.
            await self.register_again()
            self._resources.wake.set()
            return True
        requested = lease.before_request()
        renewed = await self._resources.store.workers.renew(lease.incarnation, self._resources.settings.lease_span)
        lease.granted(requested)
        self._claimer.compare_owned(renewed.owned)
        for execution in self._executions:
            execution.renewed()
        for run_id in renewed.cancelling:
            self._hints.look_at(run_id)
        for run_id in renewed.held:
            self._executions.evict(run_id)
        return True
