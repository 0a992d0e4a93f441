"""The limit: single-row durable commits per second in the same file, through the same driver and settings."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from stepwell.stores.sqlite.connections import open_writer
from stepwell.stores.sqlite.database import CHECKPOINT_PAGES


def raw_commits(path: Path, count: int, *, as_the_store: bool = True) -> float:
    """Commits per second of one small row each, into a table of its own in a database that the store has made.

    The connection is opened as the store opens its own. The log is written back as the store does it, after few pages:
    syncing a log that grows is much slower, so SQLite's own interval (`as_the_store=False`) is not the limit.
    """
    connection: apsw.Connection = open_writer(str(path), "FULL")
    logged = 0

    def note(_: apsw.Connection, __: str, pages: int) -> int:
        nonlocal logged
        logged = pages
        return apsw.SQLITE_OK

    try:
        if as_the_store:
            connection.set_wal_hook(note)
        connection.execute("drop table if exists raw")
        connection.execute(
            "create table raw (run integer, location blob, value blob, primary key (run, location)) without rowid"
        )
        began = time.perf_counter()
        for number in range(count):
            connection.execute("begin immediate")
            connection.execute("insert into raw values (1, ?, ?)", (number.to_bytes(4, "big"), b"j1"))
            connection.execute("commit")
            if logged >= CHECKPOINT_PAGES:
                logged = 0
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return count / (time.perf_counter() - began)
    finally:
        connection.close()
