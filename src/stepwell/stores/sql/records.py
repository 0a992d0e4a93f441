"""Conditions and orders of listings of records, assembled from an allow-list. Values are parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.model.records import Record, RecordFilter


class _Index(NamedTuple):
    """An index whose ranges are in the order of pages, and the condition that makes a range of it."""

    table: str
    name: str
    condition: str
    number: str = "d.number"  # the column with the number of the record

    @property
    def is_of_labels(self) -> bool:
        """Whether it has a row for each label of a record."""
        return self.table == _LABELS


_RECORDS, _LABELS = "stepwell_records", "stepwell_record_labels"
_DUE_ONLY: Final = "due_at is not null"
_IS_OPEN: Final = "is_open = :is_open"
_BY_RUN: Final = _Index(_RECORDS, "stepwell_records_run", "run = (select id from stepwell_runs where run_id = :run_id)")
_BY_STATE: Final = _Index(_RECORDS, "stepwell_records_state", "state = :state")
_BY_OPEN: Final = _Index(_RECORDS, "stepwell_records_open", _IS_OPEN)
_BY_DUE: Final = _Index(_RECORDS, "stepwell_records_due", _DUE_ONLY)
_BY_LABEL: Final = _Index(_LABELS, "stepwell_record_labels_open", f"label = :label_0 and {_IS_OPEN}", "d.record")
_BY_LABEL_DUE: Final = _Index(_LABELS, "stepwell_record_labels_due", f"label = :label_0 and {_DUE_ONLY}", "d.record")

_HAS_LABEL: Final = (
    f"exists (select 1 from {_LABELS} as other where other.record = {{number}} and other.label = :label_{{label}})"
)
_STATES: Final = "state in (select value from json_each(:states))"
_STATES_OF_LABELLED: Final = f"exists (select 1 from {_RECORDS} as r where r.number = d.record and r.{_STATES})"


class RecordSearch(NamedTuple):
    """A range of an index: records in the order of the page."""

    keys: str  # the columns of that order; the last is the number
    table: str
    conditions: str
    order: str
    parameters: dict[str, Any]

    def fill(self, statement: str) -> str:
        """The statement with its markers replaced."""
        text = statement.replace("{keys}", self.keys).replace("{table}", self.table)
        return text.replace("{conditions}", self.conditions).replace("{order}", self.order)


def record_searches(where: RecordFilter, after: Record | None = None) -> list[RecordSearch]:
    """The ranges of which the first records are the page. The index is named, because SQLite does not know how many
    records have a label or a state.
    """
    given: dict[str, Any] = {
        "kind": where.kind,
        "run_id": where.run_id,
        "states": msgspec.json.encode(where.states).decode(),
        "due_before": where.due_before,
        **{f"label_{number}": label for number, label in enumerate(where.labels)},
    }
    if after is not None:
        given |= {"after": after.number, "after_due": after.due_at}
    return [_search(where, index, {**given, **own}, is_first=after is None) for index, own in _ranges(where)]


def _ranges(where: RecordFilter) -> list[tuple[_Index, dict[str, Any]]]:
    """The indexes that find the fewest records, with the parameters of their ranges."""
    is_due = where.order == "due" or where.due_before is not None
    if is_due and where.is_open is False:
        return []  # a closed record is never due
    either: list[dict[str, Any]] = [{"is_open": int(one)} for one in (False, True) if where.is_open in (None, one)]
    if where.run_id is not None:
        return [(_BY_RUN, one) for one in either[:1]]
    if is_due:
        return [(_BY_LABEL_DUE if where.labels else _BY_DUE, {})]
    if where.labels:
        return [(_BY_LABEL, one) for one in either]
    if where.states:
        return [(_BY_STATE, {"state": state, **either[0]}) for state in dict.fromkeys(where.states)]
    return [(_BY_OPEN, one) for one in either]


def _search(where: RecordFilter, index: _Index, given: dict[str, Any], *, is_first: bool) -> RecordSearch:
    conditions = ["kind = :kind", index.condition, *_more(where, index)]
    if not is_first:
        conditions.append(_behind(where, index.number))
    keys = f"due_at, {index.number}" if where.order == "due" else index.number
    order = f"{keys} desc" if where.order == "newest" else keys
    return RecordSearch(keys, f"{index.table} as d indexed by {index.name}", " and ".join(conditions), order, given)


def _more(where: RecordFilter, index: _Index) -> Iterable[str]:
    """The conditions that the range does not meet by itself."""
    for label in range(1 if index.is_of_labels else 0, len(where.labels)):
        yield _HAS_LABEL.replace("{number}", index.number).replace("{label}", str(label))
    if where.states and index is not _BY_STATE:
        yield _STATES_OF_LABELLED if index.is_of_labels else _STATES
    if where.is_open is not None and index in (_BY_RUN, _BY_STATE):
        yield _IS_OPEN
    if where.due_before is not None:
        yield "due_at < :due_before"
    if where.order == "due" and index is _BY_RUN:
        yield _DUE_ONLY


def _behind(where: RecordFilter, number: str) -> str:
    if where.order == "due":
        return f"(due_at, {number}) > (:after_due, :after)"
    return f"{number} {'<' if where.order == 'newest' else '>'} :after"
