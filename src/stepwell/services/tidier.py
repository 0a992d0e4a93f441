"""The tidier: drops what no release uses any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from stepwell.clock import DAY, SECOND, Instant, Span
from stepwell.engine.records import RecordKind

FIRST: Final = Span(600 * SECOND)  # after the start: a deploy is over then
EVERY: Final = Span(DAY)


class Tidier:
    """Cleans the database once a day, as far as the role of this worker may. Every worker does: it disturbs nobody."""

    name = "upkeep"
    kinds: tuple[RecordKind, ...] = ()  # it knows when it runs next

    def __init__(self, tidy: Callable[[], Awaitable[object]]) -> None:
        self._tidy = tidy
        self._next_at: Instant | None = None

    async def run_once(self, now: Instant) -> Instant | None:
        """Clean, if it is time."""
        if self._next_at is None:
            self._next_at = Instant(now + FIRST)
        elif self._next_at <= now:
            await self._tidy()
            self._next_at = Instant(now + EVERY)
        return self._next_at
