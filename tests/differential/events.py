"""Operations of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.clock import Span
from stepwell.conformance.snapshot import RECORD_KINDS
from stepwell.ids import EventId
from stepwell.model.events import TOPIC_EVENTS_MAX, NewEvent
from stepwell.model.records import RecordsSeen
from stepwell.model.states import WaitKind
from tests.differential.records import LABELS
from tests.differential.runs import is_crowded, new_run
from tests.differential.world import Operation, World

TOPICS = ("news", "Öl")
FACETS = ('order="4\'2"', "order=43", "größe=1")


def new_event(world: World) -> NewEvent:
    """An event to publish; sometimes its id is known."""
    event_id = EventId(world.next_id("e"))
    if world.events and world.likely(0.08):
        event_id = world.chance.choice(world.events)
    else:
        world.events.append(event_id)
    starts = () if is_crowded(world) or world.likely(0.8) else (new_run(world),)
    awaited = [wait.names[0] for wait in world.waits(WaitKind.TOPIC)]
    return NewEvent(
        event_id,
        world.chance.choice(awaited if awaited and world.likely(0.7) else TOPICS),
        world.chance.choice([b"", event_id.encode()]),
        facets=world.some(FACETS, 0.7),
        deliver=world.chance.choice(["all", "all", "one"]),
        retain=world.chance.choice([None, Span(3_000_000), Span(60_000_000)]),
        starts=starts,
        room=world.chance.choice([1, 3, TOPIC_EVENTS_MAX]),
        seen=_seen(world) if world.likely(0.2) else None,
    )


def _seen(world: World) -> RecordsSeen:
    """Open records of a kind and label, as they are or as they were."""
    kind, label = world.chance.choice(RECORD_KINDS), world.chance.choice(LABELS)
    there = [each for each in world.records() if each.is_open and each.kind == kind and label in each.labels]
    versions = sorted((each.record_id, each.version) for each in there)
    if versions and world.likely(0.2):
        record_id, version = versions.pop()
        if world.likely(0.5):
            versions.append((record_id, version + 1))
    return RecordsSeen(kind, label, tuple(versions))


def publish(world: World) -> Operation:
    """Publish events."""
    events = [new_event(world) for _ in range(world.chance.choice([1, 1, 2]))]
    claimant = world.maybe_claimant()

    def facts(answer: Any) -> Iterator[str]:
        published, claimed = answer
        for new, one in zip(events, published, strict=True):
            yield one.publication.value
            if new.seen is not None and new.seen.versions and one.publication.value == "published":
                yield "made from records"
            if one.started:
                yield "started"
            if one.publication.value == "published":
                yield f"for {new.deliver}, {'given' if one.reached else 'nobody there'}"
                if one.reached > 1:
                    yield "given to several"
        if claimed:
            yield "claimed"

    return Operation(
        "events.publish",
        (events, claimant),
        lambda at: at.opened.store.events.publish(events, claimant),
        facts,
    )
