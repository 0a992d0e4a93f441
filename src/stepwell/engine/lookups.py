"""Finding runs by id or key: those that are looked for at the same time are read together."""

from __future__ import annotations

import asyncio

from stepwell.model.runs import Run
from stepwell.stores.base.store import Store


class SharedLookup:
    """Runs that are looked for at one time: whoever comes first looks for all of them."""

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
        # Whoever came first may have given up.
        return found[target] if found is not None and target in found else await self._store.views.find(target)


class _Round(SharedLookup):
    """One read of a finder, for those who asked while it read for others."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, [])
        self.begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_under_way = False
        self.members = 0


class Finder:
    """Finds runs by id or key. Nobody waits while it is idle; those asked for during one read share the next."""

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
            if mine.is_under_way:  # whoever is done first
                mine.is_under_way = False
                self._read_next()

    def _read_next(self) -> None:
        following, self._gathering = self._gathering, None
        self._is_reading = following is not None and following.members > 0  # else all of them have given up
        if following is not None and self._is_reading:
            following.is_under_way = True
            following.begins.set_result(None)
