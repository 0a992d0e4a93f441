"""Rounds of a worker's loops: how they handle errors of the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stepwell.clock import SECOND
from stepwell.errors import LeaseLostError, StoreError, StoreLostError, StoreSealedError
from stepwell.stores.base.faults import is_final
from stepwell.worker.resources import Resources

T = TypeVar("T")

_LOG = logging.getLogger("stepwell.worker")

PAUSE, PAUSE_MAX = 0.05, 1.0  # seconds, after the store did not answer


class Rounds:
    """Runs one round of a loop. The loop itself and its pause are elsewhere."""

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
        """Run one round. If the store does not answer, or fails temporarily, the next round retries; after a lost lease
        the worker registers again. Other errors are raised: the supervisor restarts the loop or ends the worker.
        """
        resources = self._resources
        lease = resources.lease
        try:
            return await work
        except LeaseLostError as error:
            if lease is resources.lease:
                await self._on_lease_lost(error)
        except StoreSealedError as error:
            # The database was closed after the lease of this worker had expired. If it is opened again, the worker
            # finds its lease lost and registers again.
            _LOG.error("this worker executes no runs: %s", error.title)
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
        """Run once what a hint requested. If it fails, the next sweep or renewal does the same."""
        try:
            await self.guarded(work, otherwise=None)
        except Exception:  # noqa: BLE001  an error of one run must not affect others
            _LOG.exception("reading a run after a hint failed")


async def until_answered(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Retry until the store answers or fails permanently."""
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
