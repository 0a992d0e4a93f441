"""In memory, without threads, several handles on one database: the setup of simulations passes the suite too."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from stepwell.conformance.scene import Scene, new_run
from stepwell.conformance.suite import StoreSuite
from stepwell.environment import Environment
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import Hint, HintKind
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.runners import InlineRunner
from stepwell.stores.sqlite.store import SqliteStore


@pytest.fixture
def database() -> SqliteDatabase:
    return SqliteDatabase(":memory:")


async def _open(environment: Environment, database: SqliteDatabase) -> SqliteStore:
    store = SqliteStore(environment, ":memory:", runner=InlineRunner(database))
    await store.open()
    return store


@pytest_asyncio.fixture
async def store(environment: Environment, database: SqliteDatabase) -> AsyncIterator[Store]:
    store = await _open(environment, database)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def other(environment: Environment, database: SqliteDatabase) -> AsyncIterator[Store]:
    other = await _open(environment, database)
    yield other
    await other.close()


class TestInline(StoreSuite):
    async def test_hints_go_to_every_handle(self, scene: Scene, other: Store) -> None:
        heard: list[Hint] = []
        other.wakeups.listen(heard.append)

        await scene.create("r1")

        assert [hint.kind for hint in heard] == [HintKind.READY]

    async def test_no_thread_is_started(self, environment: Environment) -> None:
        before = set(threading.enumerate())
        store = SqliteStore(environment, ":memory:", runner=InlineRunner(SqliteDatabase(":memory:")))
        await store.open()

        await store.runs.create([new_run("r1")])
        await store.views.orphans()

        assert set(threading.enumerate()) <= before
        await store.close()

    async def test_a_path_in_memory_needs_no_runner(self, environment: Environment) -> None:
        store = SqliteStore(environment, ":memory:")
        await store.open()

        assert await store.views.find("nobody") is None
        assert not store.capabilities.is_shared
        await store.close()
