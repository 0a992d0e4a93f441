"""What may be deleted, and deleting it."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.model.retention import Ended, RunFacts, Swept, Tree
from stepwell.stores.base.retention import Part
from stepwell.stores.sql.references import references_in
from stepwell.stores.sqlite.database import Valueless
from stepwell.stores.sqlite.rows import encode_texts, to_status
from stepwell.stores.sqlite.runners import Runner
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, row_of, rows_of
from stepwell.stores.sqlite.transitions import retention

_FEW = 32


class SqliteRetention:
    """`RetentionStore` on SQLite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def list_ended(self, *, before: Instant, limit: int, after: Ended | None = None) -> list[RunFacts]:
        run_id, ended_at = ("", -1) if after is None else after
        page = {"before": before, "limit": limit, "after_at": ended_at, "after_id": run_id}
        rows = await self._runner.read(lambda c: rows_of(c, "retention.list_ended", **page), is_large=limit > _FEW)
        return [_facts(row) for row in rows]

    async def list_relatives(self, run_ids: Sequence[RunId], parents: Sequence[RunId]) -> list[RunFacts]:
        named = {"ids": encode_texts(list(run_ids)), "parents": encode_texts(list(parents))}
        rows = await self._runner.read(lambda c: rows_of(c, "retention.list_relatives", **named), is_large=True)
        return [_facts(row) for row in rows]

    async def prune(
        self, trees: Sequence[Tree], *, is_erasure: bool = False, by: str = "", reason: str = ""
    ) -> list[bool]:
        return await self._runner.write(
            Valueless(lambda tx: retention.prune(tx, trees, is_erasure=is_erasure, by=by, reason=reason)),
            is_blocking=True,
        )

    async def sweep(self, part: Part, *, before: Instant, after: int, limit: int) -> Swept:
        return await self._runner.write(
            Valueless(lambda tx: retention.sweep(tx, part, before, after, limit)), is_blocking=True
        )

    async def has_old_blobs(self, *, before: Instant) -> bool:
        return await self._runner.read(lambda c: row_of(c, "retention.has_old_blobs", before=before)) is not None

    async def sweep_blobs(self, *, before: Instant, slack: int) -> int:
        unused = await self._runner.read(lambda c: unused_blobs(c, before), is_large=True)
        if not unused:
            return 0
        return await self._runner.write(
            Valueless(lambda tx: retention.drop_blobs(tx, unused, before, slack)), is_blocking=True
        )


def _facts(row: Row) -> RunFacts:
    run_id, workflow, status, ended_at, dedup, parent, previous, successor, has_children, is_needed = row
    return RunFacts(
        run_id,
        workflow,
        to_status(status),
        ended_at,
        Span(dedup),
        parent,
        previous,
        successor,
        bool(has_children),
        bool(is_needed),
    )


def unused_blobs(connection: apsw.Connection, before: Instant) -> set[str]:
    """The old payloads to which no row refers."""
    old = {digest.hex() for (digest,) in connection.execute(SQL["retention.list_old_blobs"], {"before": before})}
    if old:
        old -= references_in(value for (value,) in connection.execute(SQL["retention.list_referring"]))
    return old
