"""Overviews: each is one function of the database and one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.stores.base.overviews import (
    Histogram,
    Movement,
    Outline,
    Passage,
    PastEvent,
    SinkUse,
    Standing,
    Summary,
    TopicUse,
    WaitGroup,
    largest_first,
)
from stepwell.stores.base.views import HeldSignal, RunFilter, UnreadSignal
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.database import PostgresDatabase
from stepwell.stores.postgres.views import is_storable

_NOTHING = Passage((), (), (), ())


class PostgresOverviews:
    """`OverviewStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._read = database.read

    async def list_summaries(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Summary]:
        return await self._read(calls.LIST_SUMMARIES, where, limit, before)

    async def count_created(
        self, where: RunFilter, *, since: Instant, until: Instant, width: Span, scan_max: int
    ) -> Histogram:
        return await self._read(calls.COUNT_CREATED, where, since, until, width, scan_max)

    async def list_standings(self, run_ids: Sequence[RunId], *, limit: int) -> list[Standing]:
        return await self._read(calls.LIST_STANDINGS, list(_storable(run_ids)), limit)

    async def list_movement(self, since: Instant, watched: Sequence[RunId], *, limit: int) -> Movement:
        return await self._read(calls.LIST_MOVEMENT, since, [one for one in watched if is_storable(one)], limit)

    async def list_topics(self, *, limit: int) -> list[TopicUse]:
        return await self._read(calls.LIST_TOPICS, limit)

    async def list_past_events(self, topic: str | None, *, limit: int, scan_max: int) -> list[PastEvent]:
        return await self._read(calls.LIST_PAST_EVENTS, topic, limit, scan_max)

    async def tally_owed(self, *, limit: int) -> list[SinkUse]:
        return await self._read(calls.TALLY_OWED, limit)

    async def tally_waits(self, *, limit: int) -> list[WaitGroup]:
        groups = await self._read(calls.TALLY_WAITS, limit)
        return largest_first(groups)

    async def find_undelivered(self, number: int) -> HeldSignal | UnreadSignal | None:
        found = await self._read(calls.FIND_UNDELIVERED, number)
        if found is None:
            return None
        key, run_id, status, reason, signal = found
        if key is not None or run_id is None or status is None:
            return HeldSignal(key or "", signal)
        return UnreadSignal(run_id, status, reason, signal)

    async def read_outline(self, run_id: RunId) -> Outline | None:
        return await self._read(calls.READ_OUTLINE, run_id) if is_storable(run_id) else None

    async def list_entries(self, run_id: RunId, *, after: int, limit: int) -> Passage:
        return await self._read(calls.LIST_ENTRIES, run_id, after, limit) if is_storable(run_id) else _NOTHING

    async def find_entries(self, run_id: RunId, seqs: Sequence[int]) -> Passage:
        return await self._read(calls.FIND_ENTRIES, run_id, list(seqs)) if is_storable(run_id) else _NOTHING


def _storable(run_ids: Sequence[RunId]) -> list[str]:
    """The ids, in their order; one that the database cannot hold is asked for as the empty text."""
    return [run_id if is_storable(run_id) else "" for run_id in run_ids]
