"""Conditions and orders of listings as SQL, from an allow-list; values are parameters. Only `sql/` assembles SQL."""

from __future__ import annotations

from typing import Any, NamedTuple, assert_never

from stepwell.ids import RunId
from stepwell.model.attributes import AttributeKind
from stepwell.model.states import ACTIVE, OWNABLE, TERMINAL, RunStatus
from stepwell.stores.base.filters import (
    NUMBERS,
    AttributeTest,
    Condition,
    Field,
    Order,
    Pattern,
    Relation,
    SortKey,
    kind_bounds,
)
from stepwell.stores.base.views import RunFilter

_CONDITIONS = {
    "status": "status = :status",
    "workflow": "{definition} in (select id from stepwell_definitions where workflow = :workflow)",
    "key": "key = :key",
    "parent": "parent = :parent",
    "before": "run_id < :before",
}
# These are redundant, but they let a database use an index over the runs that are not completed or have not ended.
_NOT_COMPLETED = "status <> 'completed'"
_ENDED = "ended_at is not null"
_UNOWNED = "owner is null"
_ACTIVE = ", ".join(f"'{status}'" for status in sorted(ACTIVE))
UNENDED = f"ended_at is null and {_NOT_COMPLETED} and status in ({_ACTIVE})"

_TOOK = "ended_at - coalesce(started_at, created_at)"
_NUMBERS = {
    Field.VERSION: "{definition} in (select id from stepwell_definitions where version {test})",
    Field.CREATED: "created_at {test}",
    Field.TOOK: f"({_ENDED} and coalesce({_TOOK}, -1) {{test}})",
}
_PLACES = {
    SortKey.CREATED: "created_at",
    SortKey.STARTED: "coalesce(started_at, -1)",
    SortKey.ENDED: "coalesce(ended_at, -1)",
    SortKey.TOOK: f"coalesce({_TOOK}, -1)",
}
# The column is a blob, and it may hold bytes that are not JSON.
_FAILURE = "case when json_valid(cast(failure as text)) then cast(failure as text) end"
_ERROR = (
    f"lower(coalesce({_FAILURE} ->> '$.code', '') || ' ' || ({_FAILURE} ->> '$.type') || ': ' "
    f"|| ({_FAILURE} ->> '$.message'))"
)
_INPUT = (
    "case when substr(input, 1, 1) = x'6a' and json_valid(cast(substr(input, 2) as text)) "
    "then cast(substr(input, 2) as text) -> {path} end"
)
_TEXTS = {
    Field.ID: "run_id {test}",
    Field.KEY: "key {test}",
    Field.WORKFLOW: "{definition} in (select id from stepwell_definitions where workflow {test})",
    Field.AT: (
        f"case when {_FAILURE} ->> '$.type' is not null then coalesce({_FAILURE} ->> '$.path', '') end {{test}}"
    ),
    Field.TAG: (
        "(tags <> '' and exists (select 1 from json_each(tags) as tag "
        "where (tag.value ->> 0) || '=' || (tag.value ->> 1) {test}))"
    ),
    Field.WAITING: (
        "exists (select 1 from stepwell_waits as wait where wait.run = r.id and "
        "(wait.kind || ':' {test} or exists (select 1 from json_each(wait.names) as name "
        "where wait.kind || ':' || name.value {test})))"
    ),
    Field.ERROR: f"{_ERROR} {{test}}",
    Field.WORD: (
        "(lower(run_id) {test} or lower(coalesce(key, '')) {test} "
        "or definition in (select id from stepwell_definitions where lower(workflow) {test}) "
        f"or lower(title) {{test}} or {_ERROR} {{test}})"
    ),
    Field.INPUT: f"{_INPUT} {{test}}",
    Field.TITLE: "lower(title) {test}",
    Field.STARTED_BY: "started_by {test}",
}
# Attributes are in a table of their own, with an index by name and value.
_HAS_ATTRIBUTE = "exists (select 1 from stepwell_attributes as a where a.run = r.id and a.name = {name} and {test})"


# Fields in the payloads table, which is joined only if one of them is used.
_IN_PAYLOADS = frozenset({Field.AT, Field.TAG, Field.ERROR, Field.WORD, Field.INPUT, Field.TITLE, Field.STARTED_BY})

# How many of the newest runs are searched in order, before the whole table is searched in its own order.
_FEW = 5_000
_AMONG_FEW = (
    f"run_id >= coalesce((select run_id from stepwell_runs {{behind}}order by run_id desc limit 1 offset {_FEW}), '')"
)


