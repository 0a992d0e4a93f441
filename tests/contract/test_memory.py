"""The memory store passes the public store suite."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from stepwell.conformance.clock import ManualClock
from stepwell.conformance.suite import StoreSuite
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from stepwell.stores.base.store import Store
from stepwell.stores.memory.store import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def store(clock: ManualClock) -> AsyncIterator[Store]:
    store = MemoryStore(Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor()))
    await store.open()
    yield store
    await store.close()


@pytest_asyncio.fixture
async def other(clock: ManualClock, store: MemoryStore) -> AsyncIterator[Store]:
    other = MemoryStore(Environment(clock, SystemIds(clock), random.Random(2), SystemExecutor()), store.database)
    await other.open()
    yield other
    await other.close()


class TestMemoryStore(StoreSuite): ...
