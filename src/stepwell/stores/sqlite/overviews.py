"""Overviews: reads for pages that are shown and refreshed often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import apsw

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.model.entries import Attempt, Entry
from stepwell.model.locations import Location, undo
from stepwell.model.signals import Signal
from stepwell.model.states import RunStatus, WaitKind
from stepwell.stores.base.damage import UNREADABLE
from stepwell.stores.base.filters import in_time_order
from stepwell.stores.base.overviews import (
    NOWHERE,
    Bin,
    Histogram,
    Movement,
    Outline,
    Passage,
    PastEvent,
    SinkUse,
    Standing,
    State,
    Summary,
    TopicUse,
    WaitGroup,
    largest_first,
)
from stepwell.stores.base.views import HeldSignal, RunFilter, UnreadSignal
from stepwell.stores.sql.filters import UNENDED, payload_table, run_condition
from stepwell.stores.sqlite.histories import read_names, read_waits
from stepwell.stores.sqlite.rows import (
    decode_texts,
    encode_texts,
    to_attempt,
    to_entry,
    to_progress,
    to_run,
    to_signal,
    to_status,
)
from stepwell.stores.sqlite.runners import Runner
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, row_of, rows_of
from stepwell.stores.sqlite.views import find_page, in_snapshot, is_storable

# Runs in these statuses move without a wait, or stand still until a person acts.
_NOTABLE = (
    RunStatus.RUNNING,
    RunStatus.CANCELLING,
    RunStatus.COMPENSATING,
    RunStatus.PENDING,
    RunStatus.PAUSED,
    RunStatus.COMPENSATION_FAILED,
)


class SqliteOverviews:
    """`OverviewStore`: all reads run in another thread than the event loop's."""

    def __init__(self, runner: Runner, now: Callable[[], Instant]) -> None:
        self._runner = runner
        self._now = now

    async def list_summaries(self, where: RunFilter, *, limit: int, before: RunId | None = None) -> list[Summary]:
        query = partial(_list_summaries, where=where, before=before, limit=limit)
        return await self._runner.read(query, is_large=True)

    async def count_created(
        self, where: RunFilter, *, since: Instant, until: Instant, width: Span, scan_max: int
    ) -> Histogram:
        asked = {"since": since, "until": until, "width": width, "scan_max": scan_max}
        return await self._runner.read(partial(_count_created, where=where, asked=asked), is_large=True)

    async def list_standings(self, run_ids: Sequence[RunId], *, limit: int) -> list[Standing]:
        query = partial(_list_standings, run_ids=run_ids, limit=limit)
        return await self._runner.read(query, is_large=True)

    async def list_movement(self, since: Instant, watched: Sequence[RunId], *, limit: int) -> Movement:
        query = partial(_list_movement, since=since, watched=watched, limit=limit)
        return await self._runner.read(query, is_large=True)

    async def list_topics(self, *, limit: int) -> list[TopicUse]:
        return await self._runner.read(partial(_list_topics, now=self._now(), limit=limit), is_large=True)

    async def list_past_events(self, topic: str | None, *, limit: int, scan_max: int) -> list[PastEvent]:
        asked = {"topic": topic, "limit": limit, "scan_max": scan_max, "now": self._now()}
        rows = await self._runner.read(lambda c: rows_of(c, "overviews.list_past_events", **asked), is_large=True)
        return [PastEvent(*row) for row in rows]

    async def tally_owed(self, *, limit: int) -> list[SinkUse]:
        rows = await self._runner.read(lambda c: rows_of(c, "overviews.tally_owed", limit=limit), is_large=True)
        return [SinkUse(*row) for row in rows]

    async def tally_waits(self, *, limit: int) -> list[WaitGroup]:
        rows = await self._runner.read(lambda c: rows_of(c, "overviews.tally_waits", limit=limit), is_large=True)
        groups = [WaitGroup(WaitKind(kind), decode_texts(names), *rest) for kind, names, *rest in rows]
        return largest_first(groups)

    async def find_undelivered(self, number: int) -> HeldSignal | UnreadSignal | None:
        row = await self._runner.read(lambda c: row_of(c, "overviews.find_undelivered", number=number))
        if row is None:
            return None
        key, run_id, status, reason, *signal = row
        if key is not None:
            return HeldSignal(key, Signal._make(signal))
        return UnreadSignal(run_id, to_status(status), reason, Signal._make(signal))

    async def read_outline(self, run_id: RunId) -> Outline | None:
        return await self._runner.read(partial(_read_outline, run_id=run_id), is_large=True)

    async def list_entries(self, run_id: RunId, *, after: int, limit: int) -> Passage:
        query = partial(_read_passage, run_id=run_id, statement="list_entries", asked={"after": after, "limit": limit})
        return await self._runner.read(query, is_large=True)

    async def find_entries(self, run_id: RunId, seqs: Sequence[int]) -> Passage:
        asked = {"seqs": json.dumps(list(seqs))}
        query = partial(_read_passage, run_id=run_id, statement="find_entries", asked=asked)
        return await self._runner.read(query, is_large=True)


