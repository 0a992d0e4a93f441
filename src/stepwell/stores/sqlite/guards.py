"""Restricts an author's SQL inside our transaction: it may do anything except end the transaction or use our tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

import apsw

from stepwell.model.transactions import Parameters
from stepwell.stores.base.transactions import brief, forbidden_sql, used_after_end
from stepwell.stores.sqlite.faults import translate

_OURS = "stepwell_"
# The driver's cache keeps authors' statements apart from ours: a cached statement is not checked again.
_APART = apsw.SQLITE_PREPARE_PERSISTENT

_OF_TABLE = frozenset({apsw.SQLITE_READ, apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_ENDS = frozenset({apsw.SQLITE_TRANSACTION, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH})
_PRAGMAS = frozenset(
    {
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "foreign_key_check",
        "defer_foreign_keys",
    }
)


class Guard:
    """Checks every statement that a connection prepares, while an author's statement runs. Off at other times."""

    def __init__(self) -> None:
        self.is_on = False
        self.refusal = ("", "")  # what was rejected last, and what to do

    def __call__(self, action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
        """SQLite asks whether a statement may do this."""
        if not self.is_on:
            return apsw.SQLITE_OK
        refusal = _find_refusal(action, first or "", second or "")
        if refusal is None:
            return apsw.SQLITE_OK
        self.refusal = refusal
        return apsw.SQLITE_DENY


def _find_refusal(action: int, first: str, second: str) -> tuple[str, str] | None:
    if action == apsw.SQLITE_TRANSACTION:
        fix = "leave it out: return to commit, raise to roll back; use a savepoint for a part"
        return f"ends or begins the transaction itself ({first})", fix
    if action in _ENDS:
        return "attaches or detaches a database", "use only tables of the database that holds the runs"
    if action == apsw.SQLITE_SAVEPOINT:
        return _ours(second, "uses a savepoint of stepwell", "give the savepoint another name")
    if action == apsw.SQLITE_PRAGMA:
        is_known = first.lower() in _PRAGMAS
        return None if is_known else (f"sets or reads pragma {first}", "set pragmas on a connection of your own")
    names = (first,) if action in _OF_TABLE else (first, second)
    found = next((name for name in names if name.lower().startswith(_OURS)), "")
    return _ours(found, f"touches {found}", "read runs with the engine; keep your rows in tables of your own")


def _ours(name: str, what: str, fix: str) -> tuple[str, str] | None:
    return (what, fix) if name.lower().startswith(_OURS) else None


class GuardedTransaction:
    """`Transaction` for an author, on the writing connection. It is closed when the work has ended."""

    __slots__ = ("_connection", "_guard", "_is_over")

    def __init__(self, connection: apsw.Connection, guard: Guard) -> None:
        self._connection = connection
        self._guard = guard
        self._is_over = False

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        with self._guarded(sql):
            rows: list[tuple[Any, ...]] = self._open().execute(sql, parameters or None, prepare_flags=_APART).fetchall()
            return rows

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> None:
        with self._guarded(sql):
            for _ in self._open().executemany(sql, rows, prepare_flags=_APART):
                pass

    @property
    def changes(self) -> int:
        return int(self._open().changes())

    @property
    def last_row_id(self) -> int:
        return int(self._open().last_insert_rowid())

    def close(self) -> None:
        """End the use of this object: from now on it raises errors."""
        self._is_over = True

    def _open(self) -> apsw.Connection:
        if self._is_over:
            raise used_after_end()
        return self._connection

    def _guarded(self, sql: str) -> _GuardedStatement:
        return _GuardedStatement(self._guard, sql, self._connection.filename)


class _GuardedStatement:
    """Switches the guard on for one statement of an author, and translates its errors into the types of `sqlite3`."""

    __slots__ = ("_guard", "_path", "_sql")

    def __init__(self, guard: Guard, sql: str, path: str) -> None:
        self._guard = guard
        self._sql = sql
        self._path = path

    def __enter__(self) -> None:
        self._guard.is_on = True

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._guard.is_on = False
        match error:
            case apsw.AuthError():
                what, fix = self._guard.refusal
                raise forbidden_sql(self._sql, what, fix) from None
            case apsw.ConstraintError():
                raise sqlite3.IntegrityError(str(error)) from None
            case apsw.SQLError() | apsw.MismatchError() | apsw.RangeError() | apsw.BindingsError() | apsw.TooBigError():
                raise sqlite3.OperationalError(f"{error}: {brief(self._sql)}") from None
            case apsw.Error():
                raise translate(error, self._path) from error
            case _:
                pass
