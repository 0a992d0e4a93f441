"""A worker: registers, claims, executes, renews, drains and retires."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress

from stepwell import collector
from stepwell.clock import SECOND
from stepwell.codec.base import Codec
from stepwell.config import WorkerSettings
from stepwell.environment import Environment, LoopWatch, SystemExecutor, wait_set
from stepwell.errors import LeaseLostError, StepwellError, StoreLostError
from stepwell.ids import Incarnation, RunId
from stepwell.model.runs import Claimed, Run
from stepwell.model.workers import Claimant
from stepwell.replay.registry import Registry
from stepwell.sinks.routes import Routes
from stepwell.stores.base.store import Store
from stepwell.worker.blocking import watch_loop
from stepwell.worker.claimer import Claimer
from stepwell.worker.committer import Committer
from stepwell.worker.companions import Companion
from stepwell.worker.executions import Executions
from stepwell.worker.hints import HintListener
from stepwell.worker.lease import Lease
from stepwell.worker.observers import Observer, Observers
from stepwell.worker.registration import Registration
from stepwell.worker.relay import Relays
from stepwell.worker.resources import Resources
from stepwell.worker.resumer import Resumer
from stepwell.worker.rounds import Rounds
from stepwell.worker.run_logs import find_run_log, find_step_log
from stepwell.worker.supervisor import Supervisor
from stepwell.worker.sweeper import Sweeper

_LOG = logging.getLogger("stepwell.worker")

RETIRE_SECONDS = 1.0  # for retiring at the store after the grace time


class Worker:
    """Executes the runs of the workflows it knows."""

    def __init__(
        self,
        environment: Environment,
        store: Store,
        registry: Registry,
        settings: WorkerSettings,
        codec: Codec,
        routes: Routes | None = None,
        observers: Sequence[Observer] = (),
        on_over: Callable[[Run], None] | None = None,
        companions: Sequence[Companion] = (),
    ) -> None:
        if codec.conceals:
            store.declare_encrypted()
        step_log = find_step_log(environment.clock.monotonic)
        watching = (*observers, *(() if step_log is None else (step_log,)))
        self._resources = resources = Resources(
            environment,
            store,
            registry,
            settings,
            codec,
            Routes() if routes is None else routes,
            Observers(watching) if watching else None,
            find_run_log(),
            on_over,
        )
        self._rounds = rounds = Rounds(resources, self._start_over, self._lose_store)
        self._supervisor = Supervisor(environment, self._give_up)
        self._relays = Relays(resources, rounds)
        self._companions = tuple(companions)
        self._resumer = Resumer(resources, rounds)
        self._executions = Executions(resources, self._supervisor, self._resumer)
        self._claimer = Claimer(resources, self._executions, rounds)
        self._hints = HintListener(resources, self._executions, self._relays, self._companions, rounds)
        self._registration = Registration(resources, self._executions, self._claimer, self._hints, rounds)
        self._sweeper = Sweeper(resources, self._claimer, self._relays, rounds)
        resources.committer = self._new_committer()
        self.failure: str | None = None  # why this worker gave up
        self.lost: StoreLostError | None = None  # the error, if the database is gone
        self.has_failed = asyncio.Event()
        self._unlisten: Callable[[], None] = lambda: None
        self._watch: LoopWatch | None = None
        # Not in a simulated process: if it were killed, the collector of the real process would stay tuned.
        self._is_real = isinstance(environment.executor, SystemExecutor)

    # --- lifecycle ---

    async def start(self) -> None:
        """Register and begin to serve."""
        await self._registration.register()
        if self._is_real:
            collector.relax()
            self._watch = watch_loop(lambda: self.active > 0)
            self._watch.start()
        self._unlisten = self._resources.store.wakeups.listen(self._hints.receive)
        self._supervisor.supervise("claimer", self._claimer.serve)
        self._supervisor.supervise("lease", self._registration.serve)
        self._supervisor.supervise("sweeper", self._sweeper.serve)
        self._supervisor.supervise("resumer", self._resumer.serve)
        for number, relay in enumerate(self._relays):
            self._supervisor.supervise(f"relay-{number}", relay.serve)
        for companion in self._companions:
            self._supervisor.supervise(companion.name, companion.serve)

    async def stop(self, grace: float = 10.0) -> None:
        """Claim nothing more, let running bodies end within the grace time, release all runs, and deregister.

        It takes at most the grace time and one second, even if the store does not answer.
        """
        wake, monotonic = self._resources.wake, self._resources.environment.clock.monotonic
        self._executions.drain()
        wake.set()
        deadline = monotonic() + grace
        try:
            while not self._executions.is_empty and monotonic() < deadline:
                wake.clear()
                await wait_set(wake, deadline - monotonic())
            await self._relays.drain(deadline)
        except (asyncio.CancelledError, KeyboardInterrupt):
            await self._leave(RETIRE_SECONDS)
            raise
        await self._leave(max(RETIRE_SECONDS, deadline - monotonic()))

    async def _leave(self, seconds: float) -> None:
        """End everything here, and release the lease if the store answers in time."""
        if self._watch is not None:
            self._watch.end()  # before any wait: an interrupt may end the rest
        await self._end_parts()
        if self._is_real:
            collector.restore()
        if self.failure is not None:
            with suppress(TimeoutError):  # its lease is being released already
                async with asyncio.timeout(seconds):
                    await self.has_failed.wait()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._resources.store.workers.retire(self.lease.incarnation)
        except (StepwellError, TimeoutError) as error:
            why = error.title if isinstance(error, StepwellError) else "the store did not answer in time"
            _LOG.warning("worker stopped without deregistering; its lease will expire: %s", why)

    async def _end_parts(self) -> None:
        """Receive no hints, begin nothing, and end every loop and every run."""
        unlisten, self._unlisten = self._unlisten, lambda: None
        unlisten()
        self._executions.is_closed = True
        await self._supervisor.close()
        await self._hints.close()
        await self._relays.close()
        self._executions.drop_all()
        self._resources.committer.close()

    def _give_up(self, reason: str) -> None:
        """A part of this worker has failed. The worker ends, so that other workers claim its runs."""
        if self.failure is not None or self._executions.is_draining:
            return
        self.failure = reason
        self._executions.is_draining = True
        _LOG.critical("this worker shuts down: %s", reason)
        self._resources.environment.executor.spawn(self._end(self.lease.incarnation), name="stepwell-end")

    async def _end(self, incarnation: Incarnation) -> None:
        resources = self._resources
        await self._end_parts()
        await self._relays.drain(resources.environment.clock.monotonic())
        resources.wake.set()
        try:
            async with asyncio.timeout(resources.settings.lease_span / SECOND):
                await resources.store.workers.retire(incarnation)
        except (Exception, TimeoutError):  # noqa: BLE001  then the lease expires
            _LOG.warning("worker stopped without deregistering; its lease will expire", exc_info=True)
        finally:
            self.has_failed.set()

    async def _start_over(self, error: LeaseLostError) -> None:
        """The lease expired, so other workers may own the runs. Drop all runs and register as a new incarnation."""
        _LOG.warning("the lease is lost; registering again: %s", error.title)
        resources = self._resources
        self._executions.drop_all()
        resources.committer.close()
        resources.lease = resources.new_lease()
        resources.committer = self._new_committer()
        await self._registration.register_again()
        resources.wake.set()

    def _lose_store(self, error: StoreLostError) -> None:
        """The database is gone, so nothing can be recorded: drop all runs."""
        self.lost = error
        self._give_up(str(error))
        self._executions.drop_all()

    def _new_committer(self) -> Committer:
        resources = self._resources
        return Committer(
            resources.environment,
            resources.store.runs,
            self._claimer.offer,
            resources.requests,
            resources.spawn_body,
            None if resources.observers is None else resources.observers.wrote,
            self._supervisor.supervise,
        )

    # --- for the engine: the fast path inside one process ---

    @property
    def lease(self) -> Lease:
        """The lease of this incarnation."""
        return self._resources.lease

    @property
    def awaiting(self) -> AbstractContextManager[None]:
        """Entered while a request is in flight that may claim runs for this worker."""
        return self._resources.requests

    @property
    def active(self) -> int:
        """How many runs execute here now."""
        return self._executions.active

    def is_executing(self, run_id: RunId) -> bool:
        """Whether a run executes here: a hint will report its end."""
        return self._executions.find(run_id) is not None

    def offer(self) -> Claimant | None:
        """A claim that a start, signal or commit may make for this worker in its own transaction."""
        return self._claimer.offer()

    def adopt(self, claimed: Iterable[Claimed]) -> None:
        """Execute runs that were claimed for this worker."""
        self._executions.adopt(claimed)

    def evict(self, run_id: RunId) -> None:
        """Release a run between two steps, and tear its code down."""
        self._executions.evict(run_id)

    def suspect_lost_claims(self) -> None:
        """The store may hold claims of this worker that it does not know, or new runs that it may claim."""
        self._resources.requests.suspect_lost_claims()
