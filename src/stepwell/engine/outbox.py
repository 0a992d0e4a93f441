"""The outbox as people see it: what is owed to sinks, and what could not be sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stepwell.clock import to_datetime
from stepwell.codec.envelopes import read_plainly
from stepwell.engine.backend import Backend
from stepwell.ids import EventId
from stepwell.model.outbox import Owed


@dataclass(frozen=True, slots=True)
class OwedEvent:
    """One event that one sink has not had yet. `died_at` makes it a dead letter: nobody tries it any more."""

    number: int
    event_id: str
    sink: str
    name: str
    run_id: str
    workflow: str
    key: str | None
    path: str
    payload: Any  # as far as it can be shown without the codec
    at: datetime
    attempts: int  # that failed
    failure: str  # of the last one
    next_at: datetime | None  # None while it is being sent, while the run owes the sink an earlier one, or dead
    died_at: datetime | None


class Outbox:
    """`engine.outbox`: what is owed to sinks, and what could not be sent."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def list_pending(self, *, limit: int = 100, after: int = 0) -> list[OwedEvent]:
        """What is owed to sinks, oldest first; those with numbers above `after`."""
        return await self._list(is_dead=False, limit=limit, after=after)

    async def list_dead(self, *, limit: int = 100, after: int = 0) -> list[OwedEvent]:
        """Dead letters: what a sink refused too often, oldest first; those with numbers above `after`."""
        return await self._list(is_dead=True, limit=limit, after=after)

    async def replay(self, event_id: str, sink: str | None = None, *, by: str = "") -> int:
        """Try a dead letter again, with a fresh budget of attempts; how many there were (one for each sink).

        It goes behind what its run owes the sink by now: the sink gets it after events that were emitted later.
        """
        return await self._backend.retrying(lambda store: store.outbox.replay(EventId(event_id), sink, by=by))

    async def drop(self, event_id: str, sink: str | None = None, *, by: str = "") -> int:
        """Forget what is owed of an event, dead or not, to one sink or to all; how many there were.

        What is being sent at this moment is left alone.
        """
        return await self._backend.retrying(lambda store: store.outbox.drop(EventId(event_id), sink, by=by))

    async def _list(self, *, is_dead: bool, limit: int, after: int) -> list[OwedEvent]:
        found = await self._backend.retrying(
            lambda store: store.outbox.list_owed(is_dead=is_dead, limit=limit, after=after)
        )
        return [_view(owed) for owed in found]


def _view(owed: Owed) -> OwedEvent:
    return OwedEvent(
        number=owed.number,
        event_id=owed.event_id,
        sink=owed.sink,
        name=owed.name,
        run_id=owed.run_id,
        workflow=owed.workflow,
        key=owed.key,
        path=owed.path,
        payload=read_plainly(owed.payload),
        at=to_datetime(owed.at),
        attempts=owed.attempts,
        failure=owed.failure,
        next_at=None if owed.next_at is None else to_datetime(owed.next_at),
        died_at=None if owed.died_at is None else to_datetime(owed.died_at),
    )
