"""Writing records: by changes, and by the commits and ends of runs."""

from __future__ import annotations

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
from stepwell.stores.sqlite.rows import encode_texts
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction

_ADD, _REPLACE, _RESCHEDULE, _REWRITE, _CLOSE = (
    SQL[f"records.{name}"] for name in ("add", "replace", "reschedule", "rewrite", "close")
)
_ADD_LABELS, _MARK_LABELS, _MARK_LABEL, _REMOVE_LABELS = (
    SQL[f"records.{name}"] for name in ("add_labels", "mark_labels", "mark_label", "remove_labels")
)
_LIST_BETWEEN = SQL["records.list_closing_between"]
_FIND_KNOWN, _APPEND_EVENT = SQL["records.find_known"], SQL["records.append_event"]
_DROP_EVENTS = SQL["records.drop_events"]


def add(tx: Transaction, new: NewRecord, *, run: int | None = None, location: Location | None = None) -> int | None:
    """Add a record. Returns its number, or None if there is one with this kind and id."""
    due_at, labels = _due_at(new), encode_texts(new.labels)
    what = (new.kind, new.record_id, new.state, labels, new.is_open, due_at, new.end_state)
    row = tx.execute(_ADD, (*what, run, location, tx.now, new.body)).fetchone()
    if row is None:
        return None
    if new.labels:
        tx.write(_ADD_LABELS, (new.kind, new.is_open, row[0], due_at, labels))
    if due_at is not None:
        tx.hint_all(HintKind.DUE)
    return int(row[0])


def find_known(tx: Transaction, new: NewRecord) -> Row | None:
    """The row of `records.find_known` for a record that is to be replaced."""
    same = (encode_texts(new.labels), new.state, new.is_open, new.end_state)
    row: Row | None = tx.execute(_FIND_KNOWN, (*same, new.kind, new.record_id)).fetchone()
    return row


def replace(tx: Transaction, known: Row, new: NewRecord) -> int:
    """Replace a record, from its row of `records.find_known`. Returns its number."""
    number, _, was_open, was_due_at, has_same_labels, has_same_state = known
    due_at, labels = _due_at(new), encode_texts(new.labels)
    if not has_same_labels:
        tx.write(_REMOVE_LABELS, (new.kind, was_open, number))
        tx.write(_ADD_LABELS, (new.kind, new.is_open, number, due_at, labels))
    elif new.labels and (was_open, was_due_at) != (new.is_open, due_at):
        for label in new.labels:
            tx.write(_MARK_LABEL, (new.is_open, due_at, new.kind, label, was_open, number))
    if not has_same_state:
        tx.write(_REPLACE, (new.state, labels, new.is_open, due_at, new.end_state, tx.now, new.body, number))
    elif due_at != was_due_at:
        tx.write(_RESCHEDULE, (labels, due_at, tx.now, new.body, number))
    else:
        tx.write(_REWRITE, (labels, tx.now, new.body, number))
    if due_at is not None and (was_due_at is None or due_at < was_due_at):
        tx.hint_all(HintKind.DUE)
    return int(number)


def _due_at(new: NewRecord) -> Instant | None:
    return new.due_at if new.is_open else None


def append_events(
    tx: Transaction, number: int, version: int, events: Sequence[NewRecordEvent], change_id: str | None = None
) -> None:
    """Append to the history of a record."""
    for verb, by, data, replaces in events:
        tx.write(_APPEND_EVENT, (number, tx.now, by, verb, version, data, change_id))
        if replaces:
            tx.write(_DROP_EVENTS, (number, verb, version))
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
        append_events(tx, number, 1, opening.events)


def close_record(tx: Transaction, run: int, closing: RecordClosing) -> None:
    """Close a record of a run, unless it is closed."""
    check_closing(closing)
    row = tx.find("records.find_open_of_run", kind=closing.kind, record_id=closing.record_id, run=run)
    if row is not None:
        _close(tx, row, closing.event, closing.state)


def close_all(tx: Transaction, run: int) -> None:
    """Close the records that end with a run."""
    _close_with_run(tx, tx.rows("records.list_closing", run=run))


def close_between(tx: Transaction, run: int, low: Location, high: Location) -> None:
    """Close the records that end with a run, in a range of locations."""
    _close_with_run(tx, tx.execute(_LIST_BETWEEN, (run, low, high)))


def close_at(tx: Transaction, run: int, location: Location) -> None:
    """Close the records that end with a run, at a location."""
    close_between(tx, run, location, Location(location + b"\0"))


def close_lost(tx: Transaction, run: int) -> None:
    """Close the records that end with a run, at locations where nothing is recorded or awaited."""
    _close_with_run(tx, tx.rows("records.list_closing_lost", run=run))


def _close_with_run(tx: Transaction, rows: Iterable[Row]) -> None:
    for row in list(rows):
        _close(tx, row, CLOSED_WITH_RUN)


def _close(tx: Transaction, row: Row, event: NewRecordEvent, state: str | None = None) -> None:
    number, kind, version, has_labels = row
    tx.write(_CLOSE, (state, tx.now, number))
    if has_labels:
        tx.write(_MARK_LABELS, (False, None, kind, True, number))
    append_events(tx, number, version + 1, [event])


# --- care ---


def prune(tx: Transaction, kind: str, older_than: Span, limit: int) -> int:
    """Delete closed records that were last changed longer ago than this."""
    old = tx.rows("records.list_old", kind=kind, before=tx.now - older_than, limit=limit)
    for (number,) in old:
        tx.write(_REMOVE_LABELS, (kind, False, number))
        tx.run("records.prune", number=number)
    return len(old)
