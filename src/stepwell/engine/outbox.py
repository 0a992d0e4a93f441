"""The outbox: events that sinks have not received yet, and dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from stepwell.clock import to_datetime
from stepwell.codec.envelopes import read_plainly
from stepwell.engine.backend import Backend
from stepwell.ids import EventId
from stepwell.model.outbox import Owed

_COUNTED_MAX: Final = 20_000  # events


@dataclass(frozen=True, slots=True)
class OwedEvent:
    """One event that one sink has not received yet. With `died_at` it is a dead letter, which is no longer retried."""

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
    next_at: datetime | None  # None while it or an earlier event of its run is being sent, or if it is dead
    died_at: datetime | None


@dataclass(frozen=True, slots=True)
class SinkView:
    """What one sink is owed. A sink that is owed nothing is not listed."""

    sink: str
    pending: int
    failing: int  # of them: they failed at least once
    dead: int
    oldest_at: datetime | None  # when the oldest pending event was emitted
    failure: str  # of the newest event that failed; empty if none did


class Outbox:
    """`engine.outbox`: events that sinks have not received yet, and dead letters."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def list_pending(self, *, limit: int = 100, after: int = 0) -> list[OwedEvent]:
        """Unsent events with numbers above `after`, oldest first."""
        return await self._list(is_dead=False, limit=limit, after=after)

    async def list_dead(self, *, limit: int = 100, after: int = 0) -> list[OwedEvent]:
        """Dead letters with numbers above `after`, oldest first: events that a sink rejected too often."""
        return await self._list(is_dead=True, limit=limit, after=after)

    async def sinks(self) -> list[SinkView]:
        """What each sink is owed, by its name. The oldest 20,000 events are counted."""
        found = await self._backend.retrying(lambda store: store.overviews.tally_owed(limit=_COUNTED_MAX))
        return [
            SinkView(
                one.sink,
                one.pending,
                one.failing,
                one.dead,
                None if one.oldest_at is None else to_datetime(one.oldest_at),
                one.failure,
            )
            for one in found
        ]

    async def replay(self, event_id: str, sink: str | None = None, *, by: str = "") -> int:
        """Retry a dead letter with a fresh budget of attempts; returns how many there were (one for each sink).

        It is sent after the events of its run that are unsent now: the sink gets it after events emitted later.
        """
        return await self._backend.retrying(lambda store: store.outbox.replay(EventId(event_id), sink, by=by))

    async def drop(self, event_id: str, sink: str | None = None, *, by: str = "") -> int:
        """Drop an unsent event, dead or not, for one sink or for all; returns how many there were.

        An event that is being sent at this moment is not dropped.
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
