"""The keeper of reports: forgets that a service failed on a worker that is gone."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.engine.records import RecordKind
from stepwell.engine.service_failures import ServiceFailures


class FailureKeeper:
    """Closes reports that no worker has repeated for a day."""

    name = "service failures"
    kinds = (RecordKind.SERVICE,)

    def __init__(self, failures: ServiceFailures) -> None:
        self._failures = failures

    async def run_once(self, now: Instant) -> Instant | None:
        """Close what is old."""
        await self._failures.forget_old()
        return None