def _list_summaries(connection: apsw.Connection, where: RunFilter, before: RunId | None, limit: int) -> list[Summary]:
    def query() -> list[Summary]:
        numbers = find_page(connection, where, before, limit)
        found = dict(_summaries(connection, numbers))
        if where.order.attribute:
            return [found[number] for number in numbers if number in found]
        return in_time_order(found.values(), where.order)[:limit]

    return in_snapshot(connection, query)


def _summaries(connection: apsw.Connection, numbers: list[int]) -> Iterable[tuple[int, Summary]]:
    """The summaries of the runs with these numbers, and the number of each.

    If a row contains invalid text, each row is read separately.
    """
    try:
        rows = rows_of(connection, "overviews.find_many", ids=json.dumps(numbers))
    except UnicodeDecodeError:
        if len(numbers) > 1:
            for number in numbers:
                yield from _summaries(connection, [number])
        return
    for number, run_id, workflow, version, status, *rest in rows:
        try:
            yield number, Summary(run_id, workflow, version, to_status(status), *rest)
        except UNREADABLE:
            continue


def _count_created(connection: apsw.Connection, where: RunFilter, asked: dict[str, int]) -> Histogram:
    condition, parameters = run_condition(where)
    joins = payload_table(where)

    def spelled(statement: str) -> str:
        text = SQL[f"overviews.{statement}"].replace("{joins}", joins).replace("{unended}", UNENDED)
        return text.replace("{conditions}", condition)

    def query() -> Histogram:
        ranged = {name: asked[name] for name in ("since", "until")}
        bound = row_of(connection, "overviews.find_bound", **ranged, scan_max=asked["scan_max"])
        # Runs of the same instant as the bound are left out with it.
        low = asked["since"] if bound is None else int(bound[0]) + 1
        runs, failed = Counter[int](), Counter[int]()
        for statement in ("count_ended", "count_unended"):
            given = {**parameters, **asked, "low": low}
            for part, count, bad in connection.execute(spelled(statement), given):
                runs[part] += count
                failed[part] += bad
        [(has_more,)] = connection.execute(spelled("has_more_unended"), {"scan_max": asked["scan_max"]})
        bins = tuple(Bin(part, runs[part], failed[part]) for part in sorted(runs))
        return Histogram(bins, Instant(low), not has_more)

    return in_snapshot(connection, query)


def _list_standings(connection: apsw.Connection, run_ids: Sequence[RunId], limit: int) -> list[Standing]:
    def one(run_id: RunId) -> Standing:
        row = row_of(connection, "views.list_ids", ids=encode_texts([run_id])) if is_storable(run_id) else None
        if row is None:
            return NOWHERE
        run = row[1]
        waits = read_waits(connection, run)
        return Standing(
            read_names(connection, run),
            waits,
            _read_attempts(connection, run, [wait.location for wait in waits]),
            tuple(map(to_progress, rows_of(connection, "progress.list", run=run))),
            tuple(map(to_signal, rows_of(connection, "overviews.list_signals", run=run, limit=limit))),
            tuple(map(_to_state, rows_of(connection, "overviews.list_children", run_id=run_id, limit=limit))),
        )

    return in_snapshot(connection, lambda: [one(run_id) for run_id in run_ids])


