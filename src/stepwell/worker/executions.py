"""The runs that execute in one worker, from the claim to the end of the claim."""

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
from stepwell.worker.supervisor import Supervisor

_LOG = logging.getLogger("stepwell.worker")


class Executions:
    """Begins executions of claimed runs, and hears how they end."""

    def __init__(self, resources: Resources, supervisor: Supervisor, resumer: Resumer) -> None:
        self._resources = resources
        self._supervisor = supervisor
        self._resumer = resumer
        self._active: dict[RunId, Execution] = {}
        self._loading: set[RunId] = set()
        self._later: dict[RunId, Claimed] = {}  # claimed again before the earlier claim was over here
        self.parked_code = CodeCache(resources.settings.cache_size)
        self.room_wanted = 0  # free slots that the claimer waits for, if it lacks any
        self.is_draining = False  # nothing more is claimed
        self.is_closed = False  # nothing begins here any more

    def __iter__(self) -> Iterator[Execution]:
        return iter(tuple(self._active.values()))

    @property
    def active(self) -> int:
        """How many runs execute here now."""
        return len(self._active)

    @property
    def is_empty(self) -> bool:
        """Whether no run is at work here or about to be."""
        return not (self._active or self._loading)

    @property
    def room(self) -> int:
        """How many more could."""
        return self._resources.settings.runs_max - len(self._active) - len(self._loading)

    @property
    def known(self) -> set[RunId]:
        """Every run that is claimed here, as far as this worker has heard."""
        return {*self._active, *self._loading, *self._later}

    @property
    def is_torn_down(self) -> bool:
        """Whether everything here was cancelled from outside: the event loop ends."""
        return self._supervisor.is_torn_down

    def find(self, run_id: RunId) -> Execution | None:
        """The execution of a run, if it is at work here."""
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
                # The answer that ends the earlier claim is still on its way.
                self._later[run_id] = each
                continue
            if each.run.damage:
                self.parked_code.forget(run_id)
                self._set_aside(each, corrupt(run_id, each.run.damage))
                continue
            parked = self.parked_code.take(each.run)
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
        """Load the histories of runs that were claimed under this lease, and execute them if it lasts still."""
        run_ids = [each.run.run_id for each in claimed]
        try:
            histories = await self._histories(run_ids)
        except BaseException:
            self._resources.requests.suspect_lost_claims()  # they are ours, and nobody will execute them
            raise
        finally:
            self._loading.difference_update(run_ids)
            if self.is_draining:
                self._resources.wake.set()
        if lease is not self._resources.lease:
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
            return [*await until_answered(lambda: self._resources.store.runs.load(run_ids))]
        except Exception as error:  # noqa: BLE001  one history that cannot be read must not stop the other runs
            if len(run_ids) == 1:
                return [error]
            return [each for run_id in run_ids for each in await self._histories([run_id])]

    def _execute(self, claimed: Claimed, history: History) -> None:
        if self.is_closed:
            return  # its history came too late: it is freed with the lease, and nothing could be recorded here
        workflow = self._resources.registry.find(claimed.run.definition)
        if workflow is None or claimed.run.run_id in self._active:
            self._resources.requests.suspect_lost_claims()
            return
        try:
            execution = Execution(self._resources, self, workflow, claimed, history)
        except Exception as error:  # noqa: BLE001  what is stored of one run must not stop the others
            self._set_aside(claimed, error)
            return
        self._active[claimed.run.run_id] = execution
        execution.begin(is_leaving=self.is_draining)  # a body that begins while the worker leaves might be cut off

    def _set_aside(self, claimed: Claimed, error: Exception) -> None:
        """A run that cannot be begun is paused with the reason."""
        _LOG.error("run %s cannot be begun", claimed.run.run_id, exc_info=error)
        problem = ReplayError(f"this run cannot be begun: {type(error).__name__}: {words_of(error)}")
        fence = Fence(self._resources.lease.incarnation, claimed.run.epoch)
        pause = Pause(encode_failure(record_failure(problem)))
        self._resumer.note_parked(claimed.run.run_id)
        self._resources.committer.submit(Commit(claimed.run.run_id, fence, 1, move=pause), _ignore)

    # --- ends ---

    def parked(self, execution: Execution, revision: int, *, is_awake: bool) -> None:
        """An execution gave its run up until something happens."""
        if execution.is_leaving or not self.parked_code.keep(execution, revision):
            execution.close()
        self._forget(execution)
        if is_awake:
            self._resources.wake.set()

    def left(self, execution: Execution, *, is_parked: bool = False) -> None:
        """An execution is over; if the run is parked for other code, this worker does not resume it."""
        if is_parked:
            self._resumer.note_parked(execution.run.run_id)
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
        """Hand a run over: give it back between two steps, and tear its code down."""
        self.parked_code.forget(run_id)
        execution = self._active.get(run_id)
        if execution is not None:
            execution.leave()

    def drain(self) -> None:
        """Give every run back as soon as no body of it is running, and begin no other."""
        self.is_draining = True
        for execution in self:
            execution.leave()

    def drop_all(self) -> None:
        """Stop every run at once; what is not committed is lost."""
        executions, self._active = self._active, {}
        self._later.clear()
        for execution in executions.values():
            execution.drop()
        self.parked_code.clear()


def _ignore(_: Applied) -> None:
    """Nobody waits for this answer."""
