"""Databases of a virtual world: any number of handles on each, without background work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepwell.clock import Clock
from stepwell.environment import Environment
from stepwell.stores.base.store import Store

if TYPE_CHECKING:
    from stepwell.stores.postgres.pool import InlinePool
    from stepwell.stores.sqlite.database import SqliteDatabase


class Database(Protocol):
    """One database that outlives its processes."""

    def open(self, environment: Environment, told: Clock) -> Store:
        """A handle for one process. `told` is the clock that all processes agree on."""
        ...

    def close(self) -> None:
        """Close the database at the end of the world."""
        ...


class InlineSqlite:
    """A file, or a database in memory, without threads. It does not wait for the disk: no test cuts the power."""

    def __init__(self, file: Path | None = None) -> None:
        from stepwell.stores.sqlite.database import SqliteDatabase

        self._path = ":memory:" if file is None else str(file)
        self.database: SqliteDatabase = SqliteDatabase(self._path, synchronous="NORMAL")

    def open(self, environment: Environment, told: Clock) -> Store:
        from stepwell.stores.sqlite.runners import InlineRunner
        from stepwell.stores.sqlite.store import SqliteStore

        return SqliteStore(environment, self._path, runner=InlineRunner(self.database))

    def close(self) -> None:
        self.database.handles.clear()
        self.database.close()


class InlinePostgres:
    """A schema of a PostgreSQL server, over one connection, without threads."""

    def __init__(self, url: str) -> None:
        from stepwell.stores.postgres.pool import InlinePool
        from stepwell.stores.postgres.urls import parse_address

        self._url = url
        self._pool: InlinePool = InlinePool(parse_address(url))

    def open(self, environment: Environment, told: Clock) -> Store:
        from stepwell.stores.postgres.store import PostgresStore

        return PostgresStore(environment, self._url, test_clock=told, pool=self._pool)

    def close(self) -> None:
        self._pool.end()