def _read_attempts(connection: apsw.Connection, run: int, places: Sequence[Location]) -> tuple[Attempt, ...]:
    """The attempts at these places."""
    if not places:
        return ()
    wanted = frozenset(places)
    rows = rows_of(connection, "overviews.list_attempts", run=run, low=min(wanted), high=max(wanted))
    return tuple(attempt for attempt in map(to_attempt, rows) if attempt.location in wanted)


def _to_state(row: Row) -> State:
    run_id, workflow, version, status, *rest = row
    return State(run_id, workflow, version, to_status(status), *rest)


def _list_movement(connection: apsw.Connection, since: Instant, watched: Sequence[RunId], limit: int) -> Movement:
    def query() -> Movement:
        created = rows_of(connection, "overviews.list_created", since=since, limit=limit + 1)
        ended = rows_of(connection, "overviews.list_ended", since=since, limit=limit + 1)
        notable = [rows_of(connection, "overviews.list_status", status=each, limit=limit) for each in _NOTABLE]
        ids = encode_texts([run_id for run_id in watched if is_storable(run_id)])
        others = rows_of(connection, "overviews.list_states", ids=ids)
        found = (created[:limit], ended[:limit], *notable, others)
        states = {row[0]: _to_state(row) for rows in found for row in rows}
        return Movement(tuple(states.values()), len(created) <= limit and len(ended) <= limit)

    return in_snapshot(connection, query)


def _list_topics(connection: apsw.Connection, now: Instant, limit: int) -> list[TopicUse]:
    def query() -> list[TopicUse]:
        waiting = dict(_pairs(connection, "overviews.tally_open", limit=limit))
        kept = dict(_pairs(connection, "overviews.tally_kept", now=now, limit=limit))
        rows = rows_of(connection, "overviews.tally_published", limit=limit)
        published = {topic: count for topic, count, _ in rows}
        last_at = {topic: at for topic, _, at in rows}
        return [
            TopicUse(topic, waiting.get(topic, 0), kept.get(topic, 0), published.get(topic, 0), last_at.get(topic))
            for topic in sorted({*waiting, *kept, *published})
        ]

    return in_snapshot(connection, query)


def _pairs(connection: apsw.Connection, statement: str, **asked: Any) -> list[tuple[str, int]]:
    return [(topic, count) for topic, count in rows_of(connection, statement, **asked)]


def _read_outline(connection: apsw.Connection, run_id: RunId) -> Outline | None:
    def query() -> Outline | None:
        row = row_of(connection, "runs.read_by_id", run_id=run_id) if is_storable(run_id) else None
        if row is None:
            return None
        run = row[0]
        return Outline(
            to_run(row),
            read_names(connection, run),
            tuple(map(to_entry, connection.execute(SQL["overviews.outline"], {"run": run}))),
            read_waits(connection, run),
            tuple(map(to_progress, rows_of(connection, "progress.list", run=run))),
        )

    return in_snapshot(connection, query)


def _read_passage(connection: apsw.Connection, run_id: RunId, statement: str, asked: dict[str, Any]) -> Passage:
    def query() -> Passage:
        row = row_of(connection, "views.list_ids", ids=encode_texts([run_id])) if is_storable(run_id) else None
        if row is None:
            return Passage((), (), (), ())
        run = row[1]
        entries = tuple(map(to_entry, rows_of(connection, f"overviews.{statement}", run=run, **asked)))
        attempts = _read_attempts(connection, run, [entry.location for entry in entries])
        undone = tuple(entry.location for entry in entries if _is_undone(connection, run, entry))
        return Passage(read_names(connection, run), entries, attempts, undone)

    return in_snapshot(connection, query)


def _is_undone(connection: apsw.Connection, run: int, entry: Entry) -> bool:
    return row_of(connection, "overviews.is_undone", run=run, location=undo(entry.location)) is not None
