"""Records: changes, and reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial

import apsw

from stepwell.clock import Instant, Span
from stepwell.model.records import Changed, Record, RecordChange, RecordEvent, RecordFilter
from stepwell.model.workers import Claimant
from stepwell.stores.base.damage import corrupt_record, salvage_record
from stepwell.stores.sql.records import record_searches
from stepwell.stores.sqlite.database import Valueless
from stepwell.stores.sqlite.rows import spelled, to_record
from stepwell.stores.sqlite.runners import Runner
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, row_of, rows_of
from stepwell.stores.sqlite.transitions import changes as transitions
from stepwell.stores.sqlite.transitions import records
from stepwell.stores.sqlite.views import in_snapshot, is_storable

_FEW = 32
_NUMBER_MAX = (1 << 63) - 1


class SqliteRecords:
    """`RecordStore` on SQLite."""

    def __init__(self, runner: Runner, now: Callable[[], Instant]) -> None:
        self._runner = runner
        self._now = now

    async def change(self, changes: Sequence[RecordChange], claimant: Claimant | None = None) -> list[Changed]:
        return await self._runner.write(lambda tx: transitions.change(tx, changes, claimant))

    async def prune(self, kind: str, *, older_than: Span, limit: int) -> int:
        return await self._runner.write(Valueless(lambda tx: records.prune(tx, kind, older_than, limit)))

    async def due(self, kinds: Collection[str], *, limit: int) -> list[Record]:
        query = partial(_due, kinds=kinds, now=self._now(), limit=limit)
        return await self._runner.read(query, is_large=limit > _FEW)

    async def next_due(self, kinds: Collection[str]) -> Instant | None:
        return await self._runner.read(partial(_next_due, kinds=kinds))

    async def find(self, kind: str, record_id: str) -> Record | None:
        return await self._runner.read(partial(find_record, kind=kind, record_id=record_id))

    async def list_records(self, where: RecordFilter, *, limit: int, after: Record | None = None) -> list[Record]:
        query = partial(_list_records, where=where, after=after, limit=limit)
        return await self._runner.read(query, is_large=True)

    async def count(self, where: RecordFilter, *, limit: int) -> int:
        return await self._runner.read(partial(_count, where=where, limit=limit), is_large=True)

    async def list_events(
        self, kind: str, record_id: str, *, limit: int, before: int | None = None
    ) -> list[RecordEvent]:
        if not is_storable(kind + record_id):
            return []
        asked = {"kind": kind, "record_id": record_id, "limit": limit}
        asked["before"] = _NUMBER_MAX if before is None else before
        rows = await self._runner.read(lambda c: rows_of(c, "records.list_events", **asked), is_large=limit > _FEW)
        return [RecordEvent._make(row) for row in rows]


def find_record(connection: apsw.Connection, kind: str, record_id: str) -> Record | None:
    """The record with this kind and id. Raises `CorruptRecordError` if it cannot be read."""
    if not is_storable(kind + record_id):
        return None
    row = row_of(connection, "records.find_known", kind=kind, record_id=record_id)
    return None if row is None else read_record(connection, row[0])


def read_record(connection: apsw.Connection, number: int) -> Record | None:
    """The record with this number. Raises `CorruptRecordError` if it cannot be read."""
    for record in _listed(connection, [number]):
        if record.damage:
            raise corrupt_record(record.kind, record.record_id, record.damage)
        return record
    return None


def _listed(connection: apsw.Connection, numbers: Sequence[int]) -> list[Record]:
    """The records with these numbers, in their order. If a row contains invalid text, each row is read separately."""
    try:
        rows = rows_of(connection, "records.find_many", numbers=json.dumps(numbers))
    except UnicodeDecodeError as error:
        if len(numbers) > 1:
            return [record for number in numbers for record in _listed(connection, [number])]
        row = row_of(connection, "records.find_readable", number=numbers[0])
        return [] if row is None else [_salvage(list(row), error)]
    found = {row[0]: row for row in rows}
    return [to_record(found[number]) for number in numbers if number in found]


def _salvage(values: list[object], error: Exception) -> Record:
    for column in (1, 2, 4):
        values[column] = spelled(str(values[column]))
    return salvage_record(values, error)


def _list_records(connection: apsw.Connection, where: RecordFilter, after: Record | None, limit: int) -> list[Record]:
    if not _is_askable(where):
        return []

    def query() -> list[Record]:
        found: list[Row] = []
        for search in record_searches(where, after):
            found += connection.execute(search.fill(SQL["records.list"]), {**search.parameters, "limit": limit})
        found.sort(reverse=where.order == "newest")
        return _listed(connection, [number for *_, number in found[:limit]])

    return in_snapshot(connection, query)


def _count(connection: apsw.Connection, where: RecordFilter, limit: int) -> int:
    if not _is_askable(where):
        return 0

    def query() -> int:
        found = 0
        for search in record_searches(where):
            [(count,)] = connection.execute(search.fill(SQL["records.count"]), {**search.parameters, "limit": limit})
            found += count
        return min(found, limit)

    return in_snapshot(connection, query)


def _is_askable(where: RecordFilter) -> bool:
    return is_storable("".join((where.kind, *where.states, *where.labels, where.run_id or "")))


def _due(connection: apsw.Connection, kinds: Collection[str], now: Instant, limit: int) -> list[Record]:
    def query() -> list[Record]:
        due: list[tuple[Instant, int]] = []
        for kind in dict.fromkeys(kinds):
            due += rows_of(connection, "records.list_due", kind=kind, now=now, limit=limit)
        return _listed(connection, [number for _, number in sorted(due)[:limit]])

    return in_snapshot(connection, query)


def _next_due(connection: apsw.Connection, kinds: Collection[str]) -> Instant | None:
    found = [row_of(connection, "records.next_due", kind=kind) for kind in kinds]
    return min((row[0] for row in found if row is not None and row[0] is not None), default=None)
