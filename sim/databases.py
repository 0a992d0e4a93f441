"""The databases that a seed can run on, and what may be broken in them on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sim.rows import Rows, StoredRows, WrittenRows
from stepwell.clock import Clock
from stepwell.environment import Environment
from stepwell.stores.base.store import Store
from stepwell.virtual.databases import Database, InlinePostgres, InlineSqlite


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


class BrokenPostgres:
    """A database of the real PostgreSQL, with whatever is broken in it until it is closed."""

    def __init__(self) -> None:
        from tests.servers.cleared import cleared_url

        self._url = cleared_url()
        self._broken = BROKEN
        if self._broken is not None:
            self._install(self._broken.text)
        self._database = InlinePostgres(self._url)

    def open(self, environment: Environment, told: Clock) -> Store:
        return self._database.open(environment, told)

    def close(self) -> None:
        self._database.close()
        if self._broken is not None:
            self._install(self._broken.whole)

    def _install(self, text: str) -> None:
        import psycopg

        with psycopg.connect(self._url.partition("?")[0], autocommit=True) as connection:
            connection.execute(text.encode())


_DATABASES: dict[str, Callable[[], Database]] = {
    "sqlite": InlineSqlite,
    "postgres": BrokenPostgres,
}


def open_database(store: str) -> Database:
    """A fresh database of that kind."""
    return _DATABASES[store]()


def watch(database: Database, inspector: Store) -> Rows:
    """The rows of a database. The inspector has opened it."""
    if isinstance(database, InlineSqlite):
        return WrittenRows(inspector, database.database.connection)
    return StoredRows(inspector)
