"""The schema agrees with the model, and hot statements use its indexes."""

from __future__ import annotations

import re
from typing import Any

import apsw
import pytest

from stepwell.ids import RunId
from stepwell.model.records import RecordFilter
from stepwell.model.states import TERMINAL, EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.stores.base.filters import AttributeTest, Condition, Field, Order, SortKey
from stepwell.stores.base.views import RunFilter
from stepwell.stores.sql.filters import UNENDED, Search, run_conditions, run_order, run_searches
from stepwell.stores.sql.indexed_filters import Query, found_first, list_selects, walked
from stepwell.stores.sql.records import record_searches
from stepwell.stores.sqlite.connections import open_writer
from stepwell.stores.sqlite.texts import FOLDER, SQL


@pytest.fixture
def migrated() -> apsw.Connection:
    return open_writer(":memory:", "FULL")


def _objects(connection: apsw.Connection) -> dict[str, str]:
    rows: list[Any] = connection.execute("select name, sql from sqlite_schema where sql is not null").fetchall()
    return {name: " ".join(re.sub(r"--.*", "", sql).split()) for name, sql in rows}


def test_all_migrations_together_make_the_schema_file(migrated: apsw.Connection) -> None:
    written = apsw.Connection(":memory:")
    written.execute((FOLDER / "schema.sql").read_text(encoding="utf-8"))

    assert _objects(migrated) == _objects(written)
    numbers = [("armed", 0), ("encrypted", 0), ("receipts", 0)]
    assert migrated.execute("select * from stepwell_meta").fetchall() == numbers


def test_every_object_has_our_prefix(migrated: apsw.Connection) -> None:
    # SQLite's own table of the numbers that are never reused.
    assert [name for name in _objects(migrated) if not name.startswith("stepwell_")] == ["sqlite_sequence"]


def test_the_statuses_are_those_of_the_model(migrated: apsw.Connection) -> None:
    rules = re.findall(
        r"when '(\w+)' then ended_at is (not )?null( and owner is null)?", _objects(migrated)["stepwell_runs"]
    )

    assert {status for status, _, _ in rules} == {status.value for status in RunStatus}
    assert {status for status, is_ended, _ in rules if is_ended} == {status.value for status in TERMINAL}
    assert {status for status, _, is_free in rules if not is_free} == {"running", "cancelling", "compensating"}


@pytest.mark.parametrize("table", ["runs", "payloads", "entries", "names", "waits", "signals", "attempts", "cursors"])
def test_no_check_of_a_row_that_commits_write_has_a_list(migrated: apsw.Connection, table: str) -> None:
    # SQLite would build a table in memory for every row that it checks.
    assert " in (" not in _objects(migrated)[f"stepwell_{table}"]


def test_the_letters_of_entries_are_those_of_the_model(migrated: apsw.Connection) -> None:
    [kinds, statuses] = re.findall(r"glob '\[(\w+)\]'", _objects(migrated)["stepwell_entries"])

    assert set(kinds) == {kind.value for kind in EntryKind}
    assert set(statuses) == {status.value for status in EntryStatus}


def test_the_kinds_of_waits_are_those_of_the_model(migrated: apsw.Connection) -> None:
    kinds = re.findall(r"kind = '(\w+)'", _objects(migrated)["stepwell_waits"])

    assert set(kinds) == {kind.value for kind in WaitKind}


def test_every_statement_can_be_prepared(migrated: apsw.Connection) -> None:
    for name, text in SQL.items():
        if name in ("records.list", "records.count"):
            _plan(migrated, record_searches(RecordFilter("task", ("a",)), None, lambda _: [])[0].fill(text))
        elif not name.startswith("transactions."):
            _plan(migrated, _filled(text, "true"))


def _filled(text: str, conditions: str, order: str = run_order(Order())) -> str:
    filled = text.replace("{conditions}", conditions).replace("{order}", order).replace("{select}", "select 1")
    filled = filled.replace("{tables}", "stepwell_runs as r").replace("{more}", "true")
    return filled.replace("{definition}", "definition").replace("{joins}", "").replace("{unended}", UNENDED)


