"""The executions of one worker, from the claim of a run to the end of the claim."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from stepwell.errors import ReplayError
from stepwell.ids import RunId
from stepwell.model.commits import Applied, Commit, Pause
from stepwell.model.failures import encode_failure, record_failure, words_of
from stepwell.model.runs import Claimed, History
from stepwell.model.workers import Fence
from stepwell.stores.base.damage import corrupt
from stepwell.worker.code_cache import CodeCache
from stepwell.worker.execution import Execution
from stepwell.worker.lease import Lease
from stepwell.worker.resources import Resources
from stepwell.worker.resumer import Resumer
from stepwell.worker.rounds import until_answered
from stepwell.worker.run_logs import fields_of
from stepwell.worker.supervisor import Supervisor

_LOG = logging.getLogger("stepwell.worker")


class Executions:
    """Begins executions of claimed runs, and handles their ends."""

    def __init__(self, resources: Resources, supervisor: Supervisor, resumer: Resumer) -> None:
        self._resources = resources
        self._supervisor = supervisor
        self._resumer = resumer
        self._active: dict[RunId, Execution] = {}
        self._loading: set[RunId] = set()
        self._later: dict[RunId, Claimed] = {}  # claimed again before the earlier claim ended here
        self.code_cache = CodeCache(resources.settings.cache_size)
        self.room_wanted = 0  # free slots that the claimer waits for; 0 if it waits for none
        self.is_draining = False  # nothing more is claimed
        self.is_closed = False  # no execution begins

    def __iter__(self) -> Iterator[Execution]:
        return iter(tuple(self._active.values()))

    @property
    def active(self) -> int:
        """How many runs execute here now."""
        return len(self._active)

    @property
    def is_empty(self) -> bool:
        """Whether no run executes here or is being loaded."""
        return not (self._active or self._loading)

    @property
    def room(self) -> int:
        """How many more runs could execute here."""
        return self._resources.settings.runs_max - len(self._active) - len(self._loading)

    @property
    def known(self) -> set[RunId]:
        """Every run that this worker knows to own."""
        return {*self._active, *self._loading, *self._later}

    @property
    def is_torn_down(self) -> bool:
        """Whether everything here was cancelled from outside: the event loop ends."""
        return self._supervisor.is_torn_down

    def find(self, run_id: RunId) -> Execution | None:
        """The execution of a run, if it executes here."""
        return self._active.get(run_id)

    # --- beginnings ---

    def adopt(self, claimed: Iterable[Claimed]) -> None:
        """Execute runs that were claimed for this worker."""
        lease, to_load = self._resources.lease, []
        for each in claimed:
            run_id = each.run.run_id
            if each.run.owner != lease.incarnation:
                continue
            if run_id in self._active or run_id in self._loading:
                # The answer that ends the earlier claim is still in flight.
                self._later[run_id] = each
                continue
            if each.run.damage:
                self.code_cache.forget(run_id)
                self._pause(each, corrupt(run_id, each.run.damage))
                continue
            parked = self.code_cache.take(each.run)
            if parked is not None:
                self._active[run_id] = parked
                parked.reclaim(each, is_leaving=self.is_draining)
            elif each.is_fresh:
                self._execute(each, History())
            else:
                self._loading.add(run_id)
                to_load.append(each)
        if to_load:
            self._resources.environment.executor.spawn(self.load(to_load, lease), name="stepwell-load")

    async def load(self, claimed: list[Claimed], lease: Lease) -> None:
        """Load the histories of runs that were claimed under this lease, and execute them if it is still current."""
        run_ids = [each.run.run_id for each in claimed]
        try:
            histories = await self._histories(run_ids)
        except BaseException:
            self._resources.requests.suspect_lost_claims()  # this worker owns them, but will not execute them
            raise
        finally:
            self._loading.difference_update(run_ids)
            if self.is_draining:
                self._resources.wake.set()
        if lease is not self._resources.lease:
            # These claims ended with the old lease. Claims under the new one have waited for this.
            self.adopt([self._later.pop(run_id) for run_id in run_ids if run_id in self._later])
        else:
            for each, history in zip(claimed, histories, strict=True):
                newer = self._later.pop(each.run.run_id, each)
                latest = newer if newer.run.revision == each.run.revision else each
                if isinstance(history, Exception):
                    self._pause(latest, history)
                else:
                    self._execute(latest, history)

    async def _histories(self, run_ids: list[RunId]) -> list[History | Exception]:
        """The history of each run, or why it cannot be read."""
        try:
            return [*await until_answered(lambda: self._resources.store.runs.load(run_ids))]
        except Exception as error:  # noqa: BLE001  an unreadable history must not stop other runs
            if len(run_ids) == 1:
                return [error]
            return [each for run_id in run_ids for each in await self._histories([run_id])]

    def _execute(self, claimed: Claimed, history: History) -> None:
        if self.is_closed:
            return  # its history arrived too late: the run is released with the lease
        workflow = self._resources.registry.find(claimed.run.definition)
        if workflow is None or claimed.run.run_id in self._active:
            self._resources.requests.suspect_lost_claims()
            return
        try:
            execution = Execution(self._resources, self, workflow, claimed, history)
        except Exception as error:  # noqa: BLE001  a bad record of one run must not stop other runs
            self._pause(claimed, error)
            return
        self._active[claimed.run.run_id] = execution
        execution.begin(is_leaving=self.is_draining)  # while it drains, a new body might be stopped

    def _pause(self, claimed: Claimed, error: Exception) -> None:
        """Pause a run that cannot be started, with the reason."""
        run = claimed.run
        _LOG.error("run %s cannot be started; it will be paused", run.run_id, exc_info=error, extra=fields_of(run))
        problem = ReplayError(f"this run cannot be started: {type(error).__name__}: {words_of(error)}")
        fence = Fence(self._resources.lease.incarnation, run.epoch)
        pause = Pause(encode_failure(record_failure(problem)))
        self._resumer.note_paused(run.run_id)
        self._resources.committer.submit(Commit(run.run_id, fence, 1, move=pause), _ignore)

    # --- ends ---

    def parked(self, execution: Execution, revision: int, *, is_awake: bool) -> None:
        """A run waits, and its claim has ended. Keep its code if possible."""
        if execution.is_leaving or not self.code_cache.keep(execution, revision):
            execution.close()
        self._forget(execution)
        if is_awake:
            self._resources.wake.set()

    def left(self, execution: Execution, *, is_paused: bool = False) -> None:
        """An execution has ended. This worker does not resume a run that it paused."""
        if is_paused:
            self._resumer.note_paused(execution.run.run_id)
        self._forget(execution)

    def _forget(self, execution: Execution) -> None:
        run = execution.run
        if self._active.get(run.run_id) is execution:
            del self._active[run.run_id]
            again = self._later.pop(run.run_id, None)
            if again is not None and again.run.epoch > run.epoch:
                self.adopt([again])
        free = self._resources.settings.runs_max - len(self._active)
        if self.is_draining or 0 < self.room_wanted <= free:
            self._resources.wake.set()

    def evict(self, run_id: RunId) -> None:
        """Release a run between two steps, and tear its code down."""
        self.code_cache.forget(run_id)
        execution = self._active.get(run_id)
        if execution is not None:
            execution.leave()

    def drain(self) -> None:
        """Release every run as soon as none of its bodies runs, and begin no other."""
        self.is_draining = True
        for execution in self:
            execution.leave()

    def drop_all(self) -> None:
        """Stop every run at once. Uncommitted work is lost."""
        executions, self._active = self._active, {}
        self._later.clear()
        for execution in executions.values():
            execution.drop()
        self.code_cache.clear()


def _ignore(_: Applied) -> None:
    """The answer is not needed."""
