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
    from stepwell.model.runs import NewRun

Deliver = Literal["all", "one"]

TOPIC_EVENTS_MAX = 10_000  # that one topic keeps
RETENTION = Span(7 * 86_400_000_000)  # of an event that is kept, if nothing else is said; and of every event's id

# A run in one of these gets no event: what it waited for does not matter any more. (An ended one has no waits.)
DEAF = frozenset({RunStatus.CANCELLING})


class NewEvent(NamedTuple):
    """An event to publish. The id makes repeating the call harmless."""

    event_id: EventId
    topic: str
    payload: bytes
    facets: tuple[str, ...] = ()  # what a wait may ask of it: one text for each plain field and its value
    deliver: Deliver = "all"
    retain: Span | None = None  # how long the topic keeps it for waits to come; None: not at all
    starts: tuple[NewRun, ...] = ()  # runs that it starts
    room: int = TOPIC_EVENTS_MAX  # a topic that keeps so many keeps no more


class Publication(StrEnum):
    """What became of an event."""

    PUBLISHED = "published"
    DUPLICATE = "duplicate"  # the id was known: nothing was done
    FULL = "full"  # it would have to be kept, and the topic keeps as many as it may: nothing was done


class Published(NamedTuple):
    """The outcome of publishing one event."""

    publication: Publication
    reached: int = 0  # runs that got it; of a duplicate, those that got it the first time
    started: tuple[RunId, ...] = ()  # of `starts`, those that are new


class IncomingEvent(NamedTuple):
    """An event in a run's inbox, until the run records that it received it."""

    number: int  # orders an inbox by delivery; never given twice
    event_id: EventId
    topic: str
    payload: bytes
    facets: tuple[str, ...]
    published_at: Instant
    locations: tuple[Location, ...]  # of the waits that it was delivered to


class KeptEvent(NamedTuple):
    """An event that a topic keeps for waits to come."""

    event_id: EventId
    topic: str
    payload: bytes
    deliver: Deliver
    published_at: Instant
    kept_until: Instant


def is_answered(wait: Wait, topic: str, facets: Iterable[str]) -> bool:
    """Whether an event is one that a wait asks for."""
    return wait.kind is WaitKind.TOPIC and topic in wait.names and (not wait.where or set(wait.where) <= set(facets))


def receiver(event: IncomingEvent, waits: Iterable[Wait]) -> Wait | None:
    """Which of a run's waits takes an event from its inbox: of those that ask for such an event one that it was
    delivered to, else the first.
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
