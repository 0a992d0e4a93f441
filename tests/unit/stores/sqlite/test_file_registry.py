"""Which files this process has open: connections of other threads cannot be asked, and need not be."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import apsw
import pytest

from stepwell import Engine
from stepwell.stores.sqlite.file_registry import check_exclusive

_LONG = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n where pause(i)"


@pytest.mark.parametrize("is_of_the_file", [True, False])
def test_a_connection_that_another_thread_uses_does_not_fail_the_check(tmp_path: Path, is_of_the_file: bool) -> None:
    path = str(tmp_path / "runs.db")
    with apsw.Connection(path) as made:
        made.execute("create table t (a)")
    made.close()
    descriptor = os.open(path, os.O_RDONLY)  # another thread has the file open
    is_busy, may_end = threading.Event(), threading.Event()

    def pause(*_: object) -> int:
        is_busy.set()
        may_end.wait(60)
        raise apsw.AbortError

    other = apsw.Connection(path if is_of_the_file else str(tmp_path / "other.db"))
    other.create_scalar_function("pause", pause, 1)

    def use() -> None:
        with pytest.raises(apsw.AbortError):
            other.execute(_LONG).fetchall()

    thread = threading.Thread(target=use)
    thread.start()
    try:
        assert is_busy.wait(60)
        check_exclusive(path)
    finally:
        may_end.set()
        thread.join()
        other.close()
        os.close(descriptor)


async def test_engines_can_be_opened_on_a_file_that_is_in_use(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Engine(url) as first, Engine(url) as second:
        assert await first.runs.list() == await second.runs.list() == []


def test_listing_connections_keeps_no_objects_of_other_threads(tmp_path: Path) -> None:
    """If another thread refers to a cursor when its owner drops it, its statement is never finished, and its connection
    can no longer begin to write.
    """
    path = str(tmp_path / "runs.db")
    connection = apsw.Connection(path)
    connection.pragma("journal_mode", "wal")
    connection.execute("create table t (a); insert into t values (1), (2)")
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            check_exclusive(path)

    thread = threading.Thread(target=look)
    thread.start()
    held, interval = 0, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5_000):
            cursor = connection.execute("select a from t")
            cursor.fetchone()
            del cursor
            held += connection.txn_state("main") != apsw.SQLITE_TXN_NONE
    finally:
        sys.setswitchinterval(interval)
        is_over.set()
        thread.join()
        connection.close()
    assert held == 0
