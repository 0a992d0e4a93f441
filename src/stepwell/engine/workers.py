"""Workers: the processes that execute runs, and the runs that dead workers left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from stepwell.clock import to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.service_failures import ServiceFailures, ServiceFailureView
from stepwell.engine.versions import of_users
from stepwell.model.states import RunStatus
from stepwell.stores.base.views import RunFilter

_LISTED_MAX = 500


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One registered worker."""

    name: str
    incarnation: str
    started_at: datetime
    lease_until: datetime
    is_alive: bool
    definitions: tuple[str, ...]


class Recovered(NamedTuple):
    """What a recovery found."""

    freed: int  # runs of dead workers, ready now
    paused: int  # runs that need a person
    stalled_rollbacks: int


class Workers:
    """`engine.workers`: the workers of all processes on this store."""

    def __init__(self, backend: Backend, *, stalls_max: int) -> None:
        self._backend = backend
        self._stalls_max = stalls_max
        self._failures = ServiceFailures(backend)

    async def recover(self) -> Recovered:
        """Release the runs of dead workers now, instead of at the next sweep, and report runs that need a person."""
        freed = await self._backend.retrying(lambda store: store.runs.rescue(stalls_max=self._stalls_max))
        paused = await self._count(RunStatus.PAUSED)
        return Recovered(len(freed), paused, await self._count(RunStatus.COMPENSATION_FAILED))

    async def evict(self, target: str) -> None:
        """Hand a run over: the worker of this process releases it between two steps. The run is not cancelled."""
        run = await self._backend.get(target)
        if self._backend.worker is not None:
            self._backend.worker.evict(run.run_id)

    async def list_failing_services(self) -> list[ServiceFailureView]:
        """The services that fail on a worker now, the latest failure first. Other workers may run them well."""
        return await self._failures.list()

    async def _count(self, status: RunStatus) -> int:
        where = RunFilter(statuses=(status,))
        return len(await self._backend.retrying(lambda store: store.views.list_runs(where, limit=_LISTED_MAX)))

    # Last, because behind it `list` is this method.
    async def list(self) -> list[WorkerView]:
        """Registered workers, live or not, oldest first."""
        now = self._backend.store.now()
        found = await self._backend.retrying(lambda store: store.views.list_workers())
        return [
            WorkerView(
                one.name,
                one.incarnation,
                to_datetime(one.started_at),
                to_datetime(one.lease_until),
                one.lease_until > now,
                tuple(of_users(one.definitions)),
            )
            for one in found
        ]
