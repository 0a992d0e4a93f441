"""Reads for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from heapq import nsmallest

from stepwell.clock import Instant
from stepwell.ids import RunId, SignalId
from stepwell.model.events import KeptEvent
from stepwell.model.live import Page, Published
from stepwell.model.locations import format_path
from stepwell.model.runs import Run
from stepwell.model.signals import Question
from stepwell.model.states import ACTIVE, RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.model.workers import Worker
from stepwell.stores.base.filters import By, Order, in_order, meets, place_of
from stepwell.stores.base.views import (
    Audit,
    Census,
    Detail,
    HeldSignal,
    Outlook,
    RunFilter,
    StepProgress,
    Tally,
    UnreadSignal,
)
from stepwell.stores.memory.database import MemoryDatabase, RunRow
from stepwell.stores.memory.events import kept
from stepwell.stores.memory.holds import served
from stepwell.stores.memory.live import read_stream
from stepwell.stores.memory.rescues import has_stranded
from stepwell.stores.memory.runs import is_parked, read_events
from stepwell.stores.memory.signals import find_question

_OPERATORS_TURN = frozenset({RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED})


class MemoryViews:
    """`ViewStore` over dicts."""

    def __init__(self, database: MemoryDatabase, now: Callable[[], Instant]) -> None:
        self._db = database
        self._now = now

    async def find(self, target: str) -> Run | None:
        row = self._db.runs.get(RunId(target)) or self._db.active_keys.get(target)
        if row is None and target in self._db.runs_of_key:
            # The last of those that were created in the same instant.
            latest_first = reversed(self._db.runs_of_key[target].values())
            row = max(latest_first, key=lambda one: one.created_at, default=None)
        return None if row is None else row.freeze()

    async def find_many(self, targets: Sequence[str]) -> list[Run | None]:
        return [await self.find(target) for target in targets]

    async def find_by_prefix(self, prefix: str, *, limit: int) -> list[RunId]:
        return nsmallest(limit, (run_id for run_id in self._db.runs if run_id.startswith(prefix)))

    async def detail(self, run_id: RunId) -> Detail | None:
        row = self._db.runs.get(run_id)
        if row is None:
            return None
        signals = tuple(signal.freeze() for signal in self._db.pending(("run", run_id)))
        children = tuple(child.freeze() for child in self._db.children[run_id].values())
        return Detail(row.freeze(), self._db.history(run_id), signals, children, read_events(self._db, run_id))

    async def list_published(self, run_id: RunId) -> list[Published]:
        return sorted(self._db.published.get(run_id, {}).values())

    async def list_streams(self, run_id: RunId) -> list[str]:
        return sorted(stream for owner, stream in self._db.chunks if owner == run_id and self._db.chunks[owner, stream])

    async def read_stream(self, run_id: RunId, stream: str, *, after: int, limit: int) -> Page:
        return read_stream(self._db, self._db.runs.get(run_id), stream, after, limit)

    async def list_progress(self, run_ids: Sequence[RunId]) -> list[list[StepProgress]]:
        found = [self._db.history(run_id) for run_id in run_ids]
        return [
            [StepProgress(format_path(one.location, history.names), one) for one in history.progress]
            for history in found
        ]

    async def list_runs(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Run]:
        found = in_order([row.freeze() for row in self._db.runs.values() if _matches(row, where)], where.order)
        if before is not None:
            found = [run for run in found if self._is_behind(run, before, where.order)]
        return found[:limit]

    async def count_runs(self, where: RunFilter, *, limit: int) -> int:
        return min(limit, sum(_matches(row, where) for row in self._db.runs.values()))

    def _is_behind(self, run: Run, before: RunId, order: Order) -> bool:
        row = self._db.runs.get(before)
        if row is None and order.by is not By.ID:
            return False
        here, there = place_of(run, order.by), (-1, before) if row is None else place_of(row.freeze(), order.by)
        return here < there if order.descending else here > there

    async def list_workers(self) -> list[Worker]:
        return sorted(self._db.workers.values(), key=lambda worker: worker.started_at)

    async def list_held(self, *, limit: int, key: str | None = None) -> list[HeldSignal]:
        return [held for held in self._db.held() if key in (None, held.key)][:limit]

    async def list_unread(self, *, limit: int, run_id: RunId | None = None) -> list[UnreadSignal]:
        return [unread for unread in self._db.unread() if run_id in (None, unread.run_id)][:limit]

    async def find_question(self, signal_id: SignalId) -> Question | None:
        return find_question(self._db, signal_id)

    async def list_events(self, *, limit: int, topic: str | None = None) -> list[KeptEvent]:
        topics = self._db.topics if topic is None else (topic,)
        found = [event for each in tuple(topics) for event in kept(self._db, each, self._now())]
        return [event.freeze() for event in sorted(found, key=lambda one: one.number)[:limit]]

    async def list_audit(self, run_id: RunId) -> list[Audit]:
        return list(self._db.audit.get(run_id, ()))

    async def list_definitions(self) -> list[str]:
        named = {row.definition for row in self._db.runs.values()}
        return sorted(named.union(*(worker.definitions for worker in self._db.workers.values())))

    async def tally_runs(self) -> list[Tally]:
        counts: dict[tuple[str, RunStatus], tuple[int, Instant]] = {}
        for row in self._db.runs.values():
            last_at = max(row.created_at, row.started_at or 0, row.ended_at or 0)
            count, latest = counts.get((row.definition, row.status), (0, Instant(0)))
            counts[row.definition, row.status] = count + 1, Instant(max(last_at, latest))
        return [Tally(*named, *counted) for named, counted in sorted(counts.items())]

    async def census(self) -> Census:
        now, rows = self._now(), self._db.runs.values()
        due = [row.wake_at for row in rows if row.wake_at is not None and row.wake_at <= now]
        return Census(Counter(row.status for row in rows if row.status in ACTIVE), len(due), min(due, default=None))

    async def next_wake(self, definitions: Collection[str]) -> Instant | None:
        lanes = [(one, priority) for one in served(self._db, definitions) for priority in self._db.ready[one]]
        firsts = [first[0] for lane in lanes if (first := self._db.first_due(*lane)) is not None]
        return min(firsts, default=None)

    async def has_stranded(self) -> bool:
        return has_stranded(self._db, self._now())

    async def outlook(self, definitions: Collection[str]) -> Outlook:
        now = self._now()
        lapses = [worker.lease_until for worker in self._db.workers.values() if worker.lease_until > now]
        return Outlook(await self.next_wake(definitions), has_stranded(self._db, now), min(lapses, default=None))

    async def orphans(self) -> list[RunId]:
        return [row.run_id for row in self._db.runs.values() if row.status in ACTIVE and not _has_cause(self._db, row)]


def _matches(row: RunRow, where: RunFilter) -> bool:
    return (
        (not where.statuses or row.status in where.statuses)
        and where.workflow in (None, row.workflow)
        and where.key in (None, row.key)
        and (where.parent is None or (row.parent is not None and row.parent.run_id == where.parent))
        and (not where.conditions or _meets_all(row, where))
    )


def _meets_all(row: RunRow, where: RunFilter) -> bool:
    run = row.freeze()
    return all(meets(run, row.waits, condition) for condition in where.conditions)


def _has_cause(db: MemoryDatabase, row: RunRow) -> bool:
    """Whether something durable will make the run go on."""
    if row.owner is not None or row.wake_at is not None or row.status in _OPERATORS_TURN:
        return True
    if not is_parked(row):
        return False
    if any(wait.kind is WaitKind.SIGNAL or _is_open(db, row, wait) for wait in row.waits):
        return True
    waited = {wait.location for wait in row.waits if wait.kind is WaitKind.CHILD}
    children = db.children[row.run_id].values()
    return any(
        child.parent is not None and child.parent.location in waited and child.status in ACTIVE for child in children
    )


def _is_open(db: MemoryDatabase, row: RunRow, wait: Wait) -> bool:
    return wait.kind is WaitKind.TOPIC and (row.run_id, wait.location) in db.open_waits[wait.names[0]]
