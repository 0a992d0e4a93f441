"""Operations on events: publish one, list the events that topics keep."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from stepwell.engine.events import PastEventView
from stepwell.engine.facts import facts_of
from stepwell.http.fields import DurationText, Limit, Name
from stepwell.http.idempotency import reserve
from stepwell.http.operations import Call, Operation, Reply, look
from stepwell.http.roles import Permission
from stepwell.http.schemas import audience_of, fields_of


class EventIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An event on a topic."""

    topic: Name
    payload: Any = None
    deliver: Literal["all", "one"] = "all"
    retain: DurationText | None = None


class EmittedBody(msgspec.Struct):
    """How many runs got an event."""

    event_id: str
    reached: int


class KeptEventBody(msgspec.Struct):
    """An event that a topic keeps."""

    event_id: str
    topic: str
    payload: Any
    deliver: str
    published_at: datetime
    kept_until: datetime


class KeptEventPage(msgspec.Struct):
    """Events that topics keep for later waits, oldest first."""

    events: list[KeptEventBody]


class KeptQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Events of one topic, or of all."""

    topic: Name | None = None
    limit: Limit = 100


class PastEventBody(fields_of(PastEventView)):  # type: ignore[misc]
    """An event that was published. `reached` is how many runs got it at once, or were started by it; `kept_until` is
    null unless its topic keeps it now.
    """


class PastEventPage(msgspec.Struct):
    """The latest events, newest first."""

    events: list[PastEventBody]


async def emit(call: Call) -> Reply:
    """Publish an event, once for each `Idempotency-Key`."""
    body: EventIn = call.body
    key = call.headers.get("idempotency-key")
    event_id = call.request_id
    if key is not None:
        event_id = await reserve(call, f"emit by {call.caller.name}", key, event_id)
    engine = call.services.engine
    reached = await engine.publish(
        body.topic, body.payload, deliver=body.deliver, retain=body.retain, event_id=event_id
    )
    call.after = f"reached {reached}"
    return Reply(EmittedBody(event_id, reached), 202)


async def list_kept(call: Call) -> Reply:
    """Events that topics keep."""
    found = await call.services.engine.events.list(call.query.topic, limit=call.query.limit)
    return Reply(
        KeptEventPage(
            [
                KeptEventBody(
                    one.event_id, one.topic, call.show(one.payload), one.deliver, one.published_at, one.kept_until
                )
                for one in found
            ]
        )
    )


async def list_recent(call: Call) -> Reply:
    """The latest events."""
    found = await call.services.engine.events.list_recent(call.query.topic, limit=call.query.limit)
    audience = audience_of(call)
    return Reply(PastEventPage([PastEventBody(**facts_of(one, audience)) for one in found]))


OPERATIONS = (
    Operation(
        method="POST",
        path="/events",
        name="emit_event",
        permission=Permission.STEER,
        handler=emit,
        summary="Publish an event on a topic",
        answers={202: EmittedBody},
        body=EventIn,
        takes_key=True,
    ),
    look(
        "/events/recent",
        "list_recent_events",
        list_recent,
        "The latest events, without their payloads",
        {200: PastEventPage},
        query=KeptQuery,
    ),
    look("/events", "list_kept_events", list_kept, "Events that topics keep", {200: KeptEventPage}, query=KeptQuery),
)