def _plan(connection: apsw.Connection, text: str) -> list[str]:
    names = dict.fromkeys(re.findall(r":(\w+)", text), 1)
    rows: list[Any] = connection.execute(f"explain query plan {text}", names).fetchall()
    return [row[3] for row in rows]


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("runs.list_due", "stepwell_runs_wake (definition=? AND wake_at>? AND wake_at<?)"),
        ("views.next_wake", "stepwell_runs_wake (definition=? AND wake_at>?)"),
        ("runs.list_owned", "stepwell_runs_status (status=? AND owner=?)"),
        ("runs.list_cancelling", "stepwell_runs_status (status=? AND owner=?)"),
        ("runs.list_held", "stepwell_runs_status (status=? AND owner=?)"),
        ("workers.list_dead_owners", "stepwell_runs_status (status=? AND owner>?)"),
        ("diagnosis.count_owned", "stepwell_runs_status (status=? AND owner=?)"),
        ("runs.find_active_of_key", "stepwell_runs_active_key (key=?)"),
        ("runs.find_active_for_signal", "stepwell_runs_active_key (key=?)"),
        ("runs.find_ended_of_key", "stepwell_runs_key (key=?)"),
        ("runs.list_attached", "stepwell_runs_parent (parent=?)"),
        ("runs.list_ended_children", "stepwell_runs_parent (parent=? AND parent_location=?)"),
        ("runs.find_for_commit", "sqlite_autoindex_stepwell_runs_1 (run_id=?)"),
        ("entries.list", "PRIMARY KEY (run=?)"),
        ("entries.trim", "PRIMARY KEY (run=? AND location>? AND location<?)"),
        ("signals.list_pending", "stepwell_signals_mailbox (run=?)"),
        ("signals.find_duplicate", "stepwell_signals_dedup (run=? AND name=? AND dedup_key=?)"),
        ("signals.find_held", "stepwell_signals_held (key=?)"),
        ("outbox.list_due", "stepwell_outbox_due (sink=? AND next_at>? AND next_at<?)"),
        ("outbox.next_due", "stepwell_outbox_due (sink=? AND next_at>?)"),
        ("outbox.list_queue", "stepwell_outbox_queue (run=? AND sink=?)"),
        ("outbox.find_first", "stepwell_outbox_queue (run=? AND sink=?)"),
        ("outbox.owe", "stepwell_outbox_queue (run=? AND sink=?)"),
        ("outbox.list_taken", "stepwell_outbox_owner (owner=?)"),
        ("outbox.list_dead", "stepwell_outbox_dead (event_id=?)"),
        ("views.find_by_key", "stepwell_runs_key (key=?)"),
        ("workers.find_live", "USING COVERING INDEX stepwell_definitions_lanes"),
        ("definitions.find_more_urgent", "stepwell_runs_wake (definition=? AND wake_at>? AND wake_at<?)"),
        ("runs.find_debounced", "stepwell_runs_debounced (key=?)"),
        ("runs.wake_debounced", "stepwell_runs_debounced (key=?)"),
        ("runs.find_family", "stepwell_runs_parent (parent=?)"),
        ("runs.find_family", "stepwell_runs_debounced (key=?)"),
        ("runs.list_tied", "stepwell_runs_parent (parent=?)"),
        ("blobs.read", "sqlite_autoindex_stepwell_blobs_1 (hash=?)"),
    ],
)
def test_a_hot_statement_uses_its_index(migrated: apsw.Connection, statement: str, index: str) -> None:
    plan = _plan(migrated, SQL[statement])

    assert [line for line in plan if index in line], plan
    assert [line for line in plan if line.startswith("SCAN stepwell_") and "COVERING INDEX" not in line] == []


@pytest.mark.parametrize(
    "statement", ["runs.list_due", "views.next_wake", "signals.list_pending", "views.list_runs", "outbox.list_queue"]
)
def test_an_index_gives_the_order_without_sorting(migrated: apsw.Connection, statement: str) -> None:
    plan = _plan(migrated, _filled(SQL[statement], "run_id < :before"))

    assert [line for line in plan if "TEMP B-TREE" in line] == []


