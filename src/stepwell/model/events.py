"""Events: messages published on a topic, to many runs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepwell.clock import Instant, Span
from stepwell.ids import EventId, RunId
from stepwell.model.locations import Location
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait

if TYPE_CHECKING:
    from stepwell.model.records import RecordsSeen
    from stepwell.model.runs import NewRun

Deliver = Literal["all", "one"]

TOPIC_EVENTS_MAX = 10_000  # kept by one topic
RETENTION = Span(7 * 86_400_000_000)  # of a kept event, by default; and of the id of every event

# A run in one of these statuses gets no event: its waits no longer matter. (An ended run has no waits.)
DEAF = frozenset({RunStatus.CANCELLING})


class NewEvent(NamedTuple):
    """An event to publish. The id makes repeating the call harmless."""

    event_id: EventId
    topic: str
    payload: bytes
    facets: tuple[str, ...] = ()  # what a wait may filter by: one text for each plain field and its value
    deliver: Deliver = "all"
    retain: Span | None = None  # how long the topic keeps it for later waits; None: not at all
    starts: tuple[NewRun, ...] = ()  # runs that it starts
    room: int = TOPIC_EVENTS_MAX  # events that the topic may keep
    seen: RecordsSeen | None = None  # the records that `starts` follows from; None: it follows from none


class Publication(StrEnum):
    """What became of an event."""

    PUBLISHED = "published"
    DUPLICATE = "duplicate"  # the id is known: nothing was done
    FULL = "full"  # it has to be kept, and the topic has no room: nothing was done
    STALE = "stale"  # the records in `seen` are others by now: nothing was done


class Published(NamedTuple):
    """The outcome of publishing one event."""

    publication: Publication
    reached: int = 0  # runs that got it; for a duplicate, the runs that got it the first time
    started: tuple[RunId, ...] = ()  # the new runs among `starts`


class IncomingEvent(NamedTuple):
    """An event in a run's inbox, until the run records that it received it."""

    number: int  # orders an inbox by delivery; never used twice
    event_id: EventId
    topic: str
    payload: bytes
    facets: tuple[str, ...]
    published_at: Instant
    locations: tuple[Location, ...]  # of the waits that it was delivered to


class KeptEvent(NamedTuple):
    """An event that a topic keeps for later waits."""

    event_id: EventId
    topic: str
    payload: bytes
    deliver: Deliver
    published_at: Instant
    kept_until: Instant


def is_answered(wait: Wait, topic: str, facets: Iterable[str]) -> bool:
    """Whether an event satisfies a wait."""
    return wait.kind is WaitKind.TOPIC and topic in wait.names and (not wait.where or set(wait.where) <= set(facets))


def receiver(event: IncomingEvent, waits: Iterable[Wait]) -> Wait | None:
    """The wait of a run that takes an event from its inbox.

    Among the waits that the event satisfies, a wait that it was delivered to comes first, then the first one.
    """
    first: Wait | None = None
    for wait in waits:
        if not is_answered(wait, event.topic, event.facets):
            continue
        if wait.location in event.locations:
            return wait
        if first is None:
            first = wait
    return first
