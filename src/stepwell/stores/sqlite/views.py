"""Reads for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import apsw

from stepwell.clock import Instant
from stepwell.ids import RunId, SignalId
from stepwell.model.attributes import AttributeKind
from stepwell.model.events import KeptEvent
from stepwell.model.live import Chunk, ChunkKind, Page, Published
from stepwell.model.locations import format_path
from stepwell.model.runs import Run
from stepwell.model.signals import Question, Signal
from stepwell.model.workers import Worker
from stepwell.stores.base.damage import salvage
from stepwell.stores.base.filters import in_order
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
from stepwell.stores.sql.filters import payload_table, run_conditions, run_searches
from stepwell.stores.sql.indexed_filters import (
    FEW,
    Query,
    counted,
    found_first,
    is_indexed,
    list_selects,
    parameters_of,
    walked,
)
from stepwell.stores.sqlite.histories import read_events, read_history, read_signals
from stepwell.stores.sqlite.rows import (
    decode_texts,
    encode_texts,
    readable_values,
    to_listed_run,
    to_progress,
    to_question,
    to_run,
    to_status,
    to_worker,
)
from stepwell.stores.sqlite.runners import Runner
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, row_of, rows_of
from stepwell.stores.sqlite.transitions.holds import served

T = TypeVar("T")

_FEW = 32


class SqliteViews:
    """`ViewStore`: small look-ups run on the loop's thread, queries that may read many rows in another thread."""

    def __init__(self, runner: Runner, now: Callable[[], Instant]) -> None:
        self._runner = runner
        self._now = now

    async def find(self, target: str) -> Run | None:
        return await self._runner.read(partial(_find, target=target))

    async def find_many(self, targets: Sequence[str]) -> list[Run | None]:
        return await self._runner.read(partial(_find_many, targets=targets), is_large=len(targets) > _FEW)

    async def find_by_prefix(self, prefix: str, *, limit: int) -> list[RunId]:
        if not is_storable(prefix):
            return []
        rows = await self._runner.read(lambda c: rows_of(c, "views.find_by_prefix", prefix=prefix, limit=limit))
        return [run_id for (run_id,) in rows]

    async def detail(self, run_id: RunId) -> Detail | None:
        if not is_storable(run_id):
            return None
        return await self._runner.read(partial(_detail, run_id=run_id), is_large=True)

    async def list_published(self, run_id: RunId) -> list[Published]:
        rows = await self._runner.read(lambda c: rows_of(c, "live.list_published", run_id=run_id))
        return [Published._make(row) for row in rows]

    async def list_streams(self, run_id: RunId) -> list[str]:
        rows = await self._runner.read(lambda c: rows_of(c, "live.list_streams", run_id=run_id), is_large=True)
        return [stream for (stream,) in rows]

    async def read_stream(self, run_id: RunId, stream: str, *, after: int, limit: int) -> Page:
        query = partial(_read_stream, run_id=run_id, stream=stream, after=after, limit=limit)
        return await self._runner.read(query, is_large=limit > _FEW)

    async def list_progress(self, run_ids: Sequence[RunId]) -> list[list[StepProgress]]:
        return await self._runner.read(partial(_list_progress, run_ids=run_ids), is_large=len(run_ids) > _FEW)

    async def list_runs(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Run]:
        query = partial(_list_runs, where=where, before=before, limit=limit)
        return await self._runner.read(query, is_large=True)

    async def count_runs(self, where: RunFilter, *, limit: int) -> int:
        return await self._runner.read(partial(_count_runs, where=where, limit=limit), is_large=True)

    async def list_workers(self) -> list[Worker]:
        return list(map(to_worker, await self._runner.read(lambda c: rows_of(c, "workers.list"))))

    async def list_held(self, *, limit: int, key: str | None = None) -> list[HeldSignal]:
        def query(connection: apsw.Connection) -> list[Row]:
            if key is None:
                return rows_of(connection, "signals.list_held", limit=limit)
            return rows_of(connection, "signals.list_held_for", limit=limit, key=key)

        rows = await self._runner.read(query, is_large=True)
        return [HeldSignal(key, Signal._make(signal)) for key, *signal in rows]

    async def list_unread(
        self, *, limit: int, run_id: RunId | None = None, after: int = 0, is_refused: bool = False
    ) -> list[UnreadSignal]:
        found = {"limit": limit, "run_id": run_id, "after": after, "is_refused": int(is_refused)}
        rows = await self._runner.read(lambda c: rows_of(c, "signals.list_unread", **found), is_large=True)
        return [
            UnreadSignal(left_by, to_status(status), reason, Signal._make(signal), refused_by)
            for left_by, status, reason, *signal, refused_by in rows
        ]

    async def find_question(self, signal_id: SignalId) -> Question | None:
        row = await self._runner.read(lambda c: row_of(c, "replies.find", signal_id=signal_id))
        return None if row is None else to_question(row)

    async def list_events(self, *, limit: int, topic: str | None = None) -> list[KeptEvent]:
        now = self._now()
        rows = await self._runner.read(
            lambda c: rows_of(c, "events.list_kept", topic=topic, now=now, limit=limit), is_large=True
        )
        return [KeptEvent._make(row) for row in rows]

    async def list_audit(self, run_id: RunId) -> list[Audit]:
        rows = await self._runner.read(lambda c: rows_of(c, "audit.list", run_id=run_id))
        return [Audit._make(row) for row in rows]

    async def list_definitions(self) -> list[str]:
        return await self._runner.read(_list_definitions, is_large=True)

    async def list_attribute_kinds(self, name: str) -> list[AttributeKind]:
        rows = await self._runner.read(lambda c: rows_of(c, "attributes.list_kinds", name=name))
        return [AttributeKind(kind) for (kind,) in rows]

    async def tally_runs(self) -> list[Tally]:
        rows = await self._runner.read(lambda c: rows_of(c, "views.tally_runs"), is_large=True)
        counted = [Tally(name, to_status(status), count, last_at) for name, status, count, last_at in rows]
        return sorted(counted)

    async def count_unfinished(self) -> UnfinishedCounts:
        return await self._runner.read(partial(_count_unfinished, now=self._now()), is_large=True)

    async def next_wake(self, definitions: Collection[str]) -> Instant | None:
        return await self._runner.read(partial(_next_wake, definitions=definitions))

    async def has_stranded(self) -> bool:
        return await self._runner.read(partial(_has_stranded, now=self._now()))

    async def upcoming_work(self, definitions: Collection[str]) -> UpcomingWork:
        return await self._runner.read(partial(_upcoming_work, definitions=definitions, now=self._now()))

    async def orphans(self) -> list[RunId]:
        rows = await self._runner.read(lambda c: rows_of(c, "views.list_orphans"), is_large=True)
        return [run_id for (run_id,) in rows]


