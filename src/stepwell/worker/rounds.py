"""Rounds of a worker's loops: what the errors of the store mean for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from stepwell.clock import SECOND
from stepwell.errors import LeaseLostError, StoreError, StoreLostError, StoreSealedError
from stepwell.stores.base.faults import is_final
from stepwell.worker.resources import Resources

T = TypeVar("T")

_LOG = logging.getLogger("stepwell.worker")

PAUSE, PAUSE_MAX = 0.05, 1.0  # after a store that did not answer


class Rounds:
    """Does one round of a loop at a time. It has neither the loop nor its pause."""

    def __init__(
        self,
        resources: Resources,
        on_lease_lost: Callable[[LeaseLostError], Coroutine[Any, Any, None]],
        on_store_lost: Callable[[StoreLostError], None],
    ) -> None:
        self._resources = resources
        self._on_lease_lost = on_lease_lost
        self._on_store_lost = on_store_lost

    async def guarded(self, work: Coroutine[Any, Any, T], otherwise: T) -> T:
        """Do one round. A store that does not answer, or refuses for now, is asked again in the next round; a lost
        lease is taken anew. Raises everything else: the supervisor decides what becomes of the loop.
        """
        resources = self._resources
        lease = resources.lease
        try:
            return await work
        except LeaseLostError as error:
            if lease is resources.lease:
                await self._on_lease_lost(error)
        except StoreSealedError as error:
            # Its lease was over when the database was closed, and it comes back too late. If the database is opened
            # again, it finds its lease gone and starts over.
            _LOG.error("this worker serves nothing: %s", error.title)
            await asyncio.sleep(resources.settings.lease_span / SECOND)
        except StoreLostError as error:
            self._on_store_lost(error)
        except StoreError as error:
            resources.requests.suspect_lost_claims()
            if is_final(error):
                raise
            _LOG.warning("store did not answer: %s", error.title)
        except Exception:
            resources.requests.suspect_lost_claims()
            raise
        return otherwise

    async def once(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something once that a hint asked for. If it fails, the next sweep or renewal does without it."""
        try:
            await self.guarded(work, otherwise=None)
        except Exception:  # noqa: BLE001  one run's defect must not hurt the others
            _LOG.exception("a look at a run failed")


async def until_answered(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Ask until the store answers with something final."""
    pause = PAUSE
    while True:
        try:
            return await ask()
        except StoreError as error:
            if is_final(error):
                raise
            _LOG.warning("store did not answer: %s", error.title)
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)


async def wait_set(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, or until the time is over."""
    with suppress(TimeoutError):
        # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
        async with asyncio.timeout(None if seconds == float("inf") else seconds):
            await event.wait()
