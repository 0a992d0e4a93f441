"""What people ask about the whole store rather than about one run, and what becomes of a run while one looks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stepwell.clock import SECOND, to_datetime
from stepwell.engine.bulks import BULK_DEFINITION
from stepwell.engine.live import LiveReads
from stepwell.engine.views import plain
from stepwell.engine.watching import Watching
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.replay.registry import Registry
from stepwell.replay.workflows import Workflow
from stepwell.telemetry.metrics import Gauge, Labels, Metric


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One registered worker."""

    name: str
    incarnation: str
    started_at: datetime
    lease_until: datetime
    is_alive: bool
    definitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActView:
    """One act of an operator on a run."""

    at: datetime
    run_id: str
    verb: str
    by: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class KeptEventView:
    """An event that a topic keeps for waits to come."""

    event_id: str
    topic: str
    payload: Any
    deliver: str
    published_at: datetime
    kept_until: datetime


def of_users(definitions: Iterable[str]) -> list[str]:
    """Without those that every engine brings along."""
    return [each for each in definitions if each != BULK_DEFINITION]


class Overviews(LiveReads):
    """The reads of an engine that are not about what one run has recorded."""

    _registry: Registry
    _watching: Watching

    @property
    def workflows(self) -> tuple[Workflow[Any, Any], ...]:
        """The workflows that this engine was given, by name and version."""
        known = (self._registry.find(definition) for definition in of_users(self._registry.definitions))
        return tuple(sorted((each for each in known if each), key=lambda each: (each.name, each.version)))

    async def list_definitions(self) -> list[str]:
        """Every "name@version" that a run or a worker in the store names, known here or not."""
        return of_users(await self._surely(lambda _: self._store.views.list_definitions()))

    async def list_workers(self) -> list[WorkerView]:
        """Registered workers, live or not, oldest first."""
        now, found = self._store.now(), await self._surely(lambda _: self._store.views.list_workers())
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

    async def list_acts(self, target: str) -> list[ActView]:
        """What operators did to one run, oldest first."""
        run = await self._get(target)
        found = await self._surely(lambda _: self._store.views.list_audit(run.run_id))
        return [
            ActView(to_datetime(one.at), one.run_id, one.verb, one.by, str(one.before), str(one.after), one.reason)
            for one in found
        ]

    async def kept_events(self, topic: str | None = None, *, limit: int = 100) -> list[KeptEventView]:
        """What topics (or one topic) keep for waits to come, oldest first."""
        found = await self._surely(lambda _: self._store.views.list_events(limit=limit, topic=topic))
        return [
            KeptEventView(
                one.event_id,
                one.topic,
                plain(one.payload),
                one.deliver,
                to_datetime(one.published_at),
                to_datetime(one.kept_until),
            )
            for one in found
        ]

    async def figures(self) -> list[Metric]:
        """What the store holds now, for Prometheus; `render` makes text of it."""
        census = await self._surely(lambda _: self._store.views.census())
        now, workers = self._store.now(), await self._surely(lambda _: self._store.views.list_workers())
        counts: dict[Labels, float] = {
            (status.value,): census.runs.get(status, 0) for status in RunStatus if status not in TERMINAL
        }
        oldest = 0 if census.due_since is None else max(0, now - census.due_since) / SECOND
        alive = sum(one.lease_until > now for one in workers)
        return [
            Gauge("stepwell_runs", "Runs that have not ended, by status.", counts, ("status",)),
            Gauge(
                "stepwell_ready_runs", "Runs that are due and not claimed: the depth of the queue.", {(): census.due}
            ),
            Gauge("stepwell_ready_oldest_seconds", "For how long the first of them has been due.", {(): oldest}),
            Gauge("stepwell_workers_alive", "Workers whose lease is live.", {(): alive}),
        ]

    async def probe(self) -> None:
        """Ask the store something small, once. Raises `StoreUnavailableError` if it does not answer in its time."""
        await self._store.views.find_by_prefix("0", limit=1)

    async def watch(self, target: str) -> AsyncGenerator[Run | None, None]:
        """A run as it is now, and again after each change; None for each second without one. Ends with the run.

        Changes that follow each other closely may be told as one.
        """
        run = await self._get(target)
        watching = self._watching.watch(run)
        try:
            async for latest in watching:
                yield latest
        finally:
            await watching.aclose()
