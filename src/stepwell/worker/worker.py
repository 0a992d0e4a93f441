"""A worker: registers, claims, executes, renews, drains and retires."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, assert_never

from stepwell.clock import SECOND, Instant, Span, span
from stepwell.codec.base import Codec
from stepwell.config import WorkerSettings
from stepwell.environment import Environment, SystemExecutor
from stepwell.errors import LeaseLostError, ReplayError, StepwellError, StoreError, StoreLostError, StoreSealedError
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, Commit, Pause
from stepwell.model.failures import encode_failure, record_failure, words_of
from stepwell.model.holds import ALL_WORKFLOWS
from stepwell.model.runs import Claimed, History, Run
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.model.workers import Claimant, Fence, NewWorker
from stepwell.replay.registry import Registry
from stepwell.sinks.routes import Routes
from stepwell.stores.base.damage import corrupt
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.worker import garbage
from stepwell.worker.committer import Committer
from stepwell.worker.execution import Execution
from stepwell.worker.lease import Lease
from stepwell.worker.observing import Observer, Observers
from stepwell.worker.outstanding import Outstanding
from stepwell.worker.parking import Parking
from stepwell.worker.receipts import Receipts
from stepwell.worker.relay import Relay
from stepwell.worker.reviver import Reviver
from stepwell.worker.supervisor import Supervisor

T = TypeVar("T")

_LOG = logging.getLogger("stepwell.worker")

CLAIM_MAX = 200  # per claim: a batch small enough to be written quickly
PAUSE, PAUSE_MAX = 0.05, 1.0  # after a store that did not answer
PAUSE_REFUSED = 1.0  # after one that refuses what only a person can mend
LAST_WORD_SECONDS = 1.0  # for saying goodbye to the store when the grace time is over
_AT_ONCE, _NEVER = Instant(0), Instant(1 << 62)


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
    ) -> None:
        self.environment = environment
        self.settings = settings
        self.codec = codec
        self.routes = Routes() if routes is None else routes
        self.observers = Observers(observers) if observers else None
        self.on_over: Callable[[Run], None] | None = None
        self.transactions = store.transactions
        self._store, self.now = store, store.now
        if codec.conceals:
            store.declare_encrypted()
        self._registry = registry
        self._executions: dict[RunId, Execution] = {}
        self._parking = Parking(settings.cache_size)
        self._loading: set[RunId] = set()
        self._later: dict[RunId, Claimed] = {}  # claimed again before the earlier claim was over here
        self.lease, self.receipts = self._new_lease(), Receipts()
        self.awaiting = Outstanding(self.doubt)  # answers that may claim runs for us
        self._supervisor = Supervisor(environment, self._give_up)
        self.committer = self._new_committer()
        self._wake = asyncio.Event()
        self._room_wanted = 0  # free slots that the claimer waits for, if it lacks any
        self._looks_at = _AT_ONCE  # when the claimer looks for due runs next, if nobody wakes it
        self._is_draining = False
        self._has_left = False  # nothing begins here any more
        self._in_doubt = False
        self._is_settling = False  # asking the store to free what we do not know of
        self._is_renewed = True  # the lease, when it was tried last
        self._has_surplus = False  # at the last renewal the store named more runs than are known here
        self.failure: str | None = None  # why this worker gave up
        self.lost: StoreLostError | None = None  # the error behind that, if the database is gone
        self.has_failed = asyncio.Event()
        self._unlisten: Callable[[], None] = lambda: None
        self._context = copy_context()
        self._relays = [Relay(self, store, sink) for sink in self.routes]
        self._reviver = Reviver(self, store, registry)
        # In a simulated process nothing is gained, and one that is killed would leave the collector as it set it.
        self._is_real = isinstance(environment.executor, SystemExecutor)

    # --- lifecycle ---

    async def start(self) -> None:
        """Register and begin to serve."""
        await self._register()
        if self._is_real:
            garbage.relax()
        self._unlisten = self._store.wakeups.listen(self._heard)
        self._supervisor.tend("claimer", self._claim_loop)
        self._supervisor.tend("lease", self._renew_loop)
        self._supervisor.tend("sweeper", self._sweep_loop)
        self._supervisor.tend("reviver", self._reviver.serve)
        for number, relay in enumerate(self._relays):
            self._supervisor.tend(f"relay-{number}", relay.serve)

    async def stop(self, grace: float = 10.0) -> None:
        """Claim nothing more, let running bodies end within the grace time, give everything back, and leave.

        It takes no longer than the grace time and a second, whatever the store does.
        """
        self._is_draining = True
        self._wake.set()
        for execution in tuple(self._executions.values()):
            execution.leave()
        deadline = self.environment.clock.monotonic() + grace
        while self._executions and self.environment.clock.monotonic() < deadline:
            self._wake.clear()
            await self._sleep(deadline - self.environment.clock.monotonic())
        await asyncio.gather(*(relay.drain(deadline) for relay in self._relays))
        await self._leave(max(LAST_WORD_SECONDS, deadline - self.environment.clock.monotonic()))

    async def _leave(self, seconds: float) -> None:
        """End everything here, and give the lease back if the store answers in time."""
        self._unlisten()
        self._has_left = True
        await self._supervisor.close()
        self._drop_all()
        self.committer.close()
        if self._is_real:
            garbage.restore()
        if self.failure is not None:
            with suppress(TimeoutError):  # its lease is being given back already
                async with asyncio.timeout(seconds):
                    await self.has_failed.wait()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._store.workers.retire(self.lease.incarnation)
        except (StepwellError, TimeoutError) as error:
            why = error.title if isinstance(error, StepwellError) else "the store did not answer in time"
            _LOG.warning("worker left without saying so; its lease will run out: %s", why)

    def _give_up(self, reason: str) -> None:
        """A part of this worker does not work any more. It ends, so that its runs go to other workers."""
        if self.failure is not None or self._is_draining:
            return
        self.failure = reason
        self._is_draining = True
        _LOG.critical("this worker ends: %s", reason)
        self.environment.executor.spawn(self._end(self.lease.incarnation), name="stepwell-end")

    async def _end(self, incarnation: Incarnation) -> None:
        self._unlisten()
        self._unlisten = lambda: None
        self._has_left = True
        await self._supervisor.close()
        for relay in self._relays:
            await relay.drain(self.environment.clock.monotonic())
        self._drop_all()
        self.committer.close()
        self._wake.set()
        try:
            async with asyncio.timeout(self.settings.lease_span / SECOND):
                await self._store.workers.retire(incarnation)
        except (Exception, TimeoutError):  # noqa: BLE001  then the lease runs out
            _LOG.warning("worker left without saying so; its lease will run out", exc_info=True)
        finally:
            self.has_failed.set()

    @property
    def is_torn_down(self) -> bool:
        """Whether everything here was cancelled from outside: the event loop ends."""
        return self._supervisor.is_torn_down

    @property
    def active(self) -> int:
        """How many runs execute here now."""
        return len(self._executions)

    def evict(self, run_id: RunId) -> None:
        """Hand a run over: give it back between two steps, and tear its code down."""
        self._parking.forget(run_id)
        execution = self._executions.get(run_id)
        if execution is not None:
            execution.leave()

    # --- what the facade uses: the fast path inside one process ---

    def is_executing(self, run_id: RunId) -> bool:
        """Whether a run is at work here: its end will be told by a hint."""
        return run_id in self._executions

    def offer(self) -> Claimant | None:
        """A claim that a start, signal or commit may make for this worker in its own transaction."""
        free = self.settings.runs_max - len(self._executions) - len(self._loading)
        if self._is_draining or self._in_doubt or self._is_settling or free <= 0 or not self.lease.is_live():
            return None
        return Claimant(self.lease.incarnation, free, self._registry.definitions)

    def adopt(self, claimed: Iterable[Claimed]) -> None:
        """Execute runs that were claimed for this worker."""
        to_load: list[Claimed] = []
        for each in claimed:
            run_id = each.run.run_id
            if each.run.owner != self.lease.incarnation:
                continue
            if run_id in self._executions or run_id in self._loading:
                # The answer that ends the earlier claim is still on its way.
                self._later[run_id] = each
                continue
            if each.run.damage:
                self._parking.forget(run_id)
                self._set_aside(each, corrupt(run_id, each.run.damage))
                continue
            parked = self._parking.take(each.run)
            if parked is not None:
                self._executions[run_id] = parked
                parked.reclaim(each)
            elif each.is_fresh:
                self._execute(each, History())
            else:
                self._loading.add(run_id)
                to_load.append(each)
        if to_load:
            self.environment.executor.spawn(self._load(to_load, self.lease), name="stepwell-load")

    async def _load(self, claimed: list[Claimed], lease: Lease) -> None:
        run_ids = [each.run.run_id for each in claimed]
        try:
            histories = await self._histories(run_ids)
        except BaseException:
            self.doubt()  # they are ours, and nobody will execute them
            raise
        finally:
            self._loading.difference_update(run_ids)
        if lease is not self.lease:
            # Those claims went with the old lease; what was claimed again with the new one has waited for this.
            self.adopt([self._later.pop(run_id) for run_id in run_ids if run_id in self._later])
        else:
            for each, history in zip(claimed, histories, strict=True):
                newer = self._later.pop(each.run.run_id, each)
                latest = newer if newer.run.revision == each.run.revision else each
                if isinstance(history, Exception):
                    self._set_aside(latest, history)
                else:
                    self._execute(latest, history)

    async def _histories(self, run_ids: list[RunId]) -> list[History | Exception]:
        """The history of each run, or why it cannot be read."""
        try:
            return [*await self._patiently(lambda: self._store.runs.load(run_ids))]
        except Exception as error:  # noqa: BLE001  one history that cannot be read must not stop the other runs
            if len(run_ids) == 1:
                return [error]
            return [each for run_id in run_ids for each in await self._histories([run_id])]

    def _set_aside(self, claimed: Claimed, error: Exception) -> None:
        """A run that cannot be begun is paused with the reason."""
        _LOG.error("run %s cannot be begun", claimed.run.run_id, exc_info=error)
        problem = ReplayError(f"this run cannot be begun: {type(error).__name__}: {words_of(error)}")
        fence = Fence(self.lease.incarnation, claimed.run.epoch)
        pause = Pause(encode_failure(record_failure(problem)))
        self._reviver.note_parked(claimed.run.run_id)
        self.committer.submit(Commit(claimed.run.run_id, fence, 1, move=pause), _ignore)

    def _execute(self, claimed: Claimed, history: History) -> None:
        if self._has_left:
            return  # its history came too late: it is freed with the lease, and nothing could be recorded here
        workflow = self._registry.find(claimed.run.definition)
        if workflow is None or claimed.run.run_id in self._executions:
            self.doubt()
            return
        try:
            execution = Execution(self, workflow, claimed, history)
        except Exception as error:  # noqa: BLE001  what is stored of one run must not stop the others
            self._set_aside(claimed, error)
            return
        self._executions[claimed.run.run_id] = execution
        execution.begin()
        if self._is_draining:
            execution.leave()

    # --- what executions ask and tell ---

    def spawn_body(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a body with the context variables of the worker, whatever the bodies before it did to theirs."""
        return self.environment.executor.begin(work, name="stepwell-step", context=self._context.copy())

    def parked(self, execution: Execution, revision: int, *, is_awake: bool) -> None:
        """An execution gave its run up until something happens."""
        if execution.is_leaving or not self._parking.keep(execution, revision):
            execution.close()
        self._forget(execution)
        if is_awake:
            self._wake.set()

    def left(self, execution: Execution, *, is_parked: bool = False) -> None:
        """An execution is over; if the run is parked for other code, it is not this worker that lets it go on."""
        if is_parked:
            self._reviver.note_parked(execution.run.run_id)
        self._forget(execution)

    def _forget(self, execution: Execution) -> None:
        run_id = execution.run.run_id
        if self._executions.get(run_id) is execution:
            del self._executions[run_id]
            again = self._later.pop(run_id, None)
            if again is not None and again.run.epoch > execution.run.epoch:
                self.adopt([again])
        if self._is_draining or 0 < self._room_wanted <= self.settings.runs_max - len(self._executions):
            self._wake.set()

    def doubt(self) -> None:
        """An acknowledgement was lost: the store may hold claims for this worker that it never heard of."""
        self._in_doubt = True
        self._wake.set()

    # --- loops ---

    async def _claim_loop(self) -> None:
        try:
            await self._claim()
        finally:
            self.committer.let_go()
        if self._is_draining:
            await asyncio.Event().wait()  # until it is cancelled: it has not ended by itself

    async def _claim(self) -> None:
        refused = PAUSE
        while not self._is_draining:
            self._wake.clear()
            self._looks_at = _AT_ONCE
            pause = await self.guarded(self._claim_once(), otherwise=None)
            if pause is None:
                # The store did not answer: no hint is a reason to ask it again at once.
                await asyncio.sleep(refused)
                refused = min(refused * 2, PAUSE_MAX)
                continue
            refused = PAUSE
            if pause > 0:
                if not self._executions:
                    garbage.tidy()
                await self._sleep(pause)

    async def _claim_once(self) -> float | None:
        """Claim what is ready; gives how long nothing will be, in seconds."""
        if self._in_doubt:
            if self.awaiting.count or self.committer.is_asking:
                # What they bring is ours, and would be freed under our feet. What they give up may be ours again, by a
                # claim that we never heard of, and would be kept. Runs that commit all the time must not put it off.
                self.committer.hold()
                return PAUSE
            await self._relinquish()
        offer = self.offer()
        self._room_wanted = int(offer is None)
        if offer is None:
            return PAUSE
        due = await self._store.views.next_wake(offer.definitions)
        if due is None:
            self._looks_at = _NEVER
            return float("inf")
        ahead = self.settings.ahead_span
        if offer.limit < self.settings.room_ahead:
            ahead, self._room_wanted = Span(0), self.settings.room_ahead
        wait = due - self._store.now()
        if wait > ahead:
            self._looks_at = Instant(due - ahead)
            return (wait - ahead) / SECOND
        limit = min(offer.limit, CLAIM_MAX)
        if wait > 0:  # some room stays for what comes meanwhile
            limit = min(limit, offer.limit - self.settings.room_ahead // 2)
        claimed = await self._store.runs.claim(offer._replace(limit=limit, ahead=ahead))
        self.adopt(claimed)
        if claimed or wait <= 0:
            return 0.0
        self._looks_at = due  # not one that waits: it begins then
        return wait / SECOND

    async def _relinquish(self) -> None:
        self._in_doubt, self._is_settling = False, True
        keep = {*self._executions, *self._loading, *self._later}
        try:
            await self._store.runs.relinquish(self.lease.incarnation, keep)
        except BaseException:
            self._in_doubt = True
            raise
        finally:
            self._is_settling = False
            self.committer.let_go()

    async def _renew_loop(self) -> None:
        every = self.settings.lease_span / SECOND / 3
        while True:
            await asyncio.sleep(every if self._is_renewed else min(PAUSE, every))
            self._is_renewed = False  # also if this loop ends and is started again
            self._is_renewed = await self.guarded(self._renew(), otherwise=False)

    async def _renew(self) -> bool:
        if not self.lease.is_granted:
            return False  # it is being taken anew; asking for it now would look like losing it again
        requested = self.lease.before_request()
        renewed = await self._store.workers.renew(self.lease.incarnation, self.settings.lease_span)
        self.lease.granted(requested)
        self._compare(renewed.owned)
        for execution in tuple(self._executions.values()):
            execution.renewed()
        for run_id in renewed.cancelling:
            self._look_at(run_id)
        for run_id in renewed.held:
            self.evict(run_id)
        return True

    def _compare(self, owned: int) -> None:
        """Whether the store names more runs than are known here. Claims on their way are in only one of the two
        numbers: what counts is a surplus at two renewals in a row.
        """
        had_surplus = self._has_surplus
        self._has_surplus = owned > len({*self._executions, *self._loading, *self._later})
        if had_surplus and self._has_surplus:
            self.doubt()

    async def _sweep_loop(self) -> None:
        every = span(self.settings.sweep_every) / SECOND
        while True:
            # At once when it starts: a worker that lives shorter than a period must not leave stranded runs behind.
            pause = await self.guarded(self._sweep(), otherwise=every)
            await asyncio.sleep(min(pause, every))

    async def _sweep(self) -> float:
        """The safety net: dead workers' runs are freed, and anything ready is looked for without a hint. Gives how long
        no lease will end, in seconds.
        """
        outlook = await self._store.views.outlook(self._registry.definitions)
        if outlook.has_stranded:
            await self._store.runs.rescue(stalls_max=self.settings.stalls_max)
        if outlook.has_stranded or (outlook.next_wake is not None and outlook.next_wake < self._looks_at):
            self._wake.set()
        self._wake_relays()
        return self._seconds_to(outlook.lapses_at)

    def _seconds_to(self, when: Instant | None) -> float:
        return float("inf") if when is None else max(0.01, (when - self._store.now()) / SECOND)

    async def guarded(self, work: Coroutine[Any, Any, T], otherwise: T) -> T:
        """Do one round of a loop. A store that does not answer, or refuses for now, is asked again in the next round; a
        lost lease is taken anew. Raises everything else: the supervisor decides what becomes of the loop.
        """
        lease = self.lease
        try:
            return await work
        except LeaseLostError as error:
            if lease is self.lease:
                await self._start_over(error)
        except StoreSealedError as error:
            # Its lease was over when the database was closed, and it comes back too late. If the database is opened
            # again, it finds its lease gone and starts over.
            _LOG.error("this worker serves nothing: %s", error.title)
            await asyncio.sleep(self.settings.lease_span / SECOND)
        except StoreLostError as error:
            self.lost = error
            self._give_up(str(error))
            self._drop_all()  # nothing that they do could be recorded
        except StoreError as error:
            self.doubt()
            if is_final(error):
                raise
            _LOG.warning("store did not answer: %s", error.title)
        except Exception:
            self.doubt()
            raise
        return otherwise

    async def _once(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something once that a hint asked for. If it fails, the next sweep or renewal does without it."""
        try:
            await self.guarded(work, otherwise=None)
        except Exception:  # noqa: BLE001  one run's defect must not hurt the others
            _LOG.exception("a look at a run failed")

    async def _patiently(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask until the store answers with something final."""
        pause = PAUSE
        while True:
            try:
                return await ask()
            except StoreError as error:
                if is_final(error):
                    raise
                _LOG.warning("store did not answer: %s", error.title)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_MAX)

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
            async with asyncio.timeout(None if seconds == float("inf") else seconds):
                await self._wake.wait()

    # --- leases ---

    def _new_lease(self) -> Lease:
        incarnation = Incarnation(self.environment.ids.uuid())
        return Lease(self.environment.clock, incarnation, self.settings.lease_span)

    def _new_committer(self) -> Committer:
        wrote = None if self.observers is None else self.observers.wrote
        hears = (self.offer, self.awaiting, self.doubt, self.spawn_body)
        return Committer(self.environment, self._store.runs, *hears, wrote, self._supervisor.tend)

    async def _register(self) -> None:
        while True:
            lease = self.lease
            worker = NewWorker(
                lease.incarnation, self.settings.name, self.settings.lease_span, self._registry.definitions
            )
            requested = lease.before_request()
            try:
                await self._patiently(partial(self._store.workers.register, worker))
            except LeaseLostError:
                # It was over before we heard that it had begun: nothing was claimed with it.
                self.lease = self._new_lease()
                continue
            lease.granted(requested)
            return

    async def _start_over(self, error: LeaseLostError) -> None:
        """The lease ran out: others may own our runs now. Drop them all and come back as somebody new."""
        _LOG.warning("lease lost, starting over: %s", error.title)
        self._drop_all()
        self.committer.close()
        self.lease = self._new_lease()
        self.committer = self._new_committer()
        await self._register_again()
        self._wake.set()

    async def _register_again(self) -> None:
        """Register, however often the store refuses: giving up would leave a worker that lives and does nothing."""
        while True:
            try:
                return await self._register()
            except StepwellError as error:
                _LOG.error("this worker serves nothing: it cannot register again: %s", error.title)
                await asyncio.sleep(PAUSE_REFUSED)

    def _drop_all(self) -> None:
        executions, self._executions = self._executions, {}
        self._later.clear()
        for execution in executions.values():
            execution.drop()
        self._parking.clear()

    # --- hints ---

    def _heard(self, hint: Hint) -> None:
        match hint.kind:
            case HintKind.READY:
                self._wake.set()
            case HintKind.MAIL:
                for run_id in hint.runs:
                    self._look_at(run_id)
            case HintKind.OWED:
                self._wake_relays()
            case HintKind.HELD:
                self._look_at_holds()
            case HintKind.CHANGED:
                self._look_at_holds()
                self._wake.set()
                self._wake_relays()
                for run_id in tuple(self._executions):
                    self._look_at(run_id)
            case HintKind.REPLIED | HintKind.STREAM:
                pass
            case HintKind.ENDED:
                for run_id in hint.runs:
                    self._parking.forget(run_id)
            case _:
                assert_never(hint.kind)

    def _wake_relays(self) -> None:
        for relay in self._relays:
            relay.wake()

    def _look_at(self, run_id: RunId) -> None:
        execution = self._executions.get(run_id)
        if execution is not None and not execution.is_over:
            self.environment.executor.spawn(self._once(self._look(execution)), name="stepwell-mail")

    def _look_at_holds(self) -> None:
        if self._executions:
            self.environment.executor.spawn(self._once(self._honour_holds()), name="stepwell-holds")

    async def _honour_holds(self) -> None:
        """Give back the runs of workflows that were paused."""
        held = {workflow or ALL_WORKFLOWS for workflow, _ in await self._store.holds.list_holds()}
        for execution in tuple(self._executions.values()):
            if not held.isdisjoint((ALL_WORKFLOWS, execution.run.workflow)):
                execution.leave()

    async def _look(self, execution: Execution) -> None:
        """Something outside may have changed an owned run: fetch its inbox, and see whether it is still ours."""
        epoch, run = execution.run.epoch, await self._store.views.find(execution.run.run_id)
        if execution.is_over or execution.run.epoch != epoch or run is None:
            return  # if it was given up and claimed again meanwhile, that has told more
        if run.status in TERMINAL or (run.owner, run.epoch) != (self.lease.incarnation, epoch):
            execution.drop()
            self.left(execution)
            self.doubt()  # it may be ours by a later claim that we never heard of
        elif run.status is RunStatus.CANCELLING:
            execution.cancel()
        elif run.hold is not None:
            execution.leave()
        else:
            execution.receive(await self._store.runs.inbox(run.run_id), epoch)


def _ignore(_: Applied) -> None:
    """Nobody waits for this answer."""
