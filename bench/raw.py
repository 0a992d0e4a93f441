"""The limit: single-row durable commits per second in the same database, through the same driver and settings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import apsw
import psycopg
from psycopg import pq

from stepwell.stores.sqlite.connections import open_writer
from stepwell.stores.sqlite.log import CHECKPOINT_PAGES, lengthen


class Limit(NamedTuple):
    """Commits per second."""

    limit: float  # with the driver and the database as they come: what figures are compared with
    best: float  # driven as the store drives them


def sqlite_limit(path: Path, count: int) -> Limit:
    """SQLite writes its log back after a thousand pages, the store after few: syncing a log that grows is slower."""
    best = _sqlite_commits(path, count, as_the_store=True)
    return Limit(_sqlite_commits(path, count, as_the_store=False), best)


def _sqlite_commits(path: Path, count: int, *, as_the_store: bool) -> float:
    """Commits of one small row each, into a table of its own, on a connection that is opened as the store's own is."""
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
        if as_the_store:
            lengthen(connection, str(path))
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


# As wide as the row of one recorded step, with the same key.
_TABLE = """
    create table raw (
        run bigint, location bytea, seq bigint, kind text, status text, value bytea, at bigint, took bigint,
        attempts bigint, undo bytea, primary key (run, location)
    )
"""
_AT = 1_700_000_000_000_000


def postgres_limit(url: str, count: int) -> Limit:
    """One connection of the driver in autocommit, one prepared insert per round trip. The best way is the call of libpq
    below the driver's `execute`.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop table if exists raw")
        connection.execute(_TABLE)
        insert = "insert into raw values (1, %b, %b, 's', 'd', %b, %b, 10, 1, null)"
        began = time.perf_counter()
        for number in range(count):
            connection.execute(insert, (number.to_bytes(4, "big"), number, b"j1", _AT), prepare=True)
        limit = count / (time.perf_counter() - began)
        return Limit(limit, _libpq_commits(connection.pgconn, count))


def _libpq_commits(pgconn: pq.abc.PGconn, count: int) -> float:
    insert = b"insert into raw values (2, $1::bytea, $2::bigint, 's', 'd', $3::bytea, $4::bigint, 10, 1, null)"
    pgconn.prepare(b"raw", insert)
    formats = [pq.Format.BINARY, pq.Format.TEXT, pq.Format.BINARY, pq.Format.TEXT]
    at = b"%d" % _AT
    began = time.perf_counter()
    for number in range(count):
        result = pgconn.exec_prepared(b"raw", [number.to_bytes(4, "big"), b"%d" % number, b"j1", at], formats)
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
    return count / (time.perf_counter() - began)


def sqlite_batches(path: Path, rows: int, count: int) -> float:
    """Rows per second, so many of them in each commit, on a connection that is opened as the store's own is."""
    connection: apsw.Connection = open_writer(str(path), "FULL")
    try:
        connection.execute("drop table if exists raw")
        connection.execute("create table raw (run integer, location blob, value blob, primary key (run, location))")
        began = time.perf_counter()
        for batch in range(count):
            connection.execute("begin immediate")
            connection.executemany(
                "insert into raw values (?, ?, ?)", [(row, batch.to_bytes(4, "big"), b"j1") for row in range(rows)]
            )
            connection.execute("commit")
        return rows * count / (time.perf_counter() - began)
    finally:
        connection.close()


def postgres_batches(url: str, rows: int, count: int) -> float:
    """Rows per second, so many of them in each statement, which is a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop table if exists raw")
        connection.execute(_TABLE)
        runs, value = list(range(rows)), [b"j1"] * rows
        began = time.perf_counter()
        for batch in range(count):
            connection.execute(
                "insert into raw select run, %b, 1, 's', 'd', value, 1, 10, 1, null"
                " from unnest(%b::bigint[], %b::bytea[]) as x (run, value)",
                (batch.to_bytes(4, "big"), runs, value),
            )
        return rows * count / (time.perf_counter() - began)
