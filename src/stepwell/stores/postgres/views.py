"""Reads for people: each is one function of the database and one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stepwell.clock import Instant
from stepwell.ids import RunId, SignalId
from stepwell.model.attributes import AttributeKind
from stepwell.model.events import KeptEvent
from stepwell.model.live import Page, Published
from stepwell.model.runs import Run
from stepwell.model.signals import Question
from stepwell.model.workers import Worker
from stepwell.stores.base.views import (
    Audit,
    Detail,
    HeldSignal,
    RunFilter,
    StepProgress,
    Tally,
    UnfinishedCounts,
    UnreadSignal,
    UpcomingWork,
)
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.database import PostgresDatabase


class PostgresViews:
    """`ViewStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._read = database.read

    async def find(self, target: str) -> Run | None:
        return (await self.find_many([target]))[0]

    async def find_many(self, targets: Sequence[str]) -> list[Run | None]:
        asked = [target if is_storable(target) else "" for target in targets]
        return await self._read(calls.FIND_MANY, asked)

    async def find_by_prefix(self, prefix: str, *, limit: int) -> list[RunId]:
        return await self._read(calls.FIND_BY_PREFIX, prefix, limit) if is_storable(prefix) else []

    async def detail(self, run_id: RunId) -> Detail | None:
        return await self._read(calls.DETAIL, run_id) if is_storable(run_id) else None

    async def list_published(self, run_id: RunId) -> list[Published]:
        return await self._read(calls.LIST_PUBLISHED, run_id)

    async def list_streams(self, run_id: RunId) -> list[str]:
        return await self._read(calls.LIST_STREAMS, run_id)

    async def read_stream(self, run_id: RunId, stream: str, *, after: int, limit: int) -> Page:
        return await self._read(calls.READ_STREAM, run_id, stream, after, limit)

    async def list_progress(self, run_ids: Sequence[RunId]) -> list[list[StepProgress]]:
        return await self._read(calls.LIST_PROGRESS, list(run_ids))

    async def list_runs(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Run]:
        return await self._read(calls.LIST_RUNS, where, limit, before)

    async def count_runs(self, where: RunFilter, *, limit: int) -> int:
        return await self._read(calls.COUNT_RUNS, where, limit)

    async def list_workers(self) -> list[Worker]:
        return await self._read(calls.LIST_WORKERS)

    async def list_held(self, *, limit: int, key: str | None = None) -> list[HeldSignal]:
        return await self._read(calls.LIST_HELD, limit, key)

    async def list_unread(
        self, *, limit: int, run_id: RunId | None = None, after: int = 0, is_refused: bool = False
    ) -> list[UnreadSignal]:
        return await self._read(calls.LIST_UNREAD, limit, run_id, after, is_refused)

    async def find_question(self, signal_id: SignalId) -> Question | None:
        return await self._read(calls.FIND_QUESTION, signal_id)

    async def list_events(self, *, limit: int, topic: str | None = None) -> list[KeptEvent]:
        return await self._read(calls.LIST_KEPT, limit, topic)

    async def list_audit(self, run_id: RunId) -> list[Audit]:
        return await self._read(calls.LIST_AUDIT, run_id)

    async def list_definitions(self) -> list[str]:
        return await self._read(calls.LIST_DEFINITIONS)

    async def list_attribute_kinds(self, name: str) -> list[AttributeKind]:
        return await self._read(calls.LIST_ATTRIBUTE_KINDS, name) if is_storable(name) else []

    async def tally_runs(self) -> list[Tally]:
        counted = await self._read(calls.TALLY_RUNS)
        return sorted(counted)

    async def count_unfinished(self) -> UnfinishedCounts:
        return await self._read(calls.COUNT_UNFINISHED)

    async def next_wake(self, definitions: Collection[str]) -> Instant | None:
        return await self._read(calls.NEXT_WAKE, list(definitions))

    async def has_stranded(self) -> bool:
        return await self._read(calls.HAS_STRANDED)

    async def upcoming_work(self, definitions: Collection[str]) -> UpcomingWork:
        return await self._read(calls.UPCOMING_WORK, list(definitions))

    async def orphans(self) -> list[RunId]:
        return await self._read(calls.ORPHANS)


def is_storable(text: str) -> bool:
    """Whether the database can hold a text: it may contain neither half a surrogate pair nor U+0000."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False
