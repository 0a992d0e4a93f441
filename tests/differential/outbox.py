"""Operations of the outbox."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.clock import Span
from stepwell.ids import EventId
from stepwell.model.outbox import Owed, Settled, Unsent
from stepwell.stores.base.outbox import Batch
from tests.differential.world import Operation, World

SINKS = ("s", "T", "Ü")


def take(world: World) -> Operation:
    """Take what a sink is owed."""
    worker, sink = world.a_worker(), world.chance.choice(SINKS)
    limit, batch_max = world.chance.choice([0, 1, 3]), world.chance.choice([1, 2, 5])
    heads = [batch[0].number for batch in world.taken.get(worker, ())]
    keep = world.some(heads, 0.7)

    def facts(answer: list[Batch]) -> Iterator[str]:
        world.taken[worker] = [batch for batch in world.taken.get(worker, ()) if batch[0].number in keep] + answer
        yield "taken" if answer else "nothing"
        if any(len(batch) > 1 for batch in answer):
            yield "batch of several"
        if any(batch[0].number in heads for batch in answer):
            yield "taken again"

    return Operation(
        "outbox.take",
        (worker, sink, limit, batch_max, keep),
        lambda at: at.opened.store.outbox.take(
            worker, sink, limit=limit, batch_max=batch_max, keep=[at.numbers.own("outbox", one) for one in keep]
        ),
        facts,
    )


def settle(world: World) -> Operation | None:
    """Settle batches, whether this worker still has them or not."""
    having = [worker for worker, batches in world.taken.items() if batches]
    if not having:
        return None
    taker = world.chance.choice(having)
    batches = world.some(world.taken[taker], 0.8)
    settled = [_settle_one(world, batch) for batch in batches]
    worker = world.a_worker() if world.likely(0.1) else taker
    if world.likely(0.9):
        world.taken[taker] = [batch for batch in world.taken[taker] if batch not in batches]

    def facts(answer: list[bool]) -> Iterator[str]:
        for one, is_own in zip(settled, answer, strict=True):
            if not is_own:
                yield "not its own"
                continue
            if one.sent:
                yield "sent"
            if one.unsent is not None:
                yield "dead" if one.unsent.retry_in is None else "to be repeated"
            if not one.sent and one.unsent is None:
                yield "given back"

    return Operation(
        "outbox.settle",
        (worker, settled),
        lambda at: at.opened.store.outbox.settle(worker, at.numbers.to_own(settled)),
        facts,
    )


def _settle_one(world: World, batch: Batch) -> Settled:
    sent = world.chance.randint(0, len(batch))
    unsent = None
    if sent < len(batch) and world.likely(0.7):
        unsent = Unsent(batch[sent].number, 'no "ü"', world.chance.choice([None, None, Span(0), Span(2_000_000)]))
    return Settled(batch[0].number, tuple(one.number for one in batch[:sent]), unsent)


def next_due(world: World) -> Operation:
    """When the next event for a sink is due."""
    sink = world.chance.choice([*SINKS, "none"])
    return Operation(
        "outbox.next_due",
        (sink,),
        lambda at: at.opened.store.outbox.next_due(sink),
        lambda answer: ["nothing" if answer is None else "due"],
    )


def list_owed(world: World) -> Operation:
    """Owed events or dead letters, page by page."""
    is_dead = world.likely(0.8 if world.state["dead"] else 0.2)
    limit, after = world.chance.choice([1, 3, 100]), world.chance.choice([0, 0, 0, 2, 5])
    return Operation(
        "outbox.list_owed",
        (is_dead, limit, after),
        lambda at: at.opened.store.outbox.list_owed(
            is_dead=is_dead, limit=limit, after=at.numbers.own("outbox", after)
        ),
        lambda answer: [("dead" if is_dead else "owed") if answer else "nothing"],
    )


def replay(world: World) -> Operation | None:
    """Owe dead letters again."""
    return _sort_letter(world, "replay", world.state["dead"])


def drop(world: World) -> Operation | None:
    """Delete what is owed of an event."""
    return _sort_letter(world, "drop", [*world.state["owed"], *world.state["dead"][-1:]])


def _sort_letter(world: World, verb: str, rows: list[Owed]) -> Operation | None:
    if not rows and world.likely(0.95):
        return None
    event = world.chance.choice(rows).event_id if rows else EventId("none")
    sink = world.chance.choice([None, *SINKS])

    def call(at: Any) -> Any:
        return getattr(at.opened.store.outbox, verb)(event, sink, by="ann")

    return Operation(f"outbox.{verb}", (event, sink), call, lambda count: ["done" if count else "nothing"])
