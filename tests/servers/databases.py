"""What can be asked of any PostgreSQL server, ours or somebody else's: databases to test in."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, LiteralString
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import psycopg
from psycopg import sql


class DatabaseServer:
    """A server that runs somewhere, reached by the URL of one of its databases."""

    def __init__(self, url: str, *, strategy: LiteralString = "wal_log") -> None:
        self._url = url
        self._strategy: LiteralString = strategy

    def url(self, database: str | None = None) -> str:
        """The URL of a database, by default of the one that administers the others; it need not exist."""
        return self._url if database is None else urlunsplit(urlsplit(self._url)._replace(path=f"/{quote(database)}"))

    def execute(
        self, statement: LiteralString | sql.Composed, parameters: Sequence[Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement outside a transaction, in the database that administers the others; its rows."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def major_version(self) -> int:
        """What the server itself says that it is."""
        return int(self.execute("select current_setting('server_version_num')::int / 10000")[0][0])

    def create_database(self, *, template: str = "template0") -> str:
        """The URL of a new database: empty, or a copy of the template, which nobody may be connected to."""
        name = f"stepwell_{uuid.uuid4().hex}"
        statement = sql.SQL("create database {} template {} strategy {}")
        self.execute(statement.format(sql.Identifier(name), sql.Identifier(template), sql.SQL(self._strategy)))
        return self.url(name)

    def drop_database(self, database: str) -> None:
        """Remove a database, given by its URL or its name, and end the connections to it; none is fine too."""
        name = sql.Identifier(database_name(database))
        self.execute(sql.SQL("drop database if exists {} with (force)").format(name))

    def terminate_backends(self, database: str) -> int:
        """End every connection to a database, given by its URL or its name; how many are gone now."""
        # The milliseconds are the most that the server waits for each of them.
        ended = self.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = %s and backend_type = 'client backend' and pid <> pg_backend_pid()",
            [database_name(database)],
        )
        return sum(gone for (gone,) in ended)


def database_name(database: str) -> str:
    """The name of a database that is given by its URL or by its name."""
    return unquote(urlsplit(database).path.lstrip("/")) if "://" in database else database
