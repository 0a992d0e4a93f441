"""Chooses the next operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.differential import (
    amendments,
    blobs,
    commits,
    events,
    holds,
    ledger,
    outbox,
    overviews,
    records,
    retention,
    runs,
    signals,
    transactions,
    transfers,
    views,
    workers,
)
from tests.differential.world import WORKERS, Operation, World

Make = Callable[[World], Operation | None]

# How often each is drawn. If an operation has nothing to do, another one is drawn.
_WEIGHTS: tuple[tuple[int, Make], ...] = (
    (60, commits.apply),
    (20, runs.claim),
    (12, runs.create),
    (4, runs.debounce),
    (3, runs.load),
    (6, runs.inbox),
    (4, runs.cancel),
    (4, runs.pause),
    (8, runs.resume),
    (5, runs.resume_rollback),
    (12, runs.retry),
    (9, amendments.amend),
    (4, amendments.fork),
    (2, runs.rescue),
    (1, runs.relinquish),
    (12, signals.deliver),
    (4, signals.deliver_or_create),
    (6, signals.redeliver),
    (14, events.publish),
    (11, outbox.take),
    (10, outbox.settle),
    (1, outbox.next_due),
    (3, outbox.list_owed),
    (9, outbox.replay),
    (2, outbox.drop),
    (1, holds.pause),
    (6, holds.resume),
    (3, holds.list_holds),  # a pause does not last long here
    (1, holds.list_acts),
    (4, ledger.reserve),
    (2, ledger.settle),
    (2, ledger.note),
    (1, ledger.list_acts),
    (1, ledger.head),
    (11, records.change),
    (1, records.prune),
    (1, records.due),
    (1, records.next_due),
    (1, records.find),
    (4, records.list_records),
    (1, records.count),
    (1, records.list_events),
    (1, retention.list_ended),
    (1, retention.list_relatives),
    (5, retention.prune),
    (2, retention.sweep),
    (1, retention.has_old_blobs),
    (1, retention.sweep_blobs),
    (2, workers.register),
    (12, workers.renew),
    (1, workers.retire),
    (2, blobs.put),
    (2, blobs.get),
    (6, transactions.perform),
    (2, transactions.run),
    (25, transactions.enqueue),
    (3, transfers.restore),
    *(
        (1, read)
        for read in (
            views.find,
            views.find_many,
            views.find_by_prefix,
            views.detail,
            views.list_streams,
            views.read_stream,
            views.list_progress,
            views.list_runs,
            views.count_runs,
            views.list_workers,
            views.list_held,
            views.list_unread,
            views.find_question,
            views.list_events,
            views.list_audit,
            views.list_attribute_kinds,
            views.list_definitions,
            views.tally_runs,
            views.count_unfinished,
            views.next_wake,
            views.has_stranded,
            views.has_stranded,
            views.upcoming_work,
            views.orphans,
            overviews.list_summaries,
            overviews.count_created,
            overviews.list_standings,
            overviews.list_movement,
            overviews.list_topics,
            overviews.list_past_events,
            overviews.tally_owed,
            overviews.tally_waits,
            overviews.find_undelivered,
            overviews.read_outline,
            overviews.list_entries,
            overviews.find_entries,
        )
    ),
)
_MAKES: Sequence[Make] = [make for _, make in _WEIGHTS]
_SHARES: Sequence[int] = [weight for weight, _ in _WEIGHTS]

_PAUSES = ("0s",) * 8 + ("1us",) * 4 + ("100ms",) * 6 + ("1s",) * 6 + ("6s",)
_LONG_PAUSES = ("45s", "8d")  # longer than a lease, and longer than an event's id is known


class Mix:
    """Draws operations for one world. Some are repeated, as if the first answer had been lost."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last: Operation | None = None

    def draw(self) -> Operation:
        """The next operation, after a while."""
        world = self._world
        if world.operations < len(WORKERS):
            return workers.register(world, WORKERS[world.operations])
        long = world.likely(0.005)
        world.clock.advance(world.chance.choice(_LONG_PAUSES if long else _PAUSES))
        if self._last is not None and world.likely(0.06):
            world.clock.advance("1us")  # as `transactions.enqueue` does: the clock is above what it wrote
            return self._last
        if any(one.lease_until <= world.now for one in world.state["workers"]) and world.likely(0.1):
            return runs.rescue(world)
        missing = [worker for worker in WORKERS if all(one.incarnation != worker for one in world.state["workers"])]
        if missing and world.likely(0.3):
            return workers.register(world, missing[0])
        while True:
            [make] = world.chance.choices(_MAKES, _SHARES)
            operation = make(world)
            if operation is not None:
                self._last = operation
                return operation
