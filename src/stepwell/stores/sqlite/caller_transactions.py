"""Connections of callers: starts runs within a transaction that the caller begins and ends."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import apsw

from stepwell.clock import Clock
from stepwell.errors import InvalidOptionError, StoreUnavailableError
from stepwell.model.runs import Created, NewRun
from stepwell.stores.base.transactions import no_open_transaction, not_a_connection
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.file_registry import file_id, has_two_copies, is_open, note_caller
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.starts import create

_NAME = re.compile(r":([a-z_]+)")


class _Rows:
    """The rows of a completed statement: it leaves nothing open in the caller's transaction."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def fetchone(self) -> Row | None:
        """The next row."""
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[Row]:
        """The remaining rows."""
        rows, self._rows = self._rows, []
        return rows


class CallerConnection:
    """A connection of `apsw` or `sqlite3` with the methods that our transitions use.

    The caller's row factories and traces are not used for our statements.
    """

    def __init__(self, given: apsw.Connection | sqlite3.Connection) -> None:
        self._given = given

    def execute(self, sql: str, parameters: Any = ()) -> _Rows:
        """Run one statement to its end."""
        if isinstance(self._given, sqlite3.Connection):
            cursor = self._given.cursor()
            cursor.row_factory = None
            return _Rows(cursor.execute(sql, _by_name(sql, parameters)).fetchall())
        plain = self._given.cursor()
        plain.row_trace = plain.exec_trace = None
        return _Rows(plain.execute(sql, parameters or None).fetchall())

    def cursor(self) -> CallerConnection:
        """Itself, so that no cursor is left open in the caller's transaction."""
        return self


def enqueue(
    database: SqliteDatabase, clock: Clock, given: Any, runs: Sequence[NewRun], *, encrypts: bool
) -> list[Created]:
    """Start runs within the open transaction of a caller's connection."""
    try:
        _check(database, given)
        connection: Any = CallerConnection(given)
        now = database.now_for_caller(connection, clock, encrypts=encrypts)
        return create(Transaction(connection, now, {}), runs, None)
    except (apsw.BusyError, sqlite3.OperationalError) as error:
        if isinstance(error, sqlite3.OperationalError) and "locked" not in str(error):
            raise _refused(database, error) from error
        raise StoreUnavailableError(
            f"the transaction could not write to {database.path}: {error}",
            where="transaction",
            why="it had only read so far, and another transaction is writing or has written since",
            fix="begin it with `BEGIN IMMEDIATE`, and after this error roll it back and begin again",
        ) from error
    except (apsw.Error, sqlite3.Error) as error:
        raise _refused(database, error) from error


def _check(database: SqliteDatabase, given: Any) -> None:
    """Raise `InvalidOptionError` unless it is an open transaction of our database."""
    if not isinstance(given, (apsw.Connection, sqlite3.Connection)):
        raise not_a_connection(given, "apsw and sqlite3")
    ours = None if database.is_memory else file_id(database.path)
    # Before the first query: even a read would take and drop locks of the other copy.
    if isinstance(given, sqlite3.Connection) and has_two_copies() and ours is not None and is_open(ours):
        raise InvalidOptionError(
            "the connection is of sqlite3, and this process has the same file open with apsw",
            where="transaction",
            why="two copies of SQLite do not see each other's locks within one process: rows would be lost, and the "
            "file damaged. It makes no difference which Engine is asked",
            fix="begin the transaction with apsw.Connection(path), or use engine.transact; sqlite3 may open this file "
            "only in a process where no engine has it open",
        )
    found = CallerConnection(given).execute("select file from pragma_database_list where name = 'main'").fetchone()
    theirs = str(found[0]) if found is not None else ""
    if ours is None or not theirs or file_id(theirs) != ours:
        raise InvalidOptionError(
            f"transaction is of {theirs or 'a database in memory'}, and the runs are in {database.path}",
            where="transaction",
            why="rows of two databases cannot be committed together",
            fix="connect to the file that the engine uses",
        )
    if not given.in_transaction:
        raise no_open_transaction("execute `BEGIN IMMEDIATE` first, or leave out transaction=")
    if isinstance(given, sqlite3.Connection):
        note_caller(given, ours)


def _refused(database: SqliteDatabase, error: Exception) -> InvalidOptionError:
    return InvalidOptionError(
        f"the connection cannot be used: {error}",
        where="transaction",
        why=f"a run is a few rows in {database.path}, written by the thread that calls start",
        fix="pass a connection that may write and belongs to the calling thread (sqlite3: check_same_thread)",
    )


def _by_name(sql: str, parameters: Any) -> Any:
    """Parameters by name, as `sqlite3` needs them; a tuple has them in the order in which the statement names them."""
    return dict(zip(_names(sql), parameters, strict=True)) if isinstance(parameters, tuple) else parameters


@lru_cache(maxsize=256)
def _names(sql: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_NAME.findall(sql)))
