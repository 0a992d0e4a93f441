"""The registration of a worker at its store: its lease is taken, renewed, and taken anew when it was lost."""

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

PAUSE_REFUSED = 1.0  # after a store that refuses what only a person can fix


class Registration:
    """Keeps the worker's lease, and passes on what a renewal tells about its runs."""

    def __init__(
        self, resources: Resources, executions: Executions, claimer: Claimer, hints: HintListener, rounds: Rounds
    ) -> None:
        self._resources = resources
        self._executions = executions
        self._claimer = claimer
        self._hints = hints
        self._rounds = rounds
        self._is_renewed = True  # the lease, when it was tried last
        self._is_taken_anew = False  # somebody takes a lease in the place of a lost one

    async def register(self) -> None:
        """Take the lease; another one if it was over before that was heard. Raises what the store says finally."""
        resources = self._resources
        while True:
            lease, settings = resources.lease, resources.settings
            worker = NewWorker(lease.incarnation, settings.name, settings.lease_span, resources.registry.definitions)
            requested = lease.before_request()
            try:
                await until_answered(partial(resources.store.workers.register, worker))
            except LeaseLostError:
                # It was over before we heard that it had begun: nothing was claimed with it.
                resources.lease = resources.new_lease()
                continue
            lease.granted(requested)
            return

    async def register_again(self) -> None:
        """Register, however often the store refuses: giving up would leave a worker that lives and does nothing."""
        self._is_taken_anew = True
        try:
            while True:
                try:
                    return await self.register()
                except StepwellError as error:
                    _LOG.error("this worker serves nothing: it cannot register again: %s", error.title)
                    await asyncio.sleep(PAUSE_REFUSED)
        finally:
            self._is_taken_anew = False  # also if the loop that does this ends half-way

    async def serve(self) -> None:
        """Renew the lease, three times in its span."""
        every = self._resources.settings.lease_span / SECOND / 3
        while True:
            await asyncio.sleep(every if self._is_renewed else min(PAUSE, every))
            self._is_renewed = False  # also if this loop ends and is started again
            self._is_renewed = await self._rounds.guarded(self.renew_once(), otherwise=False)

    async def renew_once(self) -> bool:
        """Renew the lease, or take one if the last is lost; false if somebody else is about to."""
        lease = self._resources.lease
        if not lease.is_granted:
            if self._is_taken_anew:
                return False  # asking for it now would look like losing it again
            # The loop that was taking it has ended.
            await self.register_again()
            self._resources.wake.set()
            return True
        requested = lease.before_request()
        renewed = await self._resources.store.workers.renew(lease.incarnation, self._resources.settings.lease_span)
        lease.granted(requested)
        self._claimer.compare(renewed.owned)
        for execution in self._executions:
            execution.renewed()
        for run_id in renewed.cancelling:
            self._hints.look_at(run_id)
        for run_id in renewed.held:
            self._executions.evict(run_id)
        return True
