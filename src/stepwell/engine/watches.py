"""Watches: clients follow the changes of a run, and all watches of a process share their reads."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator

from stepwell.engine.changes import ChangeFlag, Changes
from stepwell.engine.lookups import Finder
from stepwell.errors import StoreError
from stepwell.model.runs import Run
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.store import Store

LOOKS_PER_SECOND = 100  # of all watchers of a process; each may read a whole history
PAUSE_MIN, PAUSE_MAX = 0.02, 2.0  # seconds between two reads of one watcher
_TICKS = 10  # in a pause


class PollRate:
    """How often watched runs are read, so that all watches together read at a bounded rate."""

    def __init__(self) -> None:
        self.watchers = 0

    def pause(self) -> float:
        """How long a watcher waits after it has reported a change, in seconds."""
        return min(PAUSE_MAX, max(PAUSE_MIN, self.watchers / LOOKS_PER_SECOND))

    def rest(self, now: float) -> float:
        """A pause, extended to a moment at which other watchers read too, because one read serves them all."""
        pause = self.pause()
        tick = max(PAUSE_MIN, pause / _TICKS)
        return math.ceil((now + pause) / tick) * tick - now


POLL_RATE = PollRate()  # one for the process: its engines share its time


class Watches:
    """The watches of runs of one store."""

    def __init__(self, store: Store, finder: Finder) -> None:
        self._finder = finder
        self._changes = Changes(store)

    async def watch(self, run: Run) -> AsyncGenerator[Run | None, None]:
        """This run, then the run after each change, and None for each second without a change. Ends with the run."""
        changed, loop = ChangeFlag(), asyncio.get_running_loop()
        POLL_RATE.watchers += 1
        self._changes.listen(run.run_id, changed)
        try:
            yield run
            while run.ended_at is None:
                # Changes in the meantime are reported as one: reading after every step would slow the worker down.
                await asyncio.sleep(POLL_RATE.rest(loop.time()))
                await changed.heard()
                changed.clear()
                latest = await self._look(run)
                yield None if latest == run else latest
                run = latest
        finally:
            POLL_RATE.watchers -= 1
            self._changes.unlisten(run.run_id, changed)

    async def _look(self, known: Run) -> Run:
        try:
            return await self._finder.find(known.run_id) or known
        except StoreError as error:
            if is_final(error):
                raise
            return known
