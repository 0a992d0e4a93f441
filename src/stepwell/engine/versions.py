"""Versions of workflows: registered in this engine, or known to the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stepwell.clock import Instant
from stepwell.engine.backend import Backend
from stepwell.engine.catalogue import WorkflowFacts, describe_workflow
from stepwell.engine.sharing import Shared
from stepwell.engine.system_runs import PREFIX
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.model.workers import Worker
from stepwell.replay.workflows import Workflow
from stepwell.stores.base.views import Tally

REDRIVABLE: Final = frozenset({RunStatus.FAILED})
"""An operator may retry these runs, so they need the code."""

_AGE_SECONDS: Final = 2.0  # of counts that are still given to other callers


class VersionUse(NamedTuple):
    """How many runs and workers use a version of a workflow."""

    workflow: str
    version: int
    live: int  # runs that have not ended
    waiting: int  # live runs that wait for something
    redrivable: int  # failed, and could be retried
    workers: int  # live workers that serve it
    last_at: Instant | None  # when a run of it was last created, begun or ended
    runs: Mapping[RunStatus, int] = {}  # by status; statuses without runs are left out
    served_by: tuple[str, ...] = ()  # the names of these workers

    @property
    def is_unserved(self) -> bool:
        """Whether runs of it wait until a worker has its code."""
        return self.live > 0 and self.workers == 0

    @property
    def may_retire(self) -> bool:
        """Whether its code can be deleted: no run will execute it again."""
        return self.live == 0 and self.redrivable == 0

    def why_not(self, uses: Iterable[VersionUse]) -> str:
        """Why its code has to stay, given all uses; empty if it can be deleted."""
        if self.is_unserved:
            return f"{_runs(self.live)} not ended, and no live worker has version {self.version}"
        if self.live:
            return f"{_runs(self.live)} not ended"
        if self.redrivable:
            return f"{self.redrivable} failed {'run' if self.redrivable == 1 else 'runs'} could be retried"
        newest = max(other.version for other in uses if other.workflow == self.workflow)
        return "it is the newest version: new runs use it" if self.version == newest else ""


def _runs(count: int) -> str:
    return "1 run has" if count == 1 else f"{count:,} runs have"


def version_uses(tallies: Iterable[Tally], workers: Sequence[Worker], now: Instant) -> list[VersionUse]:
    """Every version that a run or a live worker names, by workflow, the newest first."""
    live = [worker for worker in workers if worker.lease_until > now]
    counts: dict[str, Counter[RunStatus]] = {name: Counter() for worker in live for name in worker.definitions}
    last: dict[str, Instant] = {}
    for definition, status, runs, last_at in tallies:
        counts.setdefault(definition, Counter())[status] += runs
        last[definition] = max(last_at, last.get(definition, last_at))
    uses = []
    for definition, by_status in counts.items():
        workflow, _, version = definition.rpartition("@")
        serving = [worker for worker in live if definition in worker.definitions]
        uses.append(
            VersionUse(
                workflow,
                int(version),
                sum(runs for status, runs in by_status.items() if status in ACTIVE),
                by_status[RunStatus.WAITING],
                sum(runs for status, runs in by_status.items() if status in REDRIVABLE),
                len(serving),
                last.get(definition),
                {status: by_status[status] for status in RunStatus if by_status[status]},
                tuple(worker.name for worker in serving),
            )
        )
    return sorted(uses, key=lambda use: (use.workflow, -use.version))


def of_users(definitions: Iterable[str]) -> list[str]:
    """The definitions, without system workflows."""
    return [each for each in definitions if not each.startswith(PREFIX)]


class Versions:
    """`engine.versions`: which versions of which workflows there are."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tallies = Shared(backend.environment, self._tally, _AGE_SECONDS)
        self._learned: dict[str, WorkflowFacts] = {}

    @property
    def known(self) -> tuple[Workflow[Any, Any], ...]:
        """The workflows registered in this engine, by name and version."""
        registry = self._backend.registry
        known = (registry.find(definition) for definition in of_users(registry.definitions))
        return tuple(sorted((each for each in known if each), key=lambda each: (each.name, each.version)))

    @property
    def catalogue(self) -> dict[str, WorkflowFacts]:
        """What is known of the code of each definition: of those registered here, and of those learned."""
        own = {each.definition: describe_workflow(each) for each in self.known}
        return {**self._learned, **own}

    def learn(self, facts: Iterable[WorkflowFacts]) -> None:
        """Know from now on what the code of another process tells, and nothing else that was learned before."""
        self._learned = {one.definition: one for one in facts}

    async def uses(self) -> Sequence[VersionUse]:
        """How many runs and workers use each version, by workflow, the newest first; system workflows are left out.

        Counting reads every run, so the counts may be some seconds old: callers at about the same time share them.
        """
        tallies = await self._tallies.get()
        workers = await self._backend.retrying(lambda store: store.views.list_workers())
        found = version_uses(tallies, workers, self._backend.store.now())
        return [use for use in found if not use.workflow.startswith(PREFIX)]

    async def _tally(self) -> Sequence[Tally]:
        return await self._backend.retrying(lambda store: store.views.tally_runs())

    async def list(self) -> list[str]:
        """Every "name@version" that a run or a worker in the store names, known here or not."""
        return of_users(await self._backend.retrying(lambda store: store.views.list_definitions()))
