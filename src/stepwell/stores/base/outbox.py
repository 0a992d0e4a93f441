"""Handing emitted events over to sinks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from stepwell.clock import Instant
from stepwell.ids import EventId, Incarnation
from stepwell.model.outbox import Owed, Settled

Batch = tuple[Owed, ...]  # events of one run for one sink, in the order in which they were emitted


class OutboxStore(Protocol):
    """Transitions of events that are owed to sinks. Rows come from commits (`Commit.emits`), one for each sink."""

    async def take(
        self, incarnation: Incarnation, sink: str, *, limit: int, batch_max: int, keep: Collection[int] = ()
    ) -> list[Batch]:
        """Hand out what a sink is owed: up to `limit` batches, each the first `batch_max` events of one run, those due
        longest first.

        The events of a run for a sink are with one worker at a time, until it settles them or its lease is over. What
        the incarnation has already is handed out again, before anything else, unless `keep` names the batch by its
        first number: an answer that was lost is asked for again. Raises `LeaseLostError` unless the lease is live.
        """
        ...

    async def settle(self, incarnation: Incarnation, settled: Sequence[Settled]) -> list[bool]:
        """Note what became of batches; whether each was still the incarnation's. If not, nothing is changed.

        Events that were sent are deleted. One that was not has an attempt more, and is due again `retry_in` from now
        or becomes a dead letter. The run's next event for the sink, if the one before it is gone, is due now. A batch
        settled with neither is given back as it was.
        """
        ...

    async def next_due(self, sink: str) -> Instant | None:
        """When the sink is owed something that nobody has, at the earliest. One index look-up; writes nothing."""
        ...

    async def list_owed(self, *, is_dead: bool, limit: int, after: int = 0) -> list[Owed]:
        """Dead letters, or everything else that is owed, by number, those above `after`."""
        ...

    async def replay(self, event_id: EventId, sink: str | None = None, *, by: str) -> int:
        """Dead letters with this id (of one sink, or of all) are owed again, behind what their run owes already, with
        no attempt counted. How many; audit row."""
        ...

    async def drop(self, event_id: EventId, sink: str | None = None, *, by: str) -> int:
        """Delete what is owed of an event (to one sink, or to all), dead or not, unless a worker has it. How many;
        audit row."""
        ...
