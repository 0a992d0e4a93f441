"""Stores on a file of their own, with a manual clock."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock

OpenStore = Callable[..., Awaitable[SqliteStore]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def environment(clock: ManualClock) -> Environment:
    return Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest_asyncio.fixture
async def open_store(environment: Environment, file: Path) -> AsyncIterator[OpenStore]:
    """Opens stores, on the same file by default, and closes all of them at the end."""
    opened: list[SqliteStore] = []

    async def open_one(path: Path | None = None, **options: object) -> SqliteStore:
        store = SqliteStore(environment, path or file, **options)  # type: ignore[arg-type]
        await store.open()
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        await store.close()