def test_a_listing_by_status_reads_only_those_runs(migrated: apsw.Connection) -> None:
    [(condition, _)] = run_conditions(RunFilter((RunStatus.PAUSED,)), RunId("r"))

    plan = _plan(migrated, _filled(SQL["views.list_runs"], condition))

    assert "SEARCH r USING COVERING INDEX stepwell_runs_status (status=? AND owner=? AND run_id<?)" in plan
    assert [line for line in plan if "TEMP B-TREE" in line] == []


def test_conditions_without_an_index_search_the_newest_runs_and_then_the_whole_table(
    migrated: apsw.Connection,
) -> None:
    where = RunFilter(conditions=(Condition(Field.KEY, (("", "k"),)),))
    [(condition, _)] = run_conditions(where, None)
    (first, in_order, _), (second, as_it_lies, _) = run_searches(where, None)

    few = _plan(migrated, _filled(SQL["views.list_runs"], f"{condition} and {first}", in_order))
    whole = _plan(migrated, _filled(SQL["views.list_runs"], f"{condition} and {second}", as_it_lies))

    assert "SEARCH r USING INDEX sqlite_autoindex_stepwell_runs_1 (run_id>?)" in few
    assert "SCAN r" in whole


def _of(test: AttributeTest, *rest: str, name: str = "n") -> Condition:
    return Condition(Field.ATTRIBUTE, ((test.value, *rest),), path=name)


def _asked(query: Query | None) -> str:
    assert query is not None
    text = SQL["views.list_runs"].replace("{tables}", query.tables)
    return _filled(text, query.conditions, query.order)


@pytest.mark.parametrize("before", [None, RunId("r")])
@pytest.mark.parametrize(
    ("where", "place"),
    [
        (RunFilter(conditions=(_of(AttributeTest.IS, "n1"),)), "name=? AND value=?"),
        (RunFilter(conditions=(_of(AttributeTest.IS, "n1"),), order=Order(descending=False)), "name=? AND value=?"),
        (RunFilter(order=Order(attribute="n")), "name=?"),
        (RunFilter((RunStatus.COMPLETED,), order=Order(descending=False, attribute="n")), "name=?"),
    ],
)
def test_a_page_by_an_attribute_is_a_part_of_its_index(
    migrated: apsw.Connection, where: RunFilter, place: str, before: RunId | None
) -> None:
    plan = _plan(migrated, _asked(walked(where, before)))

    assert [line for line in plan if f"INDEX stepwell_attributes_value ({place}" in line], plan
    assert [line for line in plan if "TEMP B-TREE" in line or line.startswith("SCAN r")] == []


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        (_of(AttributeTest.IS, "n1"), "stepwell_attributes_value (name=? AND value=?)"),
        (_of(AttributeTest.ABOVE, "n1"), "stepwell_attributes_value (name=? AND value>? AND value<?)"),
        (_of(AttributeTest.UP_TO, "n1"), "stepwell_attributes_value (name=? AND value>? AND value<?)"),
        (_of(AttributeTest.ANY), "stepwell_attributes_value (name=?)"),
        (_of(AttributeTest.LIKE, "a", ""), "stepwell_attributes_value (name=?)"),
        (Condition(Field.STARTED_BY, (("ann",),)), "stepwell_payloads_started_by (started_by=?)"),
    ],
)
@pytest.mark.parametrize("order", [Order(), Order(SortKey.TOOK), Order(attribute="m")])
def test_few_runs_are_found_by_an_index_of_their_own(
    migrated: apsw.Connection, condition: Condition, place: str, order: Order
) -> None:
    where = RunFilter((RunStatus.COMPLETED,), conditions=(condition,), order=order)
    [select] = list_selects(where)

    plan = _plan(migrated, _asked(found_first(where, None, select)))

    assert [line for line in plan if f"COVERING INDEX {place}" in line], plan
    assert "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)" in plan
    assert [line for line in plan if line.startswith("SCAN")] == []


