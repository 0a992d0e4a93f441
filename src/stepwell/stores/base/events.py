"""Publishing events on topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.model.events import NewEvent, Published
from stepwell.model.runs import Claimed
from stepwell.model.workers import Claimant


class EventStore(Protocol):
    """Transitions of events. `RunStore.apply` describes what a commit does to waits for events."""

    async def publish(
        self, events: Sequence[NewEvent], claimant: Claimant | None = None
    ) -> tuple[list[Published], list[Claimed]]:
        """Publish events, in order, in one transaction: put each into the inboxes of runs that wait for it, and wake
        these runs.

        A known `event_id` answers DUPLICATE with the first answer, and nothing is done; ids are known for at least
        `RETENTION`. Otherwise an event whose `seen` differs from the open records of that kind and label, as they are
        in this transaction, answers STALE, and nothing is done.
        An event goes to the *open* topic waits that it answers (`is_answered`) and that are stored for a run that has
        not ended and is not cancelling. A wait is open from the commit that stores it until it gets an event.
        "all": every open wait gets it; each run's inbox has it once, with the locations of all its waits. "one": only
        the wait that has been open longest gets it; runs that are not paused come first.
        A topic keeps an event with `retain` for that time, "one" events only if no wait got them. If the event must be
        kept and the topic already keeps `room` events, the answer is FULL and nothing is done; `starts` are not created
        either.
        `starts` are created as `RunStore.create` does, with the event.
        A run that waits without an owner and gets an event gets `wake_at` = now, and is claimed for the claimant at
        once if possible. For other runs the event is only stored.
        """
        ...
