"""Operations on the outbox: events that have not reached their sinks, and dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepwell.advice import Advice, Verb
from stepwell.engine.facts import facts_of
from stepwell.engine.outbox import OwedEvent, SinkView
from stepwell.errors import NotFoundError
from stepwell.http.fields import Limit, Name
from stepwell.http.operations import Call, Reply, look, steer
from stepwell.http.schemas import audience_of, fields_of


class OutboxQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Events with numbers above `after`."""

    limit: Limit = 100
    after: Annotated[int, Meta(ge=0, le=(1 << 53) - 1)] = 0


class OwedBody(msgspec.Struct):
    """One event that one sink has not received. With `died_at` it is a dead letter, which is no longer retried.

    `payload` is a payload. `next_at` is null while the event, or an earlier one of its run, is being sent.
    """

    number: int
    event_id: str
    sink: str
    name: str
    run_id: str
    workflow: str
    key: str | None
    path: str
    payload: Any
    at: datetime
    attempts: int
    failure: str
    next_at: datetime | None
    died_at: datetime | None


class OutboxPage(msgspec.Struct):
    """Events, oldest first; `next` is `after` of the page after this one."""

    events: list[OwedBody]
    next: int | None


class SinkBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """For one sink only; for all that lack the event, if it is left out."""

    sink: Name | None = None


class SentBody(msgspec.Struct):
    """For how many sinks it was done."""

    event_id: str
    sinks: int


class SinkUseBody(fields_of(SinkView)):  # type: ignore[misc]
    """What one sink is owed; `dead` counts its dead letters."""


class SinkList(msgspec.Struct):
    """Sinks that are owed something, by name."""

    sinks: list[SinkUseBody]


async def list_sinks(call: Call) -> Reply:
    """What each sink is owed."""
    audience = audience_of(call)
    found = await call.services.engine.outbox.sinks()
    return Reply(SinkList([SinkUseBody(**facts_of(one, audience)) for one in found]))


async def list_pending(call: Call) -> Reply:
    """Events that workers still have to send."""
    query: OutboxQuery = call.query
    found = await call.services.engine.outbox.list_pending(limit=query.limit + 1, after=query.after)
    return Reply(_page(call, found))


async def list_dead(call: Call) -> Reply:
    """Dead letters: events that a sink rejected too often."""
    query: OutboxQuery = call.query
    found = await call.services.engine.outbox.list_dead(limit=query.limit + 1, after=query.after)
    return Reply(_page(call, found))


def _page(call: Call, found: list[OwedEvent]) -> OutboxPage:
    page = found[: call.query.limit]
    bodies = [
        OwedBody(
            one.number,
            one.event_id,
            one.sink,
            one.name,
            one.run_id,
            one.workflow,
            one.key,
            one.path,
            call.show(one.payload),
            one.at,
            one.attempts,
            one.failure,
            one.next_at,
            one.died_at,
        )
        for one in page
    ]
    return OutboxPage(bodies, page[-1].number if len(found) > len(page) else None)


async def replay(call: Call) -> Reply:
    """Send a dead letter again."""
    event = call.path["event"]
    count = await call.services.engine.outbox.replay(event, call.body.sink, by=call.caller.name)
    return Reply(_sent(call, event, count))


async def drop(call: Call) -> Reply:
    """Drop an event that has not reached its sink."""
    event = call.path["event"]
    count = await call.services.engine.outbox.drop(event, call.body.sink, by=call.caller.name)
    return Reply(_sent(call, event, count))


def _sent(call: Call, event: str, count: int) -> SentBody:
    if not count:
        raise NotFoundError("event", event, fix=Advice(Verb.LIST_DEAD))
    call.after = f"for {count}"
    return SentBody(event, count)


OPERATIONS = (
    look("/outbox", "list_outbox", list_pending, "Events that are not sent yet", {200: OutboxPage}, query=OutboxQuery),
    look("/outbox/sinks", "list_sinks", list_sinks, "What each sink is owed", {200: SinkList}),
    look("/outbox/dead", "list_dead_letters", list_dead, "Dead letters", {200: OutboxPage}, query=OutboxQuery),
    steer("/outbox/{event}/replay", "replay_event", replay, "Send a dead letter again", SentBody, SinkBody),
    steer("/outbox/{event}/drop", "drop_event", drop, "Drop an event that was not sent", SentBody, SinkBody),
)
