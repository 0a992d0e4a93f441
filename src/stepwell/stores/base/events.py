"""Publishing events on topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.model.events import NewEvent, Published
from stepwell.model.runs import Claimed
from stepwell.model.workers import Claimant


class EventStore(Protocol):
    """Transitions of events. What a commit does to waits for events is part of `RunStore.apply`."""

    async def publish(
        self, events: Sequence[NewEvent], claimant: Claimant | None = None
    ) -> tuple[list[Published], list[Claimed]]:
        """Publish events, in order, in one transaction: put each into the inboxes of runs that wait for it, and wake
        them.

        A known `event_id` answers DUPLICATE with what was answered first, and nothing is done; ids are known for
        `RETENTION` at least.
        An event is for the *open* topic waits that `is_answered`: those in the stored waits of a run that is neither
        ended nor cancelling. A wait is open from the commit that stores it until it is given an event.
        "all": every open wait is given it, in each run's inbox once with all the waits' locations. "one": only the wait
        that has been open longest is given it, of a run that is not paused if there is one.
        An event with `retain` is kept by its topic for so long, "one" only if no wait was given it. If it has to be
        kept and the topic keeps `room` events already it answers FULL, and nothing is done, also none of `starts`.
        `starts` are created as `RunStore.create` does, with the event.
        A parked run that gets an event gets `wake_at` = now, and is claimed for the claimant at once if that is given
        and possible; others only get it stored.
        """
        ...
