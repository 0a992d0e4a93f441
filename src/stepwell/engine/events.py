"""Events: published on a topic, delivered to waiting runs, and able to start new ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from stepwell.clock import Duration, to_datetime
from stepwell.codec.facets import facets_of
from stepwell.codec.published import encode_event, event_place
from stepwell.engine.backend import Backend
from stepwell.engine.trigger_starts import TriggerStarts
from stepwell.engine.views import plain
from stepwell.errors import InvalidOptionError, StoreUnavailableError, TopicFullError
from stepwell.ids import EventId
from stepwell.model.events import TOPIC_EVENTS_MAX, Deliver, NewEvent, Publication, Published
from stepwell.model.runs import check_text
from stepwell.model.topics import Event, topic_of
from stepwell.replay.primitives.send import read_retention

TRIES_MAX: Final = 20  # of an event whose triggers change meanwhile
EVENT_ID_MAX = 500
_SCANNED_MAX: Final = 20_000  # events of all topics


@dataclass(frozen=True, slots=True)
class KeptEventView:
    """An event that a topic keeps for later waits."""

    event_id: str
    topic: str
    payload: Any
    deliver: str
    published_at: datetime
    kept_until: datetime


@dataclass(frozen=True, slots=True)
class PastEventView:
    """An event that was published, without its payload. `kept_until` is None unless its topic keeps it now."""

    event_id: str
    topic: str
    deliver: str
    published_at: datetime
    reached: int  # runs that got it at once, or that it started
    kept_until: datetime | None


class Events:
    """`engine.events`: publishes on topics, and lists the events that topics keep."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._starts = TriggerStarts(backend)

    async def publish(
        self,
        topic: str | Event | type[Event],
        payload: Any = None,
        *,
        deliver: Deliver = "all",
        retain: Duration | bool | None = None,
        event_id: str | None = None,
    ) -> int:
        """Publish an event; returns how many runs got it. `Engine.publish` has the promises."""
        (of, hint, given), own_id = _what(topic, payload), event_id or self._backend.environment.ids.uuid()
        check_event_id(own_id, of)
        value = given
        if hint is not Any:
            value = self._backend.codec.validate(given, hint, place=event_place(of, own_id))
        event = self._make(of, hint, value, deliver, retain, own_id)
        for _ in range(TRIES_MAX):
            found = self._starts.of(of, value, hint, event.event_id)
            published = await self._publish(event._replace(starts=found.starts, seen=found.seen))
            if published.publication is not Publication.STALE:
                break
            await self._starts.read(of)
        else:
            raise StoreUnavailableError(
                f"an event on topic {of!r} could not be published",
                why=f"its triggers were changed {TRIES_MAX} times meanwhile",
                fix="publish it again",
            )
        if published.publication is Publication.PUBLISHED:
            await self._starts.note(found.unfit)
        return _reached(published, of)

    async def _publish(self, event: NewEvent) -> Published:
        backend = self._backend
        (published,), claimed = await backend.retrying(
            lambda store: backend.with_offer(lambda offer: store.events.publish([event], offer))
        )
        backend.adopt(claimed)
        return published

    def _make(
        self, topic: str, hint: Any, value: Any, deliver: Deliver, retain: Duration | bool | None, event_id: str
    ) -> NewEvent:
        """An event to publish. Raises if it is invalid, before anything is stored."""
        if deliver not in ("all", "one"):
            raise InvalidOptionError(f"deliver is {deliver!r}", where=f"topic {topic}", fix='"all" or "one"')
        return NewEvent(
            EventId(event_id),
            topic,
            encode_event(self._backend.codec, value, hint, topic=topic, event_id=event_id),
            facets_of(self._backend.codec, topic, value),
            deliver,
            read_retention(retain),
        )

    async def list_recent(self, topic: str | None = None, *, limit: int = 100) -> list[PastEventView]:
        """The latest events of a topic, or of all, newest first, without their payloads.

        An event is remembered for 7 days, or as long as its topic keeps it. The newest 20,000 events are looked at.
        """
        found = await self._backend.retrying(
            lambda store: store.overviews.list_past_events(topic, limit=limit, scan_max=_SCANNED_MAX)
        )
        return [
            PastEventView(
                one.event_id,
                one.topic,
                one.deliver,
                to_datetime(one.published_at),
                one.reached,
                None if one.kept_until is None else to_datetime(one.kept_until),
            )
            for one in found
        ]

    # Last, because below it `list` is this method.
    async def list(self, topic: str | None = None, *, limit: int = 100) -> list[KeptEventView]:
        """The events that topics (or one topic) keep for later waits, oldest first."""
        found = await self._backend.retrying(lambda store: store.views.list_events(limit=limit, topic=topic))
        return [
            KeptEventView(
                one.event_id,
                one.topic,
                plain(one.payload),
                one.deliver,
                to_datetime(one.published_at),
                to_datetime(one.kept_until),
            )
            for one in found
        ]


def check_event_id(event_id: str, topic: str) -> None:
    """Raise for an id that cannot be stored."""
    check_text(event_id, "event id")
    if not event_id or len(event_id) > EVENT_ID_MAX or "\x00" in event_id:
        raise InvalidOptionError(
            f"event id {event_id[:60]!r} is not usable",
            where=f"topic {topic}",
            fix=f"1 to {EVENT_ID_MAX} characters, or leave it out",
        )


def _reached(published: Published, topic: str) -> int:
    """How many runs an event reached; raises if the topic rejected it."""
    if published.publication is Publication.FULL:
        raise TopicFullError(
            f"topic {topic!r} is full, and nothing was published",
            where=f"topic {topic}",
            why=f"it keeps {TOPIC_EVENTS_MAX} events already",
            fix="let runs receive them, or wait until they expire; publish without retain, or with a shorter one",
        )
    return published.reached


def _what(topic: Any, payload: Any) -> tuple[str, Any, Any]:
    """The topic, type and value of an event to publish."""
    if not isinstance(topic, Event):
        return *topic_of(topic), payload
    if payload is not None:
        raise InvalidOptionError(
            "an event and a payload were given",
            where=f"topic {type(topic).__name__}",
            fix="publish(Shipped(...)), or publish(Shipped, {...})",
        )
    return *topic_of(type(topic)), topic
