"""The limit: single-row durable commits per second of the same kind of file, through the same driver."""

from __future__ import annotations

import time
from pathlib import Path

import apsw


def raw_commits(path: Path, count: int) -> float:
    """Commits per second: one small row each, WAL, synchronous=FULL, as the store is set."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("pragma journal_mode=wal; pragma synchronous=full; pragma wal_autocheckpoint=0")
        connection.execute(
            "create table rows (run integer, location blob, value blob, primary key (run, location)) without rowid"
        )
        began = time.perf_counter()
        for number in range(count):
            connection.execute("begin immediate")
            connection.execute("insert into rows values (1, ?, ?)", (number.to_bytes(4, "big"), b"j1"))
            connection.execute("commit")
        return count / (time.perf_counter() - began)
    finally:
        connection.close()
