"""How each store is opened for tests in virtual time: several handles on one database, without threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

from stepwell.environment import Environment
from stepwell.stores.base.store import Store
from stepwell.stores.base.transactions import NoTransactions
from stepwell.stores.postgres.pool import InlinePool
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.runners import InlineRunner
from stepwell.stores.sqlite.store import SqliteStore
from tests.cases.harness import OpenStore
from tests.servers.cleared import cleared_url

_pools: list[InlinePool] = []  # of the test before: processes that were killed in it closed nothing


def sqlite() -> OpenStore:
    """One SQLite database in memory."""
    database = SqliteDatabase(":memory:")

    def open_store(environment: Environment) -> Store:
        return SqliteStore(environment, ":memory:", runner=InlineRunner(database))

    return open_store


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
    while _pools:
        _pools.pop().end()
    pool = InlinePool(parse_address(url))
    _pools.append(pool)
    return lambda environment: PostgresStore(environment, url, told=environment.clock, pool=pool)


STORES: dict[str, Callable[[], OpenStore]] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "postgres16": lambda: postgres(16),
}
