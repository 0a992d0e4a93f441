"""The real stores, opened several times over one database, as several processes would have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from stepwell.environment import Environment
from stepwell.stores.base.store import Store


class Broken(NamedTuple):
    """A function of the PostgreSQL store, and what is wrong with it."""

    function: str
    right: str
    wrong: str

    @property
    def whole(self) -> str:
        """The statement that makes the function as it is."""
        from stepwell.stores.postgres.texts import FUNCTIONS, render

        begin = FUNCTIONS.index(f"create function {{f}}.{self.function}(")
        text = FUNCTIONS[begin : FUNCTIONS.index("$$;", begin) + 3]
        return render(text.replace("create function", "create or replace function", 1), "stepwell")

    @property
    def text(self) -> str:
        """The statement that breaks it."""
        from stepwell.stores.postgres.composites import resolve
        from stepwell.stores.postgres.texts import render

        right, wrong = render(resolve(self.right), "stepwell"), render(self.wrong, "stepwell")
        assert right in self.whole, self
        return self.whole.replace(right, wrong, 1)


BROKEN: Broken | None = None  # what every database that is opened now has wrong


class Backend(Protocol):
    """One database that outlives its processes."""

    def handle(self, environment: Environment) -> Store:
        """The store as one process has it."""
        ...

    def close(self) -> None:
        """Throw the database away."""
        ...


class SqliteBackend:
    """The real SQLite, in memory, without threads."""

    def __init__(self) -> None:
        from stepwell.stores.sqlite.database import SqliteDatabase

        self._database: Any = SqliteDatabase(":memory:")

    def handle(self, environment: Environment) -> Store:
        from stepwell.stores.sqlite.runners import InlineRunner
        from stepwell.stores.sqlite.store import SqliteStore

        return SqliteStore(environment, ":memory:", runner=InlineRunner(self._database))

    def close(self) -> None:
        self._database.close()


class PostgresBackend:
    """A real PostgreSQL server, over one connection, without threads."""

    def __init__(self) -> None:
        from stepwell.stores.postgres.pool import InlinePool
        from stepwell.stores.postgres.urls import parse_address
        from tests.servers.cleared import cleared_url

        self._url = cleared_url()
        self._broken = BROKEN
        if self._broken is not None:
            self._install(self._broken.text)
        self._pool: Any = InlinePool(parse_address(self._url))

    def handle(self, environment: Environment) -> Store:
        from stepwell.stores.postgres.store import PostgresStore

        return PostgresStore(environment, self._url, told=environment.clock, pool=self._pool)

    def close(self) -> None:
        self._pool.end()
        if self._broken is not None:
            self._install(self._broken.whole)

    def _install(self, text: str) -> None:
        import psycopg

        with psycopg.connect(self._url.partition("?")[0], autocommit=True) as connection:
            connection.execute(text.encode())


_BACKENDS: dict[str, Callable[[], Backend]] = {
    "sqlite": SqliteBackend,
    "postgres": PostgresBackend,
}


def open_backend(store: str) -> Backend:
    """A fresh database of that kind."""
    return _BACKENDS[store]()
