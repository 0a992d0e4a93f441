"""Lookups of runs by id or key: concurrent lookups share one read."""

from __future__ import annotations

import asyncio

from stepwell.model.runs import Run
from stepwell.stores.base.store import Store


class SharedLookup:
    """One lookup of several runs: the first caller reads all of them, and the others share its answer."""

    def __init__(self, store: Store, targets: list[str]) -> None:
        self.targets = targets
        self._store = store
        self._found: asyncio.Future[dict[str, Run | None] | None] | None = None

    async def find(self, target: str) -> Run | None:
        """One of the runs as it is now."""
        if self._found is None:
            self._found = asyncio.get_running_loop().create_future()
            found = None
            try:
                found = dict(zip(self.targets, await self._store.views.find_many(self.targets), strict=True))
            finally:
                self._found.set_result(found)
        else:
            found = await asyncio.shield(self._found)
        # The first caller may have been cancelled.
        return found[target] if found is not None and target in found else await self._store.views.find(target)


class _Round(SharedLookup):
    """The next read of a finder, for callers that asked while it was reading."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, [])
        self.begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_under_way = False
        self.members = 0


class Finder:
    """Finds runs by id or key. An idle finder reads at once; callers during a read share the next one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_reading = False
        self._gathering: _Round | None = None

    async def find(self, target: str) -> Run | None:
        """The run as it is now."""
        if self._is_reading:
            return await self._find_with_others(target)
        self._is_reading = True
        try:
            return await self._store.views.find(target)
        finally:
            self._read_next()

    async def _find_with_others(self, target: str) -> Run | None:
        mine = self._gathering = self._gathering or _Round(self._store)
        mine.targets.append(target)
        mine.members += 1
        try:
            await asyncio.shield(mine.begins)
            return await mine.find(target)
        finally:
            mine.members -= 1
            if mine.is_under_way:  # the first caller to finish
                mine.is_under_way = False
                self._read_next()

    def _read_next(self) -> None:
        following, self._gathering = self._gathering, None
        self._is_reading = following is not None and following.members > 0  # otherwise all of them were cancelled
        if following is not None and self._is_reading:
            following.is_under_way = True
            following.begins.set_result(None)
