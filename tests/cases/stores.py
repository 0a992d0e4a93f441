"""How each store is opened for tests in virtual time: several handles on one database, without threads."""

from __future__ import annotations

from stepwell.environment import Environment
from stepwell.stores.base.store import Store
from stepwell.stores.memory.database import MemoryDatabase
from stepwell.stores.memory.store import MemoryStore
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.runners import InlineRunner
from stepwell.stores.sqlite.store import SqliteStore
from tests.cases.harness import OpenStore


def memory() -> OpenStore:
    """One database in dicts."""
    database = MemoryDatabase()
    return lambda environment: MemoryStore(environment, database)


def sqlite() -> OpenStore:
    """One SQLite database in memory."""
    database = SqliteDatabase(":memory:")

    def open_store(environment: Environment) -> Store:
        return SqliteStore(environment, ":memory:", runner=InlineRunner(database))

    return open_store


STORES = {"memory": memory, "sqlite": sqlite}
