"""The runs of a worker that was killed: where each one continues, and which steps ran again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stepwell.cli.dev.feed import name_of
from stepwell.clock import Instant
from stepwell.engine.views import EntryView, WaitView, entry_views, run_view, wait_views
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import Detail, RunFilter

_BEGUN_MAX: Final = 100_000
_RUNS_MAX: Final = 200
_LOOK_SECONDS: Final = 0.05
_LOOKS_MAX: Final = 300

Place = tuple[str, str]  # run id and path


class Bodies:
    """Every step body that began, so that "run again" is counted and not guessed."""

    def __init__(self) -> None:
        self._begun: dict[Place, int] = {}  # the latest attempt
        self._order: deque[Place] = deque()
        self._before: frozenset[Place] = frozenset()
        self.again: list[Place] = []

    def began(self, run_id: str, path: str, attempt: int) -> None:
        """A body is about to run."""
        place = run_id, path
        if place in self._before:
            self.again.append(place)
        if place not in self._begun:
            self._order.append(place)
        self._begun[place] = attempt
        if len(self._order) > _BEGUN_MAX:
            del self._begun[self._order.popleft()]

    def crashed(self, unfinished: Iterable[Detail]) -> frozenset[Place]:
        """From now on, a body that had begun before the crash counts as run again. Returns the running bodies.

        A step that had already failed does not count: its next attempt is not due to the crash.
        """
        begun: dict[str, dict[str, int]] = {}
        for (run_id, path), attempt in self._begun.items():
            begun.setdefault(run_id, {})[path] = attempt
        before, under_way = set(), set()
        for detail in unfinished:
            run_id, entries = str(detail.run.run_id), entry_views(detail)
            recorded, failed = {entry.path for entry in entries}, _failed_attempts(entries, wait_views(detail))
            for path, attempt in begun.get(run_id, {}).items():
                if failed.get(path, 0) < attempt:
                    before.add((run_id, path))
                    if path not in recorded:
                        under_way.add((run_id, path))
        self._before, self.again = frozenset(before), []
        return frozenset(under_way)


def _failed_attempts(entries: Iterable[EntryView], waits: Iterable[WaitView]) -> dict[str, int]:
    """The number of the last attempt at each path that is recorded as failed."""
    tries = [(one.path, one.failed_attempts) for one in entries] + [(one.path, one.failed_attempts) for one in waits]
    return {path: max(attempt.number for attempt in attempts) for path, attempts in tries if attempts}


@dataclass(slots=True)
class Recovered:
    """The report once the runs continue."""

    runs: list[tuple[str, str]] = field(default_factory=list)  # name, and where it continues
    again: list[Place] = field(default_factory=list)

    @property
    def words(self) -> str:
        """In one line."""
        count = len(self.runs)
        parts = [f"recovered {count} run{'' if count == 1 else 's'}"]
        if count == 1:
            parts.append(f"{self.runs[0][0]} {self.runs[0][1]}")
        steps = f"{len(self.again)} step{' was' if len(self.again) == 1 else 's were'} run again"
        if self.again:
            steps += (
                f" ({', '.join(sorted({path for _, path in self.again}))}: still running when the worker was killed)"
            )
        return " · ".join([*parts, steps])


async def list_unfinished(store: Store) -> list[Detail]:
    """The newest runs that a worker could continue."""
    moving = tuple(sorted(ACTIVE - {RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED}))
    runs = await store.views.list_runs(RunFilter(statuses=moving), limit=_RUNS_MAX)
    details = [await store.views.detail(run.run_id) for run in runs]
    return [detail for detail in details if detail is not None]


async def retire(store: Store, name: str) -> None:
    """Release the runs of a dead worker by its name. The caller knows that it is dead, so its lease need not expire."""
    for worker in await store.views.list_workers():
        if worker.name == name:
            await store.workers.retire(worker.incarnation)


async def await_recovery(
    store: Store, before: Sequence[Detail], under_way: frozenset[Place], bodies: Bodies
) -> Recovered:
    """Wait until every run continues, but not longer than a few seconds."""
    run_ids = [detail.run.run_id for detail in before]
    for _ in range(_LOOKS_MAX):
        found = await store.views.find_many(run_ids)
        if all(run is None or _continues(run, under_way, bodies.again, store.now()) for run in found):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    recovered = Recovered(again=list(bodies.again))
    for run_id in run_ids:
        recovered.runs.append(await _where(store, run_id, bodies))
    return recovered


def _continues(run: Run, under_way: frozenset[Place], again: Iterable[Place], now: Instant) -> bool:
    if run.status not in ACTIVE or run.status in (RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED):
        return True
    if run.owner is None:
        return run.wake_at is None or run.wake_at > now
    open_places = {place for place in under_way if place[0] == run.run_id}
    return open_places <= set(again)


async def _where(store: Store, run_id: RunId, bodies: Bodies) -> tuple[str, str]:
    detail = await store.views.detail(run_id)
    if detail is None:
        return run_id, "is gone"
    run, waits = run_view(detail.run), wait_views(detail)
    if run.is_ended:
        return name_of(run), f"has {run.status}" if run.status == "completed" else f"is {run.status}"
    again = [path for place, path in bodies.again if place == run_id]
    at = again[-1] if again else waits[0].path if waits else ""
    return name_of(run), f"continues at {at}" if at else "continues"