def in_snapshot(connection: apsw.Connection, query: Callable[[], T]) -> T:
    """Run several statements on one state of the database; within a transaction they are anyway."""
    if connection.in_transaction:
        return query()
    connection.execute(SQL["transactions.begin_read"])
    try:
        return query()
    finally:
        connection.execute(SQL["transactions.commit"])


def _find(connection: apsw.Connection, target: str) -> Run | None:
    if not is_storable(target):
        return None
    row = row_of(connection, "runs.read_by_id", run_id=target) or row_of(connection, "views.find_by_key", key=target)
    return None if row is None else to_run(row)


def is_storable(text: str) -> bool:
    """Whether the database can hold a text. It cannot hold, nor be asked for, half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_many(connection: apsw.Connection, targets: Sequence[str]) -> list[Run | None]:
    def query() -> list[Run | None]:
        by_id = {run.run_id: run for run in map(to_run, rows_of(connection, "views.find_many_by_id", ids=ids))}
        missing = [target for target in targets if target not in by_id and is_storable(target)]
        if not missing:
            return [by_id.get(RunId(target)) for target in targets]
        rows = rows_of(connection, "views.find_many_by_key", keys=encode_texts(missing))
        by_key = {run.key: run for run in map(to_run, rows)}
        return [by_id.get(RunId(target)) or by_key.get(target) for target in targets]

    ids = encode_texts([target for target in targets if is_storable(target)])
    return in_snapshot(connection, query)


def _list_progress(connection: apsw.Connection, run_ids: Sequence[RunId]) -> list[list[StepProgress]]:
    def query() -> list[list[StepProgress]]:
        found = rows_of(connection, "progress.list_many", ids=encode_texts(list(run_ids)))
        if not found:
            return [[] for _ in run_ids]
        names: dict[str, list[str]] = {}
        for run_id, name in rows_of(connection, "names.list_many", ids=encode_texts(list({row[0] for row in found}))):
            names.setdefault(run_id, []).append(name)
        of_run: dict[str, list[StepProgress]] = {}
        for run_id, *row in found:
            progress = to_progress(tuple(row))
            of_run.setdefault(run_id, []).append(
                StepProgress(format_path(progress.location, tuple(names[run_id])), progress)
            )
        return [of_run.get(run_id, []) for run_id in run_ids]

    return in_snapshot(connection, query)


def _list_runs(connection: apsw.Connection, where: RunFilter, before: RunId | None, limit: int) -> list[Run]:
    def query() -> list[Run]:
        return in_order(_listed(connection, find_page(connection, where, before, limit)), where.order)[:limit]

    return in_snapshot(connection, query)


def find_page(connection: apsw.Connection, where: RunFilter, before: RunId | None, limit: int) -> list[int]:
    """The numbers of the runs among which a page of a listing is: the first `limit` of them in its order.

    In an order by an attribute they are in that order.
    """
    first = "true"
    if is_indexed(where):
        select, is_few = _smallest(connection, where)
        asked = found_first(where, before, select) if is_few else walked(where, before)
        if asked is not None:
            return _find_by(connection, asked, limit)
        first = f"r.id in ({select})"
    found: list[int] = []
    tables = f"stepwell_runs as r{payload_table(where)}"
    for conditions, parameters in run_conditions(where, before):
        page = list[int]()
        for search in run_searches(where, before, first):
            text = SQL["views.list_runs"].replace("{tables}", tables).replace("{conditions}", conditions)
            text = text.replace("{more}", search.more).replace("{order}", search.order)
            text = text.replace("{definition}", search.definition)
            page = [number for (number,) in connection.execute(text, {**parameters, "limit": limit})]
            if len(page) == limit:
                break
        found += page
    return found


def _smallest(connection: apsw.Connection, where: RunFilter) -> tuple[str, bool]:
    """Of the selects that contain all runs of a filter, the one with the fewest runs, and whether it has few."""
    parameters, best, least = parameters_of(where), "", FEW + 1
    for select in list_selects(where):
        asked = SQL["views.count_selected"].replace("{select}", select)
        [(count,)] = connection.execute(asked, {**parameters, "limit": least})
        if count < least or not best:
            best, least = select, count
    return best, bool(best) and least < FEW


def _find_by(connection: apsw.Connection, asked: Query, limit: int) -> list[int]:
    text = SQL["views.list_runs"].replace("{tables}", asked.tables).replace("{conditions}", asked.conditions)
    text = text.replace("{more}", "true").replace("{order}", asked.order).replace("{definition}", "definition")
    return [number for (number,) in connection.execute(text, {**asked.parameters, "limit": limit})]


def _listed(connection: apsw.Connection, numbers: list[int]) -> list[Run]:
    """The runs with these numbers. If a row contains invalid text, each row is read separately."""
    try:
        return [to_listed_run(row) for row in rows_of(connection, "views.find_many", ids=json.dumps(numbers))]
    except UnicodeDecodeError as error:
        if len(numbers) > 1:
            return [run for number in numbers for run in _listed(connection, [number])]
        row = row_of(connection, "views.find_readable", id=numbers[0])
        return [] if row is None else [salvage(readable_values(row), error)]


def _count_runs(connection: apsw.Connection, where: RunFilter, limit: int) -> int:
    def query() -> int:
        if is_indexed(where):
            select, is_few = _smallest(connection, where)
            return _count(connection, found_first(where, None, select) if is_few else counted(where), limit)
        tables = f"stepwell_runs as r{payload_table(where)}"
        asked = [Query(tables, condition, "", parameters) for condition, parameters in run_conditions(where, None)]
        return min(sum(_count(connection, one, limit) for one in asked), limit)

    return in_snapshot(connection, query)


def _count(connection: apsw.Connection, asked: Query, limit: int) -> int:
    text = SQL["views.count_runs"].replace("{tables}", asked.tables).replace("{conditions}", asked.conditions)
    [(count,)] = connection.execute(text.replace("{definition}", "definition"), {**asked.parameters, "limit": limit})
    return int(count)


def _count_unfinished(connection: apsw.Connection, now: Instant) -> UnfinishedCounts:
    def query() -> UnfinishedCounts:
        runs = {to_status(status): count for status, count in rows_of(connection, "views.count_unfinished")}
        [(due, since)] = rows_of(connection, "views.count_due", now=now)
        return UnfinishedCounts(runs, due, since)

    return in_snapshot(connection, query)


def _detail(connection: apsw.Connection, run_id: RunId) -> Detail | None:
    def query() -> Detail | None:
        row = row_of(connection, "runs.read_by_id", run_id=run_id)
        if row is None:
            return None
        children = rows_of(connection, "views.list_children", run_id=run_id)
        return Detail(
            to_run(row),
            read_history(connection, row[0]),
            read_signals(connection, row[0]),
            tuple(map(to_listed_run, children)),
            read_events(connection, row[0]),
        )

    return in_snapshot(connection, query)


def _read_stream(connection: apsw.Connection, run_id: RunId, stream: str, after: int, limit: int) -> Page:
    def query() -> Page:
        ended = row_of(connection, "live.has_ended", run_id=run_id)
        rows = rows_of(connection, "live.read_chunks", run_id=run_id, stream=stream, after=after, limit=limit)
        chunks = tuple(Chunk(offset, ChunkKind(kind), source, value) for offset, kind, source, value in rows)
        return Page(chunks, ended is None or bool(ended[0]))

    return in_snapshot(connection, query)


def _list_definitions(connection: apsw.Connection) -> list[str]:
    named = {f"{workflow}@{version}" for workflow, version in rows_of(connection, "definitions.list")}
    return sorted(named.union(*(decode_texts(row[-1]) for row in rows_of(connection, "workers.list"))))


def _next_wake(connection: apsw.Connection, definitions: Collection[str]) -> Instant | None:
    earliest: Instant | None = None
    for definition in served(connection, tuple(definitions)):
        workflow, _, version = definition.rpartition("@")
        if not version.isdecimal():
            continue
        row = row_of(connection, "views.next_wake", workflow=workflow, version=int(version))
        wake_at = None if row is None else row[0]
        if wake_at is not None and (earliest is None or wake_at < earliest):
            earliest = wake_at
    return earliest


def _upcoming_work(connection: apsw.Connection, definitions: Collection[str], now: Instant) -> UpcomingWork:
    def query() -> UpcomingWork:
        lease_end = row_of(connection, "workers.next_lease_end", now=now)
        wake_at = _next_wake(connection, definitions)
        return UpcomingWork(wake_at, _has_stranded(connection, now), None if lease_end is None else lease_end[0])

    return in_snapshot(connection, query)


def _has_stranded(connection: apsw.Connection, now: Instant) -> bool:
    if row_of(connection, "workers.find_dead", now=now) is not None:
        return True
    return row_of(connection, "workers.list_dead_owners", now=now) is not None
