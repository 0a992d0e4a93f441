"""Bounded reads for pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.clock import Instant, Span
from tests.differential.views import a_filter, a_limit, a_run_id
from tests.differential.world import Handle, Operation, World


def _read(name: str, *given: Any, call: Callable[[Any], Any]) -> Operation:
    async def ask(at: Handle) -> Any:
        return await call(at.opened.store.overviews)

    return Operation(f"overviews.{name}", given, ask, lambda answer: ["asked", "found" if answer else "nothing"])


def list_summaries(world: World) -> Operation:
    """Some runs without their payloads, page by page."""
    where = a_filter(world)
    limit, before = a_limit(world), a_run_id(world) if world.likely(0.3) else None
    return _read(
        "list_summaries",
        (where, limit, before),
        call=lambda overviews: overviews.list_summaries(where, limit=limit, before=before),
    )


def count_created(world: World) -> Operation:
    """How many runs were created when; all of those that have not ended, because their order is not promised."""
    where, width = a_filter(world), Span(world.chance.choice([1, 1_000_000, 60_000_000]))
    since, until = Instant(world.now - world.chance.choice([0, 10_000_000, 10**12])), Instant(world.now + 1)
    return _read(
        "count_created",
        (where, since, until, width),
        call=lambda overviews: overviews.count_created(where, since=since, until=until, width=width, scan_max=10_000),
    )


def list_standings(world: World) -> Operation:
    """What some runs wait for."""
    run_ids = [a_run_id(world) for _ in range(world.chance.randint(0, 4))]
    return _read(
        "list_standings",
        run_ids,
        call=lambda overviews: overviews.list_standings(run_ids, limit=100),
    )


def list_movement(world: World) -> Operation:
    """What may have changed; in no promised order."""
    since = Instant(world.now - world.chance.choice([0, 1_000_000, 10**12]))
    watched = [a_run_id(world) for _ in range(world.chance.randint(0, 3))]

    async def call(overviews: Any) -> Any:
        found = await overviews.list_movement(since, watched, limit=10_000)
        return sorted(found.runs), found.is_whole

    return _read("list_movement", since, watched, call=call)


def list_topics(_: World) -> Operation:
    """The topics."""
    return _read("list_topics", call=lambda overviews: overviews.list_topics(limit=10_000))


def list_past_events(world: World) -> Operation:
    """The latest events."""
    topic, limit = world.chance.choice([None, "mail", "news"]), a_limit(world)
    return _read(
        "list_past_events",
        topic,
        limit,
        call=lambda overviews: overviews.list_past_events(topic, limit=limit, scan_max=10_000),
    )


def tally_owed(_: World) -> Operation:
    """What sinks are owed."""
    return _read("tally_owed", call=lambda overviews: overviews.tally_owed(limit=10_000))


def tally_waits(_: World) -> Operation:
    """Waits in groups."""
    return _read("tally_waits", call=lambda overviews: overviews.tally_waits(limit=10_000))


def find_undelivered(world: World) -> Operation:
    """A signal that no run will read."""
    numbers = [one.signal.number for one in (*world.state["held"], *world.state["unread"])]
    number = world.chance.choice([1, *numbers])

    async def ask(at: Handle) -> Any:
        return await at.opened.store.overviews.find_undelivered(at.numbers.own("signal", number))

    return Operation(
        "overviews.find_undelivered", number, ask, lambda answer: ["asked", "found" if answer else "nothing"]
    )


def read_outline(world: World) -> Operation:
    """A history without values."""
    run_id = a_run_id(world)
    return _read("read_outline", run_id, call=lambda overviews: overviews.read_outline(run_id))


def list_entries(world: World) -> Operation:
    """A page of a history."""
    run_id, after, limit = a_run_id(world), world.chance.choice([0, 0, 1, 3]), a_limit(world)
    return _read(
        "list_entries",
        (run_id, after, limit),
        call=lambda overviews: overviews.list_entries(run_id, after=after, limit=limit),
    )


def find_entries(world: World) -> Operation:
    """Some lines of a history."""
    run_id, seqs = a_run_id(world), world.some([1, 2, 3, 5, 8], 0.5)
    return _read("find_entries", (run_id, seqs), call=lambda overviews: overviews.find_entries(run_id, seqs))
