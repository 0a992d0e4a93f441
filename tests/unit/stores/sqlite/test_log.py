"""The write-ahead log gets its length early, and nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw

from stepwell.conformance.scene import new_run
from stepwell.stores.sqlite.connections import PAGE_BYTES, open_reader, open_writer
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.log import CHECKPOINT_PAGES, LENGTHEN_AFTER_COMMITS, RESTART_PAGES, lengthen
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.writer import Writer
from tests.unit.stores.sqlite.conftest import OpenStore

LENGTH = CHECKPOINT_PAGES * PAGE_BYTES


def _log_bytes(file: Path) -> int:
    return Path(f"{file}-wal").stat().st_size


async def _start(store: SqliteStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        await store.runs.create([new_run(f"r{number}")])


async def test_after_a_few_commits_the_log_has_its_full_length(open_store: OpenStore, file: Path) -> None:
    store = await open_store(runner=Writer(SqliteDatabase(str(file))))
    await _start(store, 0, LENGTHEN_AFTER_COMMITS - 2)
    short = _log_bytes(file)
    await _start(store, 100, 4)
    length = _log_bytes(file)
    await _start(store, 200, 10)

    assert short < LENGTH <= length == _log_bytes(file)
    found = open_reader(str(file), busy_seconds=1).execute("select count(*) from stepwell_runs").fetchone()
    assert found == (LENGTHEN_AFTER_COMMITS + 12,)


def test_lengthening_the_log_leaves_no_rows(file: Path) -> None:
    connection = open_writer(str(file), "FULL")
    before = connection.pragma("page_count"), connection.pragma("cache_size"), connection.total_changes()
    lengthen(connection, str(file))

    assert _log_bytes(file) >= LENGTH
    assert (connection.pragma("page_count"), connection.pragma("cache_size")) == before[:2]
    assert connection.execute("select count(*) from stepwell_blobs").fetchone() == (0,)
    assert connection.pragma("integrity_check") == "ok"
    assert not connection.in_transaction


def test_a_log_that_is_long_enough_is_not_changed(file: Path) -> None:
    connection = open_writer(str(file), "FULL")
    lengthen(connection, str(file))
    length, changes = _log_bytes(file), connection.total_changes()
    lengthen(connection, str(file))

    assert (_log_bytes(file), connection.total_changes()) == (length, changes)


def test_a_process_that_dies_while_lengthening_changes_nothing(file: Path, tmp_path: Path) -> None:
    connection, left = open_writer(str(file), "FULL"), tmp_path / "left" / file.name
    left.parent.mkdir()
    connection.execute("update stepwell_meta set value = 7 where name = 'armed'")

    def die() -> None:
        for suffix in ("", "-wal"):  # what other processes find; the shared memory is gone
            shutil.copyfile(f"{file}{suffix}", f"{left}{suffix}")

    connection.set_rollback_hook(die)
    lengthen(connection, str(file))
    found = open_writer(str(left), "FULL")

    assert _log_bytes(left) >= LENGTH
    assert found.execute("select value from stepwell_meta where name = 'armed'").fetchone() == (7,)
    assert found.execute("select count(*) from stepwell_blobs").fetchone() == (0,)
    assert found.pragma("integrity_check") == "ok"


async def test_a_locked_database_keeps_its_short_log(open_store: OpenStore, file: Path) -> None:
    database = SqliteDatabase(str(file))
    store = await open_store(runner=Writer(database))
    await _start(store, 0, 2)
    other = apsw.Connection(str(file))
    other.execute("begin immediate")
    database.lengthen_log()
    other.execute("rollback")
    other.close()
    await _start(store, 10, 2)

    assert _log_bytes(file) < LENGTH
    assert database.connection.execute("select count(*) from stepwell_runs").fetchone() == (4,)


async def test_a_reader_that_keeps_its_snapshot_delays_the_log_and_does_not_stop_writers(
    open_store: OpenStore, file: Path
) -> None:
    database = SqliteDatabase(str(file))
    store = await open_store(runner=Writer(database))
    reader = open_reader(str(file), busy_seconds=1)
    reader.execute("begin")
    reader.execute("select count(*) from stepwell_runs").fetchall()
    large = b'"' + b"x" * 100_000 + b'"'
    for number in range(RESTART_PAGES // 20):
        await store.runs.create([new_run(f"r{number}")._replace(input=large)])
    while_read = _log_bytes(file)
    reader.execute("commit")
    reader.close()
    for number in range(RESTART_PAGES // 20):
        await store.runs.create([new_run(f"s{number}")._replace(input=large)])

    assert while_read > RESTART_PAGES * PAGE_BYTES
    assert database._log_pages < RESTART_PAGES
    assert database.connection.execute("select count(*) from stepwell_runs").fetchone() == (RESTART_PAGES // 10,)
