"""Conditions and orders of listings of records, assembled from an allow-list. Values are parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.model.records import Record, RecordFilter


class _Index(NamedTuple):
    """An index whose ranges are in the order of pages, and the condition that makes a range of it."""

    name: str
    condition: str
    number: str = "d.number"  # the column with the number of the record

    @property
    def table(self) -> str:
        """What is read. The index is named, because SQLite does not know how many records have a label or a state."""
        return f"{_LABELS if self.is_of_labels else 'stepwell_records'} as d {self.name}"

    @property
    def is_of_labels(self) -> bool:
        """Whether it has a row for each label of a record."""
        return self.number == "d.record"


_LABELS: Final = "stepwell_record_labels"
_IS_OPEN: Final = "d.is_open = :is_open"
_IS_DUE: Final = "d.due_at is not null"
_FIRST_LABEL: Final = "d.label = :label_0"
_BY_RUN: Final = _Index(
    "indexed by stepwell_records_run", "d.run = (select id from stepwell_runs where run_id = :run_id)"
)
_BY_STATE: Final = _Index("indexed by stepwell_records_state", f"{_IS_OPEN} and d.state = cast(:state as text)")
_BY_DUE: Final = _Index("indexed by stepwell_records_due", _IS_DUE)
_BY_LABEL: Final = _Index("not indexed", f"{_FIRST_LABEL} and {_IS_OPEN}", "d.record")
_BY_LABEL_DUE: Final = _Index("indexed by stepwell_record_labels_due", f"{_FIRST_LABEL} and {_IS_DUE}", "d.record")

_HAS_LABEL: Final = (
    f"exists (select 1 from {_LABELS} as l where l.kind = :kind and l.label = :label_{{label}} "
    "and l.is_open = d.is_open and l.record = {number})"
)
_STATES: Final = "state in (select value from json_each(:states))"
_STATES_OF_LABELLED: Final = f"exists (select 1 from stepwell_records as r where r.number = d.record and r.{_STATES})"


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


def record_searches(
    where: RecordFilter, after: Record | None, list_states: Callable[[bool], Iterable[bytes]]
) -> list[RecordSearch]:
    """The ranges of which the first records are the page. `list_states` lists the states of open or closed records."""
    given: dict[str, Any] = {
        "kind": where.kind,
        "run_id": where.run_id,
        "states": msgspec.json.encode(where.states).decode(),
        "due_before": where.due_before,
        **{f"label_{number}": label for number, label in enumerate(where.labels)},
    }
    if after is not None:
        given |= {"after": after.number, "after_due": after.due_at}
    ranges = _ranges(where, list_states)
    return [_search(where, index, {**given, **own}, is_first=after is None) for index, own in ranges]


def _ranges(where: RecordFilter, list_states: Callable[[bool], Iterable[bytes]]) -> list[tuple[_Index, dict[str, Any]]]:
    """The index that finds the fewest records, and the parameters of its ranges."""
    is_due = where.order == "due" or where.due_before is not None
    if is_due and where.is_open is False:
        return []  # a closed record is never due
    if where.run_id is not None:
        return [(_BY_RUN, {"is_open": where.is_open})]
    if is_due:
        return [(_BY_LABEL_DUE if where.labels else _BY_DUE, {})]
    either = [is_open for is_open in (True, False) if where.is_open in (None, is_open)]
    if where.labels:
        return [(_BY_LABEL, {"is_open": is_open}) for is_open in either]
    return [
        (_BY_STATE, {"is_open": is_open, "state": state})
        for is_open in either
        for state in dict.fromkeys([one.encode() for one in where.states] or list_states(is_open))
    ]


def _search(where: RecordFilter, index: _Index, given: dict[str, Any], *, is_first: bool) -> RecordSearch:
    conditions = ["d.kind = :kind", index.condition, *_more(where, index)]
    if not is_first:
        conditions.append(_behind(where, index.number))
    keys = f"d.due_at, {index.number}" if where.order == "due" else index.number
    order = f"{keys} desc" if where.order == "newest" else keys
    return RecordSearch(keys, index.table, " and ".join(conditions), order, given)


def _more(where: RecordFilter, index: _Index) -> Iterable[str]:
    """The conditions that the range does not meet by itself."""
    for label in range(1 if index.is_of_labels else 0, len(where.labels)):
        yield _HAS_LABEL.replace("{number}", index.number).replace("{label}", str(label))
    if where.states and index is not _BY_STATE:
        yield _STATES_OF_LABELLED if index.is_of_labels else f"d.{_STATES}"
    if where.is_open is not None and index is _BY_RUN:
        yield _IS_OPEN
    if where.due_before is not None:
        yield "d.due_at < :due_before"
    if where.order == "due" and index is _BY_RUN:
        yield _IS_DUE


def _behind(where: RecordFilter, number: str) -> str:
    if where.order == "due":
        return f"(d.due_at, {number}) > (:after_due, :after)"
    return f"{number} {'<' if where.order == 'newest' else '>'} :after"
