"""Events: published on a topic, delivered to waiting runs, and able to start new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from stepwell.clock import Duration, Span, span, to_datetime
from stepwell.codec.facets import facets_of
from stepwell.codec.published import encode_event, event_place
from stepwell.engine.backend import Backend
from stepwell.engine.starts import encode_input
from stepwell.engine.views import plain
from stepwell.errors import InvalidOptionError, TopicFullError
from stepwell.ids import EventId, RunId, derived_run_id
from stepwell.model.events import RETENTION, TOPIC_EVENTS_MAX, Deliver, NewEvent, Publication, Published
from stepwell.model.runs import NewRun, check_text, normal_key
from stepwell.model.topics import Event, topic_of
from stepwell.replay.workflows import Workflow

EVENT_ID_MAX = 500
_RETAIN_MAX = span("36500d")

Key = str | Callable[[Any], str] | None


class Trigger(NamedTuple):
    """A workflow that an event starts."""

    workflow: Workflow[Any, Any]
    key: Key
    dedup: Span


@dataclass(frozen=True, slots=True)
class KeptEventView:
    """An event that a topic keeps for later waits."""

    event_id: str
    topic: str
    payload: Any
    deliver: str
    published_at: datetime
    kept_until: datetime


class Events:
    """`engine.events`: publishes on topics, and holds the workflows that events start."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._triggers: dict[str, dict[str, Trigger]] = {}

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
        backend = self._backend
        new = self._make(topic, payload, deliver, retain, event_id or backend.environment.ids.uuid())
        (published,), claimed = await backend.retrying(
            lambda store: backend.with_offer(lambda offer: store.events.publish([new], offer))
        )
        backend.adopt(claimed)
        return _reached(published, new.topic)

    def on(
        self, topic: str | type[Event], *, start: Workflow[Any, Any], key: Key = None, dedup: Duration = "24h"
    ) -> None:
        """Start a run for each event that *this engine* publishes on a topic, in the transaction that publishes it.

        The event is the run's input. `key` is a field of the event or a function of it: an event starts no run if
        its key has a run that is active or ended within `dedup`. Engines that did not call this start nothing.
        """
        name, _ = topic_of(topic)
        if not isinstance(start, Workflow):
            raise InvalidOptionError(
                f"{start!r:.80} is not a workflow", where=f"topic {name}", fix="start=a function with @workflow"
            )
        if key is not None and not isinstance(key, str) and not callable(key):
            raise InvalidOptionError(
                f"key is {key!r}", where=f"topic {name}", fix="the name of a field, or a function of the event"
            )
        window = min(span(dedup, what="dedup"), _RETAIN_MAX)
        self._triggers.setdefault(name, {})[start.name] = Trigger(start, key, window)

    def _make(
        self, topic: Any, payload: Any, deliver: Deliver, retain: Duration | bool | None, event_id: str
    ) -> NewEvent:
        """An event to publish. Raises if it is invalid, before anything is stored."""
        name, hint, value = _what(topic, payload)
        if deliver not in ("all", "one"):
            raise InvalidOptionError(f"deliver is {deliver!r}", where=f"topic {name}", fix='"all" or "one"')
        check_text(event_id, "event id")
        if not event_id or len(event_id) > EVENT_ID_MAX or "\x00" in event_id:
            raise InvalidOptionError(
                f"event id {event_id[:60]!r} is not usable",
                where=f"topic {name}",
                fix=f"1 to {EVENT_ID_MAX} characters, or leave it out",
            )
        if hint is not Any:
            value = self._backend.codec.validate(value, hint, place=event_place(name, event_id))
        return NewEvent(
            EventId(event_id),
            name,
            encode_event(self._backend.codec, value, hint, topic=name, event_id=event_id),
            facets_of(self._backend.codec, name, value),
            deliver,
            _retention(retain),
            tuple(self._start(name, value, event_id, trigger) for trigger in self._triggers.get(name, {}).values()),
        )

    def _start(self, topic: str, value: Any, event_id: str, trigger: Trigger) -> NewRun:
        workflow = trigger.workflow
        run_id = derived_run_id(RunId(event_id), f"on {topic} start {workflow.name}")
        stored = encode_input(self._backend.codec, workflow, value if workflow.takes_input else None, run_id)
        key = _key_of(topic, value, trigger)
        return NewRun(run_id, workflow.name, workflow.version, stored, key, dedup=trigger.dedup)

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


def _retention(retain: Duration | bool | None) -> Span | None:
    if retain is None or retain is False:
        return None
    if retain is True:
        return RETENTION
    kept = min(span(retain, what="retain"), _RETAIN_MAX)
    if kept == 0:
        raise InvalidOptionError(f"retain: {retain!r} keeps nothing", fix="leave it out, or give a duration above 0")
    return kept


def _key_of(topic: str, value: Any, trigger: Trigger) -> str | None:
    key = trigger.key
    if key is None:
        return None
    found: Any
    if callable(key):
        found = key(value)
    else:
        found = value.get(key) if isinstance(value, dict) else getattr(value, key, None)
    if not isinstance(found, str | int) or isinstance(found, bool):
        raise InvalidOptionError(
            f"the key of the run that this event starts is {found!r:.60}",
            where=f"topic {topic}, workflow {trigger.workflow.name}",
            fix="let key name a field with a text or a number, or compute one",
        )
    return normal_key(str(found))
