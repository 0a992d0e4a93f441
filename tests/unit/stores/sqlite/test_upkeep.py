"""Upkeep of a SQLite file: what it takes, and when it may be rewritten."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from stepwell.clock import SECOND, Span
from stepwell.conformance.scene import new_run
from stepwell.environment import Environment
from stepwell.errors import SchemaMissingError, StoreInUseError, StoreNotWritableError
from stepwell.ids import Incarnation
from stepwell.model.workers import NewWorker
from stepwell.stores.base.views import RunFilter
from stepwell.stores.sqlite.upkeep import SqliteUpkeep
from stepwell.virtual.clock import ManualClock
from tests.unit.stores.sqlite.conftest import OpenStore


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def size(file: Path) -> int:
    return file.stat().st_size


def content(file: Path) -> bytes:
    return file.read_bytes()


async def test_the_space_of_tables_and_workflows_is_measured(
    open_store: OpenStore, file: Path, environment: Environment
) -> None:
    store = await open_store()
    await store.runs.create([new_run(f"r{n}") for n in range(300)])
    await store.close()

    space = SqliteUpkeep(environment, file).measure()

    assert space.total == size(file)
    tables = {one.name: one for one in space.tables}
    assert (tables["runs"].rows, tables["payloads"].rows, tables["entries"].rows) == (300, 300, 0)
    assert sum(one.bytes + one.index_bytes for one in space.tables) <= space.total
    assert [(one.workflow, one.runs) for one in space.workflows] == [("flow", 300)]
    assert [(one.workflow, one.runs) for one in space.weighed] == [("flow", 300)]
    assert space.weighed[0].bytes > 300 * 400


async def test_rows_are_counted_as_they_are(open_store: OpenStore, file: Path, environment: Environment) -> None:
    store = await open_store()
    await store.runs.create([new_run(f"r{n}") for n in range(5_000)])
    await store.close()
    connection = apsw.Connection(str(file))
    counted = {}
    for table in ("runs", "payloads", "entries", "clock", "meta", "definitions"):
        [(counted[table],)] = connection.execute(f"select count(*) from stepwell_{table}").fetchall()
    names = "insert into stepwell_names select r.id, n.value, 'n' from stepwell_runs as r, json_each('[1,2,3]') as n"
    connection.execute(names)
    connection.close()

    tables = {one.name: one.rows for one in SqliteUpkeep(environment, file).measure().tables}

    assert {name: tables[name] for name in counted} == counted
    assert tables["names"] == 15_000  # a tree whose inner pages have rows too


async def test_a_vacuum_makes_the_file_small_and_loses_nothing(
    open_store: OpenStore, file: Path, environment: Environment
) -> None:
    store = await open_store()
    await store.runs.create([new_run(f"r{n}") for n in range(2_000)])
    await store.close()
    connection = apsw.Connection(str(file))
    connection.execute("delete from stepwell_runs where id > 10; delete from stepwell_payloads where run > 10")
    connection.close()
    upkeep = SqliteUpkeep(environment, file)
    free = upkeep.measure().reusable
    assert free is not None
    assert free > 100_000

    done = upkeep.vacuum()

    assert done.after < done.before - free // 2
    assert upkeep.measure().reusable == 0
    again = await open_store()
    assert [run.run_id for run in await again.views.list_runs(_all(), limit=50)][-1] == "r0"
    assert len(await again.views.list_runs(_all(), limit=50)) == 10


async def test_a_file_with_live_workers_is_not_rewritten(
    open_store: OpenStore, file: Path, environment: Environment, clock: ManualClock
) -> None:
    store = await open_store()
    await store.workers.register(NewWorker(Incarnation("w1"), "ann", Span(60 * SECOND), ("flow@1",)))
    before = content(file)

    with pytest.raises(StoreInUseError, match="ann") as refused:
        SqliteUpkeep(environment, file).vacuum()

    assert "stop the workers" in refused.value.fix
    assert content(file) == before
    clock.advance(61)
    assert SqliteUpkeep(environment, file).vacuum().after > 0


async def test_a_full_disk_is_noticed_before_anything_is_written(
    open_store: OpenStore, file: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await open_store()).close()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(10, 10, 0))

    with pytest.raises(StoreNotWritableError, match="cannot be rewritten"):
        SqliteUpkeep(environment, file).vacuum()


def test_a_file_without_tables_is_named(file: Path, environment: Environment) -> None:
    file.touch()
    with pytest.raises(SchemaMissingError):
        SqliteUpkeep(environment, file).measure()


def _all() -> RunFilter:
    return RunFilter()
