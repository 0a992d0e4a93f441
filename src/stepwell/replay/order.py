"""The order of a replay: recorded results reach the code as they did the first time."""

from __future__ import annotations

import asyncio
import heapq

from stepwell.model.entries import Entry
from stepwell.model.runs import Ranges
from stepwell.replay.event_loop import TurnLoop
from stepwell.replay.journal import Journal
from stepwell.replay.suspend import Suspend


class ReplayOrder:
    """Hands recorded results to the code one at a time, in the order of their numbers."""

    __slots__ = ("_journal", "_loop", "_loose", "_tokens", "held", "is_closed", "is_passing", "is_rehearsal", "queue")

    def __init__(self, loop: TurnLoop, journal: Journal, loose: Ranges) -> None:
        self._loop = loop
        self._journal = journal
        self._loose = loose  # ranges that the code may leave out after a repair
        self._tokens = 0
        self.queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self.held: list[asyncio.Future[None]] = []  # in a rehearsal: operations that are about to record something new
        self.is_closed = False  # the code is being torn down, and records nothing any more
        self.is_rehearsal = False
        self.is_passing = journal.unvisited > 0 or bool(journal.awaited)  # not live yet

    async def reach(self, entry: Entry) -> None:
        """Wait until all recorded results before this one have reached the code."""
        queue = self.queue
        # Nothing else is ready and nothing earlier is queued: this result would be the next one anyway.
        if self._loop.ready or (queue and queue[0][0] <= entry.seq):
            future: asyncio.Future[None] = self._loop.own_future()
            heapq.heappush(queue, (entry.seq, 0, future))
            await future
        self.pass_result(entry)

    def expect(self, entry: Entry) -> asyncio.Future[None]:
        """For callbacks: a future that ends when it is this result's turn. Then call `pass_result`."""
        future: asyncio.Future[None] = self._loop.own_future()
        heapq.heappush(self.queue, (entry.seq, 0, future))
        return future

    def pass_result(self, entry: Entry) -> None:
        """A recorded result reaches the code."""
        journal = self._journal
        if entry.seq > journal.position:
            journal.position = entry.seq
            if journal.replies:
                journal.pass_replies(entry.seq)

    async def reach_end(self) -> None:
        """Wait until every recorded result has reached the code and nothing else in it is ready.

        A result that is recorded after this comes after all of them in a replay, too. Code that is being torn down gets
        `Suspend`, even if it caught an earlier one, as `gather(..., return_exceptions=True)` does.
        """
        if self.is_closed:
            raise Suspend
        journal = self._journal
        if self.queue or journal.unvisited > 0 or self._loop.ready:
            future: asyncio.Future[None] = self._loop.own_future()
            self._tokens += 1
            heapq.heappush(self.queue, (journal.last_seq + 1, self._tokens, future))
            await future
        if self.is_rehearsal and not any(journal.unpassed(self._loose)):
            self.held.append(self._loop.own_future())
            await self.held[-1]

    def hand_over(self) -> bool:
        """Let the next recorded result reach the code; whether there was one."""
        while self.queue:
            _, _, future = heapq.heappop(self.queue)
            if not future.done():
                future.set_result(None)
                return True
        return False

    @property
    def futures(self) -> list[asyncio.Future[None]]:
        """The futures that the code awaits here."""
        return [*(future for _, _, future in self.queue), *self.held]
