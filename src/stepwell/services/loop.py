"""The one loop of all services of a worker: it sleeps exactly until something is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from stepwell.clock import SECOND, Instant, Span, span
from stepwell.config import WorkerSettings
from stepwell.engine.backend import Backend
from stepwell.engine.service_failures import ServiceFailures
from stepwell.environment import wait_set
from stepwell.errors import StoreError
from stepwell.services.service import Service
from stepwell.stores.base.faults import is_final

_LOG = logging.getLogger("stepwell.worker")

SWEEPS: Final = 5  # it looks once in this many sweep intervals, in case a hint was lost
REST_FIRST, REST_MAX = Span(1 * SECOND), Span(300 * SECOND)  # after a failure; doubled each time
PAUSE: Final = 5.0  # seconds, after the store did not answer
LEFT_MAX: Final = Span(60 * SECOND)  # the longest rest of a service that leaves records due


class _Seat:
    """One service, and when it runs next."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.kinds = tuple(map(str, service.kinds))
        self.wakes_at: Instant | None = Instant(0)  # that it asked for; at once in the beginning
        self.rests_until = Instant(0)
        self.failures = 0  # in a row
        self.leaves = 0  # in a row: how often it left records due

    def fail(self, now: Instant) -> None:
        """It raised: it rests, longer each time."""
        self.failures += 1
        self.wakes_at = self.rests_until = Instant(now + min(REST_FIRST << min(self.failures - 1, 20), REST_MAX))

    def leave(self, now: Instant) -> None:
        """It left records due: it rests, longer each time, so that it does not keep the process busy."""
        self.leaves += 1
        self.rests_until = Instant(now + min(REST_FIRST << min(self.leaves - 1, 20), LEFT_MAX))


class ServiceLoop:
    """Runs services when records are due, when they ask for it, and once in a while in case a hint was lost.

    A service that raises is logged, reported for `stepwell doctor`, and rests. It stops neither the others nor the
    worker.
    """

    name = "services"

    def __init__(self, backend: Backend, services: Iterable[Service], settings: WorkerSettings) -> None:
        self._backend = backend
        self._store = backend.opened
        self._seats = [_Seat(each) for each in services]
        self._failures = ServiceFailures(backend)
        self._worker = settings.name
        self._sweep = SWEEPS * span(settings.sweep_every) / SECOND
        self._wake = asyncio.Event()
        self._id = ""  # of this loop, for its reports

    def wake(self) -> None:
        """A record may be due earlier than before."""
        self._wake.set()

    async def serve(self) -> None:
        """Run services until this is cancelled."""
        while True:
            self._wake.clear()
            try:
                pause = await self.run_once()
            except StoreError as error:
                _LOG.warning("services could not look for due records: %s", error.title)
                pause = PAUSE
            except Exception:  # noqa: BLE001  the worker must go on
                _LOG.exception("services could not look for due records")
                pause = PAUSE
            await wait_set(self._wake, min(pause, self._sweep))

    async def run_once(self) -> float:
        """Run the services that have something to do; returns the seconds until the next has."""
        while True:
            now = self._store.now()
            awake = [seat for seat in self._seats if seat.rests_until <= now]
            earliest = await self._next_due(awake)
            ready = [seat for seat in awake if await self._is_ready(seat, earliest, now)]
            if not ready:
                times = [earliest, *(seat.wakes_at for seat in self._seats)]
                times += [seat.rests_until for seat in self._seats if seat.rests_until > now]
                upcoming = min((time for time in times if time is not None), default=None)
                return float("inf") if upcoming is None else max(0.0, (upcoming - now) / SECOND)
            for seat in ready:
                await self._run(seat, now)

    async def _next_due(self, seats: Sequence[_Seat]) -> Instant | None:
        kinds = sorted({kind for seat in seats for kind in seat.kinds})
        return await self._store.records.next_due(kinds) if kinds else None

    async def _is_ready(self, seat: _Seat, earliest: Instant | None, now: Instant) -> bool:
        if seat.wakes_at is not None and seat.wakes_at <= now:
            return True
        if earliest is None or earliest > now or not seat.kinds:
            return False
        due = await self._store.records.next_due(seat.kinds)
        return due is not None and due <= now

    async def _run(self, seat: _Seat, now: Instant) -> None:
        try:
            seat.wakes_at = await seat.service.run_once(now)
        except Exception as error:  # noqa: BLE001  the other services and the worker must go on
            seat.fail(now)
            rest = (seat.rests_until - now) / SECOND
            if isinstance(error, StoreError) and not is_final(error):
                _LOG.warning("service %s: %s; it runs again in %.0f s", seat.service.name, error.title, rest)
                return  # a report could not be stored either
            _LOG.exception("service %s failed; it runs again in %.0f s", seat.service.name, rest)
            await self._report(seat, error)
            return
        if seat.failures:
            seat.failures = 0
            await self._report(seat, None)
        if seat.wakes_at is None or seat.wakes_at > now:
            due = await self._store.records.next_due(seat.kinds) if seat.kinds else None
            if due is not None and due <= now:
                return seat.leave(now)
        seat.leaves = 0

    async def _report(self, seat: _Seat, error: Exception | None) -> None:
        """Record for doctor that a service fails here, or that it works again."""
        self._id = self._id or self._backend.environment.ids.uuid()
        try:
            if error is None:
                await self._failures.clear(seat.service.name, self._id)
            else:
                await self._failures.note(seat.service.name, self._id, self._worker, error, seat.failures)
        except StoreError as problem:
            _LOG.warning("service %s: its state could not be reported: %s", seat.service.name, problem.title)
