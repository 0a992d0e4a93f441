"""The limit: single-row durable commits per second in the same file, through the same driver and settings."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from stepwell.stores.sqlite.connections import open_writer


def raw_commits(path: Path, count: int) -> float:
    """Commits per second of one small row each, into a table of its own in a database that the store has made.

    The connection is opened as the store opens its own: write-ahead log, synchronous=FULL, SQLite's own checkpoints.
    """
    connection: apsw.Connection = open_writer(str(path), "FULL")
    try:
        connection.execute("drop table if exists raw")
        connection.execute(
            "create table raw (run integer, location blob, value blob, primary key (run, location)) without rowid"
        )
        began = time.perf_counter()
        for number in range(count):
            connection.execute("begin immediate")
            connection.execute("insert into raw values (1, ?, ?)", (number.to_bytes(4, "big"), b"j1"))
            connection.execute("commit")
        return count / (time.perf_counter() - began)
    finally:
        connection.close()