def payload_table(where: RunFilter) -> str:
    """The join that the conditions of a filter need."""
    needed = any(condition.field in _IN_PAYLOADS for condition in where.conditions)
    return " cross join stepwell_payloads as p on p.run = r.id" if needed else ""


def _has_ranges(where: RunFilter) -> bool:
    """Whether times matter: the indexes by time contain only ended runs."""
    return where.order.by is not SortKey.ID or any(each.field is Field.CREATED for each in where.conditions)


class Search(NamedTuple):
    """One way to search for a page: an additional condition, the order, and how the definition column is spelled."""

    more: str
    order: str
    definition: str = "definition"  # a plus sign in front prevents the use of its index


def run_searches(where: RunFilter, before: RunId | None, first: str = "true") -> list[Search]:
    """Ways to search for a page; they are tried in turn until the page is full. `first` is a redundant condition that
    finds the runs by another index.

    If many runs match a condition without an index, walking the ids from the newest finds a page quickly. If few match,
    scanning the whole table in its own order is several times as fast. The same holds for the runs of a workflow in an
    order by time: if there are many, they are found in that order; if there are few, by their definition.
    """
    order = run_order(where.order)
    has_index = where.key is not None or where.parent is not None
    has_index = has_index or any(status is not RunStatus.COMPLETED for status in where.statuses)
    if where.order.by is not SortKey.ID and not has_index and _names_definitions(where):
        return [Search(_first_ended(where.order, before), order, "+definition"), Search("true", order)]
    if where.order != Order() or has_index or not (where.workflow or where.conditions):
        return [Search("true", order)]
    behind = "" if before is None else "where run_id < :before "
    return [Search(_AMONG_FEW.replace("{behind}", behind), order), Search(first, f"+{order}")]


def _names_definitions(where: RunFilter) -> bool:
    named = any(each.field in (Field.WORKFLOW, Field.VERSION) and not each.negated for each in where.conditions)
    return where.workflow is not None or named


def _first_ended(order: Order, before: RunId | None) -> str:
    """Restrict a search to the first ended runs, in an order by time."""
    place, sign = _PLACES[order.by], ">=" if order.descending else "<="
    behind = "" if before is None else f" and {_behind(order)}"
    return (
        f"{place} {sign} (select {place} from stepwell_runs where {_ENDED}{behind} "
        f"order by {run_order(order)} limit 1 offset {_FEW})"
    )


def run_conditions(where: RunFilter, before: RunId | None) -> list[tuple[str, dict[str, Any]]]:
    """Conditions with their parameters: one for each status, because each is then an ordered range of an index.

    Where times matter and no status is given, the ended runs are one range and the others a second one.
    """
    common = {"workflow": where.workflow, "key": where.key, "parent": where.parent, "before": before}
    more, parameters = _more(where, before)
    if where.order != Order():
        del common["before"]
    if not _has_ranges(where):
        return [
            _conditions({"status": status, **common}, more, parameters)
            for status in dict.fromkeys(where.statuses or (None,))
        ]
    if where.statuses:
        return [
            _conditions({"status": status, **common}, [*([_ENDED] if status in TERMINAL else []), *more], parameters)
            for status in dict.fromkeys(where.statuses)
        ]
    return [_conditions(common, [each, *more], parameters) for each in (_ENDED, UNENDED)]


def run_order(order: Order) -> str:
    """The `order by` of a listing."""
    way = "desc" if order.descending else "asc"
    return f"run_id {way}" if order.by is SortKey.ID else f"{_PLACES[order.by]} {way}, run_id {way}"


def conditions_of(where: RunFilter, before: RunId | None) -> tuple[str, dict[str, Any]]:
    """All conditions of a filter as one text, with the parameters."""
    more, parameters = _more(where, before)
    common = {"workflow": where.workflow, "key": where.key, "parent": where.parent}
    if where.order == Order():
        common["before"] = before
    named = ", ".join(f"'{status.value}'" for status in dict.fromkeys(where.statuses))
    return _conditions(common, [*([f"status in ({named})"] if named else []), *more], parameters)


def run_condition(where: RunFilter) -> tuple[str, dict[str, Any]]:
    """Whether a run is in the listing of a filter, for a statement that has a range of its own."""
    text, parameters = conditions_of(where, None)
    text = text.replace("{definition}", "definition")
    if not where.order.attribute:
        return text, parameters
    has_attribute = _HAS_ATTRIBUTE.replace("{name}", ":order_name").replace("{test}", "true")
    return f"{text} and {has_attribute}", {**parameters, "order_name": where.order.attribute}


