"""Records on SQLite: the indexes that find them, and rows that cannot be read."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any, get_args

import apsw
import pytest

from stepwell.clock import Instant
from stepwell.conformance.records import change, new_record, opening, stored
from stepwell.conformance.scene import Scene
from stepwell.environment import Environment
from stepwell.errors import CorruptRecordError
from stepwell.ids import RunId
from stepwell.model.records import ChangeOutcome, Record, RecordFilter, RecordOrder
from stepwell.model.states import RunStatus
from stepwell.stores.base.backups import EPOCHS_SKIPPED, NUMBERS_SKIPPED
from stepwell.stores.sql.records import record_searches
from stepwell.stores.sqlite.backups import fence
from stepwell.stores.sqlite.connections import open_writer
from stepwell.stores.sqlite.texts import SQL
from stepwell.virtual.clock import ManualClock
from tests.unit.stores.sqlite.conftest import OpenStore

_AFTER = Record(5, "task", "t", 1, "open", (), Instant(5), True, None, None, None, b"", Instant(1), Instant(1))


def _plan(connection: apsw.Connection, text: str) -> list[str]:
    names = dict.fromkeys(re.findall(r":(\w+)", text), 1)
    rows: list[Any] = connection.execute(f"explain query plan {text}", names).fetchall()
    return [row[3] for row in rows]


@pytest.mark.parametrize("order", get_args(RecordOrder))
def test_a_page_is_read_from_an_index_alone_in_its_order(order: RecordOrder) -> None:
    connection = open_writer(":memory:", "FULL")
    orders = (None, True) if order == "due" else (None, True, False)
    for labels, is_open, after in product(((), ("a",)), orders, (None, _AFTER)):
        where = RecordFilter("task", (), labels, is_open, order=order)
        for search in record_searches(where, after, lambda _: [b"open"]):
            plan = _plan(connection, search.fill(SQL["records.list"]))
            assert len(plan) == 1, plan
            assert plan[0].startswith(("SEARCH d USING COVERING INDEX", "SEARCH d USING PRIMARY KEY")), plan


def test_a_page_of_a_run_reads_no_other_run() -> None:
    where = RecordFilter("task", ("open",), ("a",), run_id=RunId("r1"), order="due")
    [search] = record_searches(where, None, lambda _: [b"open"])

    plan = _plan(open_writer(":memory:", "FULL"), search.fill(SQL["records.list"]))

    assert "SEARCH d USING INDEX stepwell_records_run (run=?)" in plan


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("records.list_due", "COVERING INDEX stepwell_records_due (kind=? AND due_at>? AND due_at<?)"),
        ("records.next_due", "COVERING INDEX stepwell_records_due (kind=? AND due_at>?)"),
        ("records.list_old", "INDEX stepwell_records_closed (kind=? AND updated_at<?)"),
        ("records.list_closing", "INDEX stepwell_records_closing (run=?)"),
        ("records.list_closing_lost", "INDEX stepwell_records_closing (run=?)"),
        ("records.list_closing_between", "INDEX stepwell_records_closing (run=? AND location>? AND location<?)"),
        ("records.list_states", "COVERING INDEX stepwell_records_state (kind=? AND is_open=? AND state>?)"),
        ("records.find_made", "PRIMARY KEY (record=?)"),
        ("records.mark_labels", "PRIMARY KEY (kind=? AND label=? AND is_open=? AND record=?)"),
        ("records.mark_label", "PRIMARY KEY (kind=? AND label=? AND is_open=? AND record=?)"),
        ("runs.find_family", "INDEX stepwell_records_closing (run=?)"),
        ("runs.finish_known", "INDEX stepwell_records_closing (run=?)"),
    ],
)
def test_a_statement_uses_its_index(statement: str, index: str) -> None:
    plan = _plan(open_writer(":memory:", "FULL"), SQL[statement])

    assert [line for line in plan if index in line], plan
    assert [line for line in plan if line.startswith("SCAN stepwell_")] == []


_DAMAGES = {
    **{
        column: f"update stepwell_records set {column} = cast(x'41ff' as text) where record_id = 't2'"
        for column in ("state", "record_id", "end_state")
    },
    "labels": "update stepwell_records set labels = '[not json' where record_id = 't2'",
    "label": "update stepwell_records set labels = cast(x'5b22ff225d' as text) where record_id = 't2'",
}


@pytest.mark.parametrize("name", list(_DAMAGES))
async def test_a_row_that_cannot_be_read_stops_no_listing_and_no_run(
    open_store: OpenStore, file: Path, clock: ManualClock, name: str
) -> None:
    scene = Scene(await open_store(), clock)
    await scene.register()
    turn = await scene.begin("r1")
    for record_id in ("t1", "t2", "t3"):
        await turn.commit(opened=(opening(record_id, labels=("a",), due_at=Instant(5)),))
    connection = apsw.Connection(str(file))
    connection.execute(_DAMAGES[name])
    connection.close()

    records = scene.store.records
    listed = await records.list_records(RecordFilter("task", order="oldest"), limit=9)
    due = await records.due(["task"], limit=9)

    for first, broken, last in (listed, due):
        assert [first, last] == [await stored(scene, "t1"), await stored(scene, "t3")]
        assert "DecodeError" in broken.damage
        assert (broken.number, broken.kind, broken.version, broken.due_at, broken.is_open) == (2, "task", 1, 5, True)
        assert (first.damage, broken.record_id) == ("", "A\\xff" if name == "record_id" else "t2")
    if name != "record_id":
        with pytest.raises(CorruptRecordError, match="task 't2' cannot be read"):
            await records.find("task", "t2")
    await turn.end()
    assert await scene.status("r1") is RunStatus.COMPLETED
    assert await records.count(RecordFilter("task", is_open=True), limit=9) == 0
    await scene.lose_worker()
    await scene.store.transfers.seal("m1", "there")
    if name == "state":
        return  # the end of the run wrote a new one
    with pytest.raises(CorruptRecordError):
        await scene.store.transfers.pack("records:", limit=9)


async def test_a_change_mends_a_row_that_cannot_be_read(open_store: OpenStore, file: Path, clock: ManualClock) -> None:
    scene = Scene(await open_store(), clock)
    await change(scene, "c1", new_record("t1"))
    await change(scene, "c2", new_record("t2", labels=("a",)))
    connection = apsw.Connection(str(file))
    connection.execute(_DAMAGES["labels"])
    connection.close()

    await change(scene, "c3", new_record("t2", labels=("a", "b")), 1)

    [listed] = await scene.store.records.list_records(RecordFilter("task", labels=("a",)), limit=9)
    assert listed == await stored(scene, "t2")
    assert listed.labels == ("a", "b")


async def test_a_restored_database_uses_no_number_and_no_version_of_a_record_again(
    open_store: OpenStore, file: Path, clock: ManualClock, environment: Environment
) -> None:
    scene = Scene(await open_store(), clock)
    await change(scene, "c1", new_record("t1"))

    fence(file, environment)

    assert (await change(scene, "c2", new_record("t1"), 1)).outcome is ChangeOutcome.STALE
    assert (await stored(scene, "t1")).version == 1 + EPOCHS_SKIPPED
    await change(scene, "c3", new_record("t2"))
    assert (await stored(scene, "t2")).number > NUMBERS_SKIPPED
