"""The pruner: deletes ended runs that are past their time, in short steps that give way to work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stepwell.clock import SECOND, Instant, Span
from stepwell.engine.records import RecordKind
from stepwell.engine.retention import BATCH, PrunePass, Retentions

# While runs execute here, it pauses for this many times as long as its last step took, but no longer than this: the
# step may have waited for the work itself.
_YIELD: Final = 9
_PAUSE_MAX: Final = 0.15
_BATCH_BUSY: Final = 50  # runs that one transaction deletes then
_NOTE_EVERY: Final = Span(60 * SECOND)


class Pruner:
    """Makes a round once an hour. Of all workers with the same policy, one makes it; if it dies, another goes on."""

    name = "retention"
    kinds: tuple[RecordKind, ...] = ()  # it knows when it runs next

    def __init__(self, retentions: Retentions, is_busy: Callable[[], bool]) -> None:
        self._retentions = retentions
        self._is_busy = is_busy
        self._me = ""
        self._pass: PrunePass | None = None
        self._noted_at = Instant(0)

    async def run_once(self, now: Instant) -> Instant | None:
        """Begin a round if it is time, or do one step of it."""
        self._me = self._me or self._retentions.new_name()
        if self._pass is None:
            next_at = await self._retentions.begin_round(self._me)
            if next_at is not None:
                return next_at
            self._pass, self._noted_at = self._retentions.begin(), now
        is_busy = self._is_busy()
        self._pass.batch_max = _BATCH_BUSY if is_busy else BATCH
        began = self._retentions.monotonic()
        await self._pass.step()
        took = self._retentions.monotonic() - began
        if self._pass.is_over or now - self._noted_at > _NOTE_EVERY:
            self._noted_at = now
            report, is_over = self._pass.report(), self._pass.is_over
            if is_over or not await self._retentions.note_round(self._me, report, is_over=False):
                self._pass = None
            if is_over:
                await self._retentions.note_round(self._me, report, is_over=True)
        pause = min(took * _YIELD, _PAUSE_MAX) if is_busy else 0.0
        return Instant(now + round((took + pause) * SECOND))
