"""Delivering emitted events to sinks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from stepwell.clock import Instant
from stepwell.ids import EventId, Incarnation
from stepwell.model.outbox import Owed, Settled

Batch = tuple[Owed, ...]  # events of one run for one sink, in the order in which they were emitted


class OutboxStore(Protocol):
    """Transitions of events that are owed to sinks. Commits create the rows (`Commit.emits`), one for each sink."""

    async def take(
        self, incarnation: Incarnation, sink: str, *, limit: int, batch_max: int, keep: Collection[int] = ()
    ) -> list[Batch]:
        """Hand out what a sink is owed: up to `limit` batches, each with the first `batch_max` events of one run,
        longest due first.

        One worker at a time has the events of a run for a sink, until it settles them or its lease expires. Batches
        that the incarnation has already are handed out again, before any other, unless `keep` names the batch by its
        first number; this repeats an answer that was lost. Raises `LeaseLostError` unless the lease is live.
        """
        ...

    async def settle(self, incarnation: Incarnation, settled: Sequence[Settled]) -> list[bool]:
        """Record the results of batches. Returns for each whether the incarnation still had it; if not, nothing is
        changed.

        Sent events are deleted. An event that could not be sent has one more attempt, and is due again in `retry_in` or
        becomes a dead letter. When an event is gone, the run's next event for the sink is due now. A batch that is
        settled with neither result is returned unchanged.
        """
        ...

    async def next_due(self, sink: str) -> Instant | None:
        """The earliest time at which the sink is owed an event that no worker has. One index look-up, no write."""
        ...

    async def list_owed(self, *, is_dead: bool, limit: int, after: int = 0) -> list[Owed]:
        """Dead letters, or all other events that are owed, by number, above `after`."""
        ...

    async def replay(self, event_id: EventId, sink: str | None = None, *, by: str, payload: bytes | None = None) -> int:
        """Owe the dead letters of this event again (for one sink, or for all), after what their run owes already, with
        attempts reset to 0, and with another payload if one is given. Returns how many; audit row.
        """
        ...

    async def drop(self, event_id: EventId, sink: str | None = None, *, by: str, reason: str = "") -> int:
        """Delete what is owed of an event (to one sink, or to all), dead letter or not, unless a worker has it. Returns
        how many; audit row.
        """
        ...
