"""What may be deleted, and deleting it."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.retention import Ended, RunFacts, Swept, Tree
from stepwell.stores.base.retention import Part
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.database import PostgresDatabase


class PostgresRetention:
    """`RetentionStore` on PostgreSQL."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._write = database.write
        self._read = database.read

    async def list_ended(self, *, before: Instant, limit: int, after: Ended | None = None) -> list[RunFacts]:
        run_id, ended_at = ("", -1) if after is None else after
        return await self._read(calls.LIST_ENDED, before, limit, ended_at, run_id)

    async def list_relatives(self, run_ids: Sequence[RunId], parents: Sequence[RunId]) -> list[RunFacts]:
        return await self._read(calls.LIST_RELATIVES, list(run_ids), list(parents))

    async def prune(
        self, trees: Sequence[Tree], *, is_erasure: bool = False, by: str = "", reason: str = ""
    ) -> list[bool]:
        return await self._write(calls.PRUNE_RUNS, list(trees), is_erasure, by, reason)

    async def sweep(self, part: Part, *, before: Instant, after: int, limit: int) -> Swept:
        return await self._write(calls.SWEEP, part, before, after, limit)

    async def has_old_blobs(self, *, before: Instant) -> bool:
        return await self._read(calls.HAS_OLD_BLOBS, before)

    async def sweep_blobs(self, *, before: Instant, slack: int) -> int:
        unused = await self._read(calls.LIST_UNUSED_BLOBS, before)
        return await self._write(calls.DROP_BLOBS, unused, before, slack) if unused else 0
