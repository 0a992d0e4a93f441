"""Filters whose runs an index finds by an attribute, or by who started them; and orders by an attribute.

Nothing tells how many runs have a value, so the store counts them first, up to a bound. If they are few, they are found
before all else. If there are many, a page is full soon in the order that was asked for.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from stepwell.ids import RunId
from stepwell.model.states import RunStatus
from stepwell.stores.base.filters import AttributeTest, Field, SortKey
from stepwell.stores.base.views import RunFilter
from stepwell.stores.sql.filters import conditions_of, payload_table, run_order, tests_of

FEW: Final = 5_000
"""So many runs are found and sorted faster than a walk through all of them takes."""

_SELECTS: Final = {
    Field.ATTRIBUTE: "select a.run from stepwell_attributes as a where a.name = {name} and {test}",
    Field.STARTED_BY: "select run from stepwell_payloads where started_by is not null and started_by {test}",
}
# Columns with names of their own, because conditions name those of the runs without their table.
_ATTRIBUTES: Final = (
    "(select run as o_run, name as o_name, value as o_value, run_id as o_run_id from stepwell_attributes)"
)


class Query(NamedTuple):
    """The parts of a listing; `order` is empty for a count."""

    tables: str
    conditions: str
    order: str
    parameters: dict[str, Any]


def is_indexed(where: RunFilter) -> bool:
    """Whether attributes, or who started a run, decide about the runs of a filter or about their order."""
    return bool(where.order.attribute) or any(
        one.field in _SELECTS and one.values and not one.negated for one in where.conditions
    )


def list_selects(where: RunFilter) -> list[str]:
    """Selects of run numbers by one index each: every run that matches is in all of them."""
    found: list[str] = []
    for number, one in enumerate(where.conditions):
        if one.field in _SELECTS and one.values and not one.negated:
            select = _SELECTS[one.field].replace("{name}", f":c{number}_path")
            found.append(" union all ".join(select.replace("{test}", test) for test, _ in tests_of(one, f"c{number}")))
    if where.statuses and RunStatus.COMPLETED not in where.statuses:
        named = ", ".join(f"'{status.value}'" for status in where.statuses)
        found.append(f"select id from stepwell_runs where status <> 'completed' and status in ({named})")
    if where.key is not None:
        found.append("select id from stepwell_runs where key = :key")
    if where.parent is not None:
        found.append("select id from stepwell_runs where parent = :parent")
    return found


def parameters_of(where: RunFilter) -> dict[str, Any]:
    """The parameters of `list_selects`."""
    return conditions_of(where, None)[1]


def found_first(where: RunFilter, before: RunId | None, select: str) -> Query:
    """Find the few runs of a select, and sort those that match."""
    joined = f" cross join {_ATTRIBUTES} as o on o_run = r.id and o_name = :order_name" if where.order.attribute else ""
    text, parameters = conditions_of(where, before)
    tables = f"stepwell_runs as r{joined}{payload_table(where)}"
    parameters["order_name"] = where.order.attribute
    return Query(tables, f"r.id in ({select}) and {text}", f"+{_order(where)}", parameters)


def walked(where: RunFilter, before: RunId | None) -> Query | None:
    """Walk along the index of attributes, if it has the runs in the order of the filter; None if it has not."""
    text, parameters = conditions_of(where, before)
    tables = f"{_ATTRIBUTES} as o cross join stepwell_runs as r on r.id = o_run{payload_table(where)}"
    way, sign = ("desc", "<") if where.order.descending else ("asc", ">")
    if where.order.attribute:
        parameters["order_name"] = where.order.attribute
        return Query(tables, f"o_name = :order_name and {text}", _order(where), parameters)
    if where.order.by is not SortKey.ID:
        return None
    for number, one in enumerate(where.conditions):
        is_one_value = one.field is Field.ATTRIBUTE and len(one.values) == 1 and one.values[0][0] == AttributeTest.IS
        if is_one_value and not one.negated:
            behind = "" if before is None else f" and o_run_id {sign} :before"
            place = f"o_name = :c{number}_path and o_value = :c{number}_0{behind}"
            return Query(tables, f"{place} and {text}", f"o_run_id {way}", parameters)
    return None


def counted(where: RunFilter) -> Query:
    """Count in any order: along the index of attributes, if one condition is a range of it."""
    text, parameters = conditions_of(where, None)
    if where.order.attribute:
        tests = [("o_name = :order_name", "")]
        parameters["order_name"] = where.order.attribute
    else:
        tests = [
            (f"o_name = :c{number}_path", tests_of(one, f"c{number}")[0][0].replace("a.value", "o_value"))
            for number, one in enumerate(where.conditions)
            if one.field is Field.ATTRIBUTE and len(one.values) == 1 and not one.negated
        ]
    if not tests:
        return Query(f"stepwell_runs as r{payload_table(where)}", text, "", parameters)
    range_ = " and ".join(part for part in tests[0] if part)
    tables = f"{_ATTRIBUTES} as o cross join stepwell_runs as r on r.id = o_run{payload_table(where)}"
    return Query(tables, f"{range_} and {text}", "", parameters)


def _order(where: RunFilter) -> str:
    if not where.order.attribute:
        return run_order(where.order)
    way = "desc" if where.order.descending else "asc"
    return f"o_value {way}, o_run_id {way}"
