"""How each store is opened for tests in virtual time: several handles on one database, without threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

from stepwell.environment import Environment
from stepwell.stores.base.store import Store
from stepwell.stores.base.transactions import NoTransactions
from stepwell.virtual.databases import Database, InlinePostgres, InlineSqlite
from tests.cases.harness import OpenStore
from tests.servers.cleared import cleared_url

_databases: list[InlinePostgres] = []  # of the test before: processes that were killed in it closed nothing


def sqlite() -> OpenStore:
    """One SQLite database in memory."""
    return _handles(InlineSqlite())


def _handles(database: Database) -> OpenStore:
    return lambda environment: database.open(environment, environment.clock)


def without_transactions(open_store: OpenStore) -> OpenStore:
    """The same store, if it had no transactions of authors."""

    def open_plain(environment: Environment) -> Store:
        store: Any = open_store(environment)
        store.transactions = NoTransactions("plain")
        store.capabilities = store.capabilities._replace(has_transactions=False)
        return cast("Store", store)

    return open_plain


def postgres(version: int | None = None) -> OpenStore:
    """One real PostgreSQL database, over one connection; in another isolation than usual if the environment says so."""
    isolation = os.environ.get("STEPWELL_TEST_ISOLATION")
    url = cleared_url(version, f"isolation={isolation}" if isolation else "")
    while _databases:
        _databases.pop().close()
    database = InlinePostgres(url)
    _databases.append(database)
    return _handles(database)


STORES: dict[str, Callable[[], OpenStore]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "postgres16": lambda: postgres(16),
}
