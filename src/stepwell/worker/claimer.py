"""The claimer: claims due runs up to the worker's capacity, and releases unknown claims."""

from __future__ import annotations

import asyncio

from stepwell.clock import SECOND, Instant, Span
from stepwell.environment import wait_set
from stepwell.model.workers import Claimant
from stepwell.worker.executions import Executions
from stepwell.worker.resources import Resources
from stepwell.worker.rounds import PAUSE, PAUSE_MAX, Rounds

CLAIM_MAX = 200  # per claim: a batch small enough to be written quickly
_AT_ONCE, _NEVER = Instant(0), Instant(1 << 62)


class Claimer:
    """Looks for due runs when it is woken, and when the next one is due."""

    def __init__(self, resources: Resources, executions: Executions, rounds: Rounds) -> None:
        self._resources = resources
        self._executions = executions
        self._rounds = rounds
        self._is_settling = False  # the store is releasing unknown claims
        self._has_surplus = False  # at the last renewal the store counted more runs than are known here
        self.looks_at = _AT_ONCE  # when it looks for due runs next, unless it is woken

    def offer(self) -> Claimant | None:
        """A claim that a start, signal or commit may make for this worker in its own transaction."""
        resources, executions = self._resources, self._executions
        free = executions.room
        is_unsure = resources.requests.in_doubt or self._is_settling
        if executions.is_draining or is_unsure or free <= 0 or not resources.lease.is_live():
            return None
        return Claimant(resources.lease.incarnation, free, resources.registry.definitions)

    async def serve(self) -> None:
        """Claim until the worker drains."""
        try:
            await self._claim()
        finally:
            self._resources.committer.resume()
        if self._executions.is_draining:
            await asyncio.Event().wait()  # until it is cancelled: the supervisor would restart a loop that returns

    async def _claim(self) -> None:
        refused = PAUSE
        while not self._executions.is_draining:
            self._resources.wake.clear()
            self.looks_at = _AT_ONCE
            pause = await self._rounds.guarded(self.claim_once(), otherwise=None)
            if pause is None:
                # The store did not answer: back off, even if a hint arrives.
                await asyncio.sleep(refused)
                refused = min(refused * 2, PAUSE_MAX)
                continue
            refused = PAUSE
            if pause > 0:
                await self._wait(pause)

    async def _wait(self, seconds: float) -> None:
        await wait_set(self._resources.wake, seconds)

    async def claim_once(self) -> float | None:
        """Claim due runs; returns the seconds until the next run is due."""
        requests, committer = self._resources.requests, self._resources.committer
        store, settings, executions = self._resources.store, self._resources.settings, self._executions
        if requests.in_doubt:
            if requests.count or committer.is_asking:
                # Requests in flight may bring claims, which would be released although this worker uses them. Commits
                # in flight may end claims that this worker would still list. Runs that commit all the time must not
                # delay this, so the committer is held.
                committer.hold()
                return PAUSE
            await self._relinquish()
        offer = self.offer()
        executions.room_wanted = int(offer is None)
        if offer is None:
            return PAUSE
        due = await store.views.next_wake(offer.definitions)
        if due is None:
            self.looks_at = _NEVER
            return float("inf")
        ahead = settings.ahead_span
        if offer.limit < settings.room_ahead:
            ahead, executions.room_wanted = Span(0), settings.room_ahead
        wait = due - store.now()
        if wait > ahead:
            self.looks_at = Instant(due - ahead)
            return (wait - ahead) / SECOND
        limit = min(offer.limit, CLAIM_MAX)
        if wait > 0:  # keep some capacity for runs that become due before
            limit = min(limit, offer.limit - settings.room_ahead // 2)
        claimed = await store.runs.claim(offer._replace(limit=limit, ahead=ahead))
        executions.adopt(claimed)
        if claimed or wait <= 0:
            return 0.0
        self.looks_at = due  # a run that has not begun is not claimed ahead of time
        return wait / SECOND

    async def _relinquish(self) -> None:
        """Let the store release all claims of this worker that it does not know."""
        requests = self._resources.requests
        requests.in_doubt, self._is_settling = False, True
        try:
            await self._resources.store.runs.relinquish(self._resources.lease.incarnation, self._executions.known)
        except BaseException:
            requests.in_doubt = True
            raise
        finally:
            self._is_settling = False
            self._resources.committer.resume()

    def compare_owned(self, owned: int) -> None:
        """Compare the number of runs that the store counts with the known ones. Claims in flight are in only one of the
        two numbers, so only a surplus at two renewals in a row means lost claims.
        """
        had_surplus = self._has_surplus
        self._has_surplus = owned > len(self._executions.known)
        if had_surplus and self._has_surplus:
            self._resources.requests.suspect_lost_claims()
