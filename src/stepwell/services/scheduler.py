"""The scheduler: starts the runs of due schedules."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.engine.records import RecordKind
from stepwell.engine.schedule_ticker import Ticker


class Scheduler:
    """Starts what is due. Every worker does so, and each tick starts one run at most."""

    name = "schedules"
    kinds = (RecordKind.SCHEDULE,)

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker

    async def run_once(self, now: Instant) -> Instant | None:
        """Start what is due."""
        await self._ticker.run_once()
        return None