def _conditions(wanted: dict[str, Any], more: list[str], parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    given = {name: value for name, value in wanted.items() if value is not None}
    texts = [_CONDITIONS[name] for name in given]
    status = given.get("status", RunStatus.COMPLETED)
    if status is not RunStatus.COMPLETED:
        texts.append(_NOT_COMPLETED)
        if status not in OWNABLE:
            texts.append(_UNOWNED)  # so the next columns of the index are in order
    return " and ".join([*texts, *more]) or "true", {**given, **parameters}


def _more(where: RunFilter, before: RunId | None) -> tuple[list[str], dict[str, Any]]:
    texts: list[str] = []
    parameters: dict[str, Any] = {}
    for number, condition in enumerate(where.conditions):
        text, values = _condition(condition, f"c{number}")
        texts.append(text)
        parameters |= values
    if before is not None and where.order != Order():
        texts.append(_behind(where.order))
        parameters["before"] = before
    return texts, parameters


def _behind(order: Order) -> str:
    sign = "<" if order.descending else ">"
    if order.attribute:
        last = (
            "(select a.value from stepwell_runs as b cross join stepwell_attributes as a on a.run = b.id "
            "where b.run_id = :before and a.name = :order_name)"
        )
        return f"o_value {sign}= {last} and (o_value, o_run_id) {sign} ({last}, :before)"
    if order.by is SortKey.ID:
        return f"run_id {sign} :before"
    place, last = _PLACES[order.by], f"(select {_PLACES[order.by]} from stepwell_runs where run_id = :before)"
    # The first part is redundant, but it is a range of an expression index; the row comparison is not.
    return f"{place} {sign}= {last} and ({place}, run_id) {sign} ({last}, :before)"


def _condition(condition: Condition, name: str) -> tuple[str, dict[str, Any]]:
    """A condition as text, with its values as parameters whose names begin with `name`."""
    tests: list[str] = []
    parameters: dict[str, Any] = {}
    for test, values in tests_of(condition, name):
        if condition.field is Field.ATTRIBUTE:
            text = _HAS_ATTRIBUTE
        else:
            text = _NUMBERS[condition.field] if condition.field in NUMBERS else _TEXTS[condition.field]
        path = f":{name}_path"
        tests.append(text.replace("{test}", test).replace("{path}", path).replace("{name}", path))
        parameters |= values
    if condition.path and condition.values:
        is_name = condition.field is Field.ATTRIBUTE
        within = "$" + "".join(f'."{part}"' for part in condition.path.split("."))
        parameters[f"{name}_path"] = condition.path if is_name else within
    text = f"coalesce({' or '.join(tests) or 'false'}, false)"
    # Without `coalesce` an index can be used; null never meets a condition.
    return (f"not {text}" if condition.negated else f"({' or '.join(tests) or 'false'})"), parameters


def tests_of(condition: Condition, name: str) -> list[tuple[str, dict[str, Any]]]:
    """The tests of a field, for each value of a condition, with their parameters."""
    found: list[tuple[str, dict[str, Any]]] = []
    for number, value in enumerate(condition.values):
        parameter = f"{name}_{number}"
        if condition.field is Field.ATTRIBUTE:
            found.append(_attribute_test(value, parameter))
        elif condition.field in NUMBERS:
            found.append((f"{Relation(value[0]).value} :{parameter}", {parameter: int(value[1])}))
        elif len(value) == 1:
            found.append((f"= :{parameter}", {parameter: value[0]}))
        else:
            found.append((f"glob :{parameter}", {parameter: _glob(value)}))
    return found


def _attribute_test(value: Pattern, parameter: str) -> tuple[str, dict[str, Any]]:
    test, *rest = value
    match AttributeTest(test):
        case AttributeTest.ANY:
            return "true", {}
        case AttributeTest.LIKE:
            kind = AttributeKind.TEXT.value
            return f"a.value glob :{parameter}", {parameter: kind + _glob(tuple(rest))}
        case AttributeTest.IS:
            return f"a.value = :{parameter}", {parameter: rest[0]}
        case AttributeTest.BELOW | AttributeTest.UP_TO | AttributeTest.FROM | AttributeTest.ABOVE as relation:
            low, high = kind_bounds(rest[0])
            is_upward = relation in (AttributeTest.FROM, AttributeTest.ABOVE)
            bound = f"a.value < :{parameter}_end" if is_upward else f"a.value >= :{parameter}_end"
            return f"a.value {relation.value} :{parameter} and {bound}", {
                parameter: rest[0],
                f"{parameter}_end": high if is_upward else low,
            }
        case other:
            assert_never(other)


def _glob(pattern: Pattern) -> str:
    """A pattern for SQLite's GLOB. Brackets escape special characters."""
    return "*".join("".join(f"[{letter}]" if letter in "[?*" else letter for letter in piece) for piece in pattern)
