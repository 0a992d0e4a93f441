"""Opens connections, and checks or creates the schema."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Literal

import apsw

from stepwell.stores.sql.migrations import pending_migrations
from stepwell.stores.sqlite.faults import LOCK_SECONDS_MAX, foreign, not_writable
from stepwell.stores.sqlite.files import MEMORY, prepare_file
from stepwell.stores.sqlite.texts import MIGRATIONS, SQL

Synchronous = Literal["FULL", "NORMAL"]
SYNCHRONOUS: Synchronous = "FULL"  # the default: commits survive a power failure

APPLICATION_ID = 0x53574C31  # "SWL1"
PAGE_BYTES = 4096
_CACHE_KIBIBYTES = 16_384
_MAPPED_BYTES = 256 * 1024 * 1024
_WAL_BYTES_KEPT = 16 * 1024 * 1024
_STATEMENTS_CACHED = 256
_COPYING = Lock()  # a connection is for one thread at a time


def open_writer(path: str, synchronous: Synchronous, *, is_shared: bool = False) -> apsw.Connection:
    """The only connection that writes, with the newest schema. Waits while another process migrates. With `is_shared`,
    the file may hold the tables of an application; they are not changed.

    Raises `StoreNotWritableError`, `ForeignFileError`, `SchemaMismatchError`, or the driver's errors.
    """
    if path == MEMORY:
        connection = _connect(path, 0, create=True)
        _copy_empty(connection)
        return connection
    prepare_file(path)
    connection = _connect(path, LOCK_SECONDS_MAX)
    try:
        version = identify(connection, path, is_shared=is_shared)
        _use_wal(connection, path, synchronous)
        if version < MIGRATIONS[-1].number:
            _migrate(connection, path, is_shared=is_shared)
        # From here on the runner waits for locks: waiting must not happen on the event loop's thread.
        connection.set_busy_timeout(0)
    except BaseException:
        connection.close()
        raise
    return connection


def _copy_empty(connection: apsw.Connection) -> None:
    """Copy the schema into a database in memory: tests open thousands of these, and copying is fast."""
    with _COPYING, connection.backup("main", _empty(), "main") as copying:
        copying.step()


@cache
def _empty() -> apsw.Connection:
    """An empty database in memory with the schema."""
    connection = _connect(MEMORY, LOCK_SECONDS_MAX, create=True)
    _migrate(connection, MEMORY)
    return connection


def open_reader(path: str, *, busy_seconds: float) -> apsw.Connection:
    """A connection that only reads."""
    connection = _connect(path, busy_seconds)
    connection.pragma("query_only", True)
    return connection


def open_plain(path: str, *, busy_seconds: float = LOCK_SECONDS_MAX) -> apsw.Connection:
    """A connection to an existing file; its schema and journal mode are not changed."""
    return _connect(path, busy_seconds)


def _connect(path: str, busy_seconds: float, *, create: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(path, flags=flags, statementcachesize=_STATEMENTS_CACHED)
    # First: even a pragma reads the file, and another process may be creating it.
    connection.set_busy_timeout(round(busy_seconds * 1000))
    # Plans must not depend on values: otherwise SQLite prepares every join again when a parameter changes.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.pragma("cache_size", -_CACHE_KIBIBYTES)
    connection.pragma("mmap_size", _MAPPED_BYTES)
    connection.pragma("temp_store", "memory")
    return connection


def identify(connection: apsw.Connection, path: str, *, is_shared: bool = False) -> int:
    """The schema's number; 0 without a schema. Raises `ForeignFileError` and `SchemaMismatchError`; writes nothing.

    A file that is shared with an application records that once it has our tables. Before that, `is_shared` decides.
    """
    found: tuple[int, int, int, int] | None = connection.execute(SQL["meta.identify"]).fetchone()
    assert found is not None
    objects, application_id, version, ours = found
    if application_id != APPLICATION_ID and (objects or application_id or is_shared):
        shared = connection.execute(SQL["meta.find_schema"]).fetchone() if ours else None
        if shared is None and (ours or not is_shared):
            raise foreign(path, "it holds the tables of another program")
        version = 0 if shared is None else int(shared[0])
    pending_migrations(MIGRATIONS, version, where=path)
    return version


def is_shared_file(connection: apsw.Connection) -> bool:
    """Whether a file with our tables is shared with an application."""
    found = connection.execute(SQL["meta.identify"]).fetchone()
    return found is not None and found[1] != APPLICATION_ID and bool(found[3])


def _use_wal(connection: apsw.Connection, path: str, synchronous: Synchronous) -> None:
    connection.pragma("page_size", PAGE_BYTES)
    if connection.pragma("journal_mode", "wal") != "wal":
        raise not_writable(path, "its file system does not support SQLite's write-ahead log")
    connection.pragma("synchronous", synchronous)
    connection.pragma("journal_size_limit", _WAL_BYTES_KEPT)


def _migrate(connection: apsw.Connection, path: str, *, is_shared: bool = False) -> None:
    """Update the schema in one transaction: if several processes try, one migrates and the others find it done."""
    connection.execute(SQL["transactions.begin"])
    try:
        version = identify(connection, path, is_shared=is_shared)
        for migration in pending_migrations(MIGRATIONS, version, where=path):
            connection.execute(migration.text)
        if connection.pragma("application_id") != APPLICATION_ID and (is_shared or version):
            connection.execute(SQL["meta.set_schema"], (MIGRATIONS[-1].number,))
        else:
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", MIGRATIONS[-1].number)
        connection.execute(SQL["transactions.commit"])
    except BaseException:
        if connection.in_transaction:
            connection.execute(SQL["transactions.rollback"])
        raise
