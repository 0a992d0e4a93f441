"""The keeper of triggers: renews those that this worker declares, and lapses those that no worker declares any more."""

from __future__ import annotations

from typing import Final

from stepwell.clock import Instant, span
from stepwell.engine.declarations import Declarations
from stepwell.engine.records import RecordKind

GRACE: Final = span("15m")


class TriggerKeeper:
    """Renews the declarations of this worker, and makes triggers `undeclared` that no worker renews."""

    name = "triggers"
    kinds = (RecordKind.TRIGGER,)

    def __init__(self, declarations: Declarations, *, since: Instant) -> None:
        self._declarations = declarations
        # After a time without any worker, every trigger has lapsed. The workers that declare them may start last.
        self._judges_at = Instant(since + GRACE)

    async def run_once(self, now: Instant) -> Instant | None:
        """Renew, then lapse."""
        renews_at = await self._declarations.renew()
        if now >= self._judges_at:
            for lapsed in await self._declarations.list_lapsed():
                await self._declarations.expire(lapsed)
        return renews_at
