"""Restricts an author's SQL inside our transaction: it may do anything except end the transaction or use our tables."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import pq

from stepwell.model.transactions import Parameters
from stepwell.stores.base.transactions import forbidden_sql, used_after_end
from stepwell.stores.postgres.faults import ConflictError, translate

# Literals, quoted names and comments are skipped; placeholders are only in the rest.
_TOKENS = re.compile(
    r"""
    (?P<skip>
        '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | (?P<tag>\$[A-Za-z_0-9]*\$).*?(?P=tag) | :: | :=
    )
    | (?P<mark>\?) | (?<![:\w]):(?P<name>[A-Za-z_]\w*) | (?P<percent>%)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDING = re.compile(
    r"\s*(?:begin|start\s+transaction|commit|end|abort|rollback|prepare\s+transaction|set\s+transaction)\b", re.I
)
_PARTIAL = re.compile(r"\s*rollback\s+(?:work\s+|transaction\s+)?to\b", re.I)
_SAVEPOINT = re.compile(r"\bstepwell_\w*", re.I)


class IntegrityError(psycopg.IntegrityError, sqlite3.IntegrityError):
    """A constraint rejects a row. Either driver's exception type catches it, so a step is the same on every store."""


class OperationalError(psycopg.OperationalError, sqlite3.OperationalError):
    """The SQL is wrong. Either driver's exception type catches it."""


class AuthorTransaction:
    """`Transaction` for an author, on the writing connection. It is closed when the work has ended.

    Placeholders are `?` and `:name`, as on every store, or `%s` and `%(name)s`, as in psycopg.
    """

    __slots__ = ("_changes", "_connection", "_is_over", "_schema", "_where")

    def __init__(self, connection: Any, schema: str, where: str) -> None:
        self._connection = connection
        self._schema = schema
        self._where = where
        self._is_over = False
        self._changes = 0

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Execute one statement and return its rows."""
        return self._run(sql, parameters or None)

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Execute a statement for each of these parameters."""
        for row in rows:
            self._run(sql, row)

    @property
    def changes(self) -> int:
        """How many rows the last insert, update or delete changed."""
        self._open()
        return self._changes

    @property
    def last_row_id(self) -> int:
        """The last number that a sequence gave in this session; 0 if there was none."""
        connection = self._open()
        try:
            with connection.transaction():
                return int(connection.execute("select lastval()").fetchone()[0])
        except psycopg.errors.ObjectNotInPrerequisiteState:
            return 0

    def close(self) -> None:
        """End the use of this object: from now on it raises errors."""
        self._is_over = True

    def _run(self, sql: str, parameters: Parameters | None) -> list[tuple[Any, ...]]:
        connection = self._open()
        _check(sql, self._schema)
        text = sql if parameters is None else translated(sql)
        try:
            # Always bind parameters: without them, several statements could be smuggled into one.
            cursor = connection.execute(text if parameters is not None else text.replace("%", "%%"), parameters or ())
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description is not None else []
        except psycopg.IntegrityError as error:
            raise IntegrityError(str(error)) from error
        except psycopg.errors.OperationalError as error:
            raise translate(error, self._where) from error
        except psycopg.Error as error:
            problem = translate(error, self._where)
            if isinstance(problem, ConflictError) or connection.pgconn.status != pq.ConnStatus.OK:
                raise problem from error
            raise OperationalError(str(error)) from error
        if cursor.statusmessage and cursor.statusmessage.split()[0] in ("INSERT", "UPDATE", "DELETE", "MERGE"):
            self._changes = max(0, cursor.rowcount)
        return rows

    def _open(self) -> Any:
        if self._is_over:
            raise used_after_end()
        return self._connection


@lru_cache(maxsize=256)
def translated(sql: str) -> str:
    """A statement with the driver's placeholders. If it has these already, it is not changed."""
    if re.search(r"%s|%\(\w+\)s|%b", sql):
        return sql

    def replace(found: re.Match[str]) -> str:
        if found["mark"]:
            return "%s"
        if found["name"]:
            return f"%({found['name']})s"
        return found[0].replace("%", "%%")

    return _TOKENS.sub(replace, sql)


def _check(sql: str, schema: str) -> None:
    if _ENDING.match(sql) and not _PARTIAL.match(sql):
        raise forbidden_sql(
            sql, "ends or begins the transaction itself", "leave it out: return to commit, raise to roll back"
        )
    bare = _TOKENS.sub(lambda found: found[0] if found[0].startswith('"') else " ", sql)
    if re.match(r"\s*(?:savepoint|release|rollback)\b", sql, re.I) and _SAVEPOINT.search(bare):
        raise forbidden_sql(sql, "uses a savepoint of stepwell", "give the savepoint another name")
    if re.search(rf"(?<![\w.])\"?{re.escape(schema)}(?:_[0-9a-f]{{10}})?\"?\s*\.", bare, re.I):
        raise forbidden_sql(
            sql, f"touches the schema {schema}", "read runs with the engine; keep your rows in tables of your own"
        )
