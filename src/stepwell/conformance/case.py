"""What a store author provides, and the base of every suite.

Three fixtures, in the module or a conftest:

* `clock`: a `ManualClock`;
* `store`: an opened store that reads this clock;
* `other`: a second handle on the same data, like that of another process, with the same clock.

A fourth, `destination`, is defined here: another database, in memory, for transfers out of the store and into it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from stepwell.conformance.scene import Scene
from stepwell.environment import system_environment
from stepwell.stores.base.store import Store
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock


class StoreCase:
    """The base of every suite: one registered worker, and no test may leave an orphan."""

    @pytest_asyncio.fixture
    async def scene(self, store: Store, clock: ManualClock) -> Scene:
        """The store with a live worker `w1`."""
        scene = Scene(store, clock)
        await scene.register()
        return scene

    @pytest.fixture
    def elsewhere(self, other: Store, clock: ManualClock) -> Scene:
        """The same database in another process, whose worker `w2` is not registered yet."""
        return Scene(other, clock, "w2")

    @pytest_asyncio.fixture
    async def destination(self, clock: ManualClock) -> AsyncIterator[Store]:
        """Another database, empty, with the same clock. It is in memory unless a store author overrides it."""
        destination = SqliteStore(replace(system_environment(), clock=clock), ":memory:")
        await destination.open()
        yield destination
        await destination.close()

    @pytest_asyncio.fixture(autouse=True)
    async def no_orphan_is_left(self, store: Store) -> AsyncIterator[None]:
        """Every active run has a durable cause of progress, whatever a test did."""
        yield
        assert await store.views.orphans() == []
