"""Writing records: by changes, and by the commits and ends of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from stepwell.clock import Instant, Span
from stepwell.model.locations import Location
from stepwell.model.records import (
    CLOSED_WITH_RUN,
    NewRecord,
    NewRecordEvent,
    RecordClosing,
    RecordOpening,
    RecordsSeen,
    check_closing,
    check_opening,
)
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction

_ADD, _REPLACE, _CLOSE = SQL["records.add"], SQL["records.replace"], SQL["records.close"]
_ADD_LABEL, _MARK_LABELS, _CLEAR_LABELS = (
    SQL[f"records.{name}"] for name in ("add_label", "mark_labels", "clear_labels")
)
_APPEND_EVENT = SQL["records.append_event"]


def add(tx: Transaction, new: NewRecord, *, run: int | None = None, location: Location | None = None) -> int | None:
    """Add a record. Returns its number, or None if there is one with this kind and id."""
    due_at = _due_at(new)
    what = (new.kind, new.record_id, new.state, int(new.is_open), due_at, new.end_state)
    row = tx.execute(_ADD, (*what, run, location, tx.now, new.body)).fetchone()
    if row is None:
        return None
    _add_labels(tx, row[0], new, due_at)
    if due_at is not None:
        tx.hint_all(HintKind.DUE)
    return int(row[0])


def replace(tx: Transaction, known: Row, new: NewRecord) -> int:
    """Replace a record, from its row of `records.find_known`. Returns its number."""
    number, _, was_open, was_due_at = known
    due_at = _due_at(new)
    tx.write(_REPLACE, (new.state, int(new.is_open), due_at, new.end_state, tx.now, new.body, number))
    if [label for (label,) in tx.rows("records.list_labels", record=number)] != list(new.labels):
        tx.write(_CLEAR_LABELS, (number,))
        _add_labels(tx, number, new, due_at)
    elif new.labels and (bool(was_open), was_due_at) != (new.is_open, due_at):
        tx.write(_MARK_LABELS, (int(new.is_open), due_at, number))
    if due_at is not None and (was_due_at is None or due_at < was_due_at):
        tx.hint_all(HintKind.DUE)
    return int(number)


def _due_at(new: NewRecord) -> Instant | None:
    return new.due_at if new.is_open else None


def _add_labels(tx: Transaction, number: int, new: NewRecord, due_at: Instant | None) -> None:
    for label in new.labels:
        tx.write(_ADD_LABEL, (number, label, new.kind, int(new.is_open), due_at))


def append_events(tx: Transaction, number: int, events: Sequence[NewRecordEvent], change_id: str | None = None) -> None:
    """Append to the history of a record, which has its new version already."""
    for verb, by, data in events:
        tx.write(_APPEND_EVENT, (number, tx.now, by, verb, data, change_id))
        change_id = None


def is_stale(tx: Transaction, seen: RecordsSeen) -> bool:
    """Whether the open records of a kind and label are others than these."""
    now = tx.rows("records.list_versions", kind=seen.kind, label=seen.label)
    return sorted(map(tuple, now)) != sorted(map(tuple, seen.versions))


# --- commits and ends of runs ---


def open_record(tx: Transaction, run: int, opening: RecordOpening) -> None:
    """Open a record for a run, unless it exists."""
    check_opening(opening.record, opening.events)
    number = add(tx, opening.record, run=run, location=opening.location)
    if number is not None:
        append_events(tx, number, opening.events)


def close_record(tx: Transaction, run: int, closing: RecordClosing) -> None:
    """Close a record of a run, unless it is closed."""
    check_closing(closing)
    row = tx.find("records.find_open_of_run", kind=closing.kind, record_id=closing.record_id, run=run)
    if row is not None:
        _close(tx, row[0], closing.event, closing.state)


def close_all(tx: Transaction, run: int) -> None:
    """Close the records that end with a run."""
    _close_with_run(tx, tx.rows("records.list_closing", run=run))


def close_between(tx: Transaction, run: int, low: Location, high: Location) -> None:
    """Close the records that end with a run, in a range of locations."""
    _close_with_run(tx, tx.rows("records.list_closing_between", run=run, low=low, high=high))


def close_at(tx: Transaction, run: int, location: Location) -> None:
    """Close the records that end with a run, at a location."""
    close_between(tx, run, location, Location(location + b"\0"))


def close_lost(tx: Transaction, run: int) -> None:
    """Close the records that end with a run, at locations where nothing is recorded or awaited."""
    _close_with_run(tx, tx.rows("records.list_closing_lost", run=run))


def _close_with_run(tx: Transaction, rows: Iterable[Row]) -> None:
    for (number,) in rows:
        _close(tx, number, CLOSED_WITH_RUN)


def _close(tx: Transaction, number: int, event: NewRecordEvent, state: str | None = None) -> None:
    tx.write(_CLOSE, (state, tx.now, number))
    tx.write(_MARK_LABELS, (0, None, number))
    append_events(tx, number, [event])


# --- care ---


def prune(tx: Transaction, kind: str, older_than: Span, limit: int) -> int:
    """Delete closed records that were last changed longer ago than this."""
    old = tx.rows("records.list_old", kind=kind, before=tx.now - older_than, limit=limit)
    if old:
        tx.run("records.prune", numbers=json.dumps([number for (number,) in old]))
    return len(old)
