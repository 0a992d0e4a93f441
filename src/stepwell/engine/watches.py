"""Watches: clients follow the changes of a run, and all watches of a process share their reads."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable

from stepwell.advice import Advice, Verb
from stepwell.clock import SECOND, Duration, span, to_timedelta
from stepwell.engine.changes import ChangeFlag, Changes
from stepwell.engine.lookups import Finder
from stepwell.errors import ResultTimeout, StoreError
from stepwell.model.live import Published
from stepwell.model.runs import Run
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.store import Store

Look = Callable[[str], Awaitable[tuple[Run, Published | None]]]

LOOKS_PER_SECOND = 100  # of all watchers of a process; each may read a whole history
PAUSE_MIN, PAUSE_MAX = 0.02, 2.0  # seconds between two reads of one watcher
LOOK_MIN = 0.05  # seconds between the first two looks for what a run publishes; each further pause is twice as long
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

    async def published(self, look: Look, name: str, wait: Duration) -> tuple[Run, Published | None]:
        """What a run publishes under a name, as soon as `look` finds it; None once the run has ended without.

        Raises `ResultTimeout` if there is nothing after `wait`.
        """
        loop, limit, pause = asyncio.get_running_loop(), span(wait, what="wait"), LOOK_MIN
        until = loop.time() + limit / SECOND
        while True:
            run, found = await look(name)
            if found is not None or run.ended_at is not None:
                return run, found
            if loop.time() >= until:
                what = f"state {name!r}" if name else "state"
                raise ResultTimeout(
                    f"run {run.run_id} has published no {what} within {to_timedelta(limit)}",
                    where=run.run_id,
                    why=f"it is {run.status.value}; it may still publish it later",
                    fix=Advice(Verb.WHY, run.run_id),
                )
            await self._pause(run, min(pause, max(0.0, until - loop.time())))
            pause = min(2 * pause, PAUSE_MAX)

    async def _pause(self, run: Run, seconds: float) -> None:
        """Wait for a change of a run, at most this long: what it publishes causes no hint of its own."""
        changed = ChangeFlag()
        self._changes.listen(run.run_id, changed)
        try:
            async with asyncio.timeout(seconds):
                await changed.heard()
        except TimeoutError:
            pass
        finally:
            self._changes.unlisten(run.run_id, changed)

    async def _look(self, known: Run) -> Run:
        try:
            return await self._finder.find(known.run_id) or known
        except StoreError as error:
            if is_final(error):
                raise
            return known
