"""The SQLite store passes the public store suite."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from stepwell.conformance.suite import StoreSuite
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from stepwell.stores.base.store import Store
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def _open(clock: ManualClock, path: Path) -> SqliteStore:
    store = SqliteStore(Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor()), path / "runs.db")
    await store.open()
    return store


@pytest_asyncio.fixture
async def store(clock: ManualClock, tmp_path: Path) -> AsyncIterator[Store]:
    store = await _open(clock, tmp_path)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def other(clock: ManualClock, store: SqliteStore, tmp_path: Path) -> AsyncIterator[Store]:
    other = await _open(clock, tmp_path)
    yield other
    await other.close()


class TestSqliteStore(StoreSuite): ...