@pytest.mark.parametrize("before", [None, RunId("r")])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("by", [SortKey.CREATED, SortKey.STARTED, SortKey.ENDED, SortKey.TOOK])
def test_an_order_by_time_uses_an_index_and_sorts_unfinished_runs(
    migrated: apsw.Connection, by: SortKey, descending: bool, before: RunId | None
) -> None:
    where = RunFilter(order=Order(by, descending))
    (ended, _), (unended, _) = run_conditions(where, before)
    [(_, order, _)] = run_searches(where, before)

    first = _plan(migrated, _filled(SQL["views.list_runs"], ended, order))
    second = _plan(migrated, _filled(SQL["views.list_runs"], unended, order))

    way = "SCAN" if before is None else "SEARCH"
    assert [line for line in first if line.startswith(f"{way} r USING INDEX stepwell_runs_{by}")], first
    assert [line for line in first if "TEMP B-TREE" in line] == []
    assert "SEARCH r USING INDEX stepwell_runs_status (status=?)" in second


@pytest.mark.parametrize(
    "where",
    [
        RunFilter(workflow="w"),
        RunFilter(conditions=(Condition(Field.WORKFLOW, (("w", ""),)),)),
        RunFilter(conditions=(Condition(Field.VERSION, (("<", "7"),)),)),
    ],
)
def test_a_workflow_with_few_runs_is_found_in_the_index_of_definitions(
    migrated: apsw.Connection, where: RunFilter
) -> None:
    [(condition, _)] = run_conditions(where, None)
    _, (more, order, _) = run_searches(where, None)

    plan = _plan(migrated, _filled(SQL["views.list_runs"], f"{condition} and {more}", order))

    assert "SEARCH r USING COVERING INDEX stepwell_runs_definition (definition=?)" in plan


@pytest.mark.parametrize("field", [Field.CREATED, Field.TOOK])
def test_a_condition_on_a_time_is_a_range_of_an_index(migrated: apsw.Connection, field: Field) -> None:
    where = RunFilter(conditions=(Condition(field, ((">", "7"),)),))
    ended, *_ = run_conditions(where, None)
    _, (more, order, _) = run_searches(where, None)

    plan = _plan(migrated, _filled(SQL["views.list_runs"], f"{ended[0]} and {more}", order))

    assert [line for line in plan if f"SEARCH r USING INDEX stepwell_runs_{field} (" in line], plan


@pytest.mark.parametrize(
    "where",
    [
        RunFilter(),
        RunFilter((RunStatus.FAILED,), workflow="w"),
        RunFilter(key="k", workflow="w"),
        RunFilter(parent=RunId("r")),
    ],
)
def test_conditions_with_an_index_are_searched_once(where: RunFilter) -> None:
    assert run_searches(where, None) == [Search("true", "run_id desc")]


@pytest.mark.parametrize("before", [None, RunId("r")])
def test_runs_of_a_workflow_are_searched_by_time_and_then_by_definition(
    migrated: apsw.Connection, before: RunId | None
) -> None:
    where = RunFilter(workflow="w", order=Order(SortKey.TOOK))
    (ended, _), _ = run_conditions(where, before)
    few, whole = run_searches(where, before)

    first, second = (
        _plan(
            migrated,
            _filled(
                SQL["views.list_runs"], f"{ended.replace('{definition}', one.definition)} and {one.more}", one.order
            ),
        )
        for one in (few, whole)
    )

    assert [line for line in first if line.startswith("SEARCH r USING INDEX stepwell_runs_took (<expr>")], first
    assert [line for line in first if "TEMP B-TREE" in line] == []
    assert "SEARCH r USING INDEX stepwell_runs_definition (definition=?)" in second


def test_a_step_changes_no_column_of_an_index(migrated: apsw.Connection) -> None:
    set_by_a_step = set(re.findall(r"(\w+) = ", SQL["runs.advance"].partition(" where ")[0]))
    indexed = " ".join(sql for name, sql in _objects(migrated).items() if "on stepwell_runs" in sql)

    assert set_by_a_step == {"number", "revision", "last_seq", "stalls"}
    assert not set(re.findall(r"\w+", indexed)) & set_by_a_step
