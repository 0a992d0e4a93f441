"""Operations of signals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.clock import Span
from stepwell.ids import SignalId
from stepwell.model.runs import Claimed
from stepwell.model.signals import Delivered, NewSignal, Redelivery
from stepwell.model.states import WaitKind
from tests.differential.runs import created_facts, is_crowded, new_run
from tests.differential.world import KEYS, Operation, World

NAMES = ("go", "stop", "Ünd")
_STRAYS_MAX = 3


def new_signal(world: World, target: str, known: list[SignalId]) -> NewSignal:
    """A signal to deliver; sometimes its id is known."""
    signal_id = SignalId(world.next_id("s"))
    if known and world.likely(0.05):
        signal_id = world.chance.choice(known)
    else:
        world.signals.append(signal_id)
    awaited = [name for wait in world.waits(WaitKind.SIGNAL, target) for name in wait.names]
    return NewSignal(
        signal_id,
        target,
        world.chance.choice(awaited if awaited and world.likely(0.7) else NAMES),
        world.chance.choice([b"", signal_id.encode()]),
        dedup_key=world.chance.choice([None, "d1", "d1", "d2"]),
        hold=world.likely(0.5),
        asks=world.likely(0.3),
    )


def deliver(world: World) -> Operation:
    """Put signals into mailboxes."""
    signals = [new_signal(world, world.a_target(), world.signals) for _ in range(world.chance.choice([1, 1, 2, 3]))]
    claimant = world.maybe_claimant()
    return Operation(
        "signals.deliver",
        (signals, claimant),
        lambda at: at.opened.store.signals.deliver(signals, claimant),
        lambda answer: _delivered(*answer),
    )


def _delivered(delivered: list[Delivered], claimed: list[Claimed]) -> Iterator[str]:
    for one in delivered:
        yield one.delivery.value
        if one.woke:
            yield "woke"
    if claimed:
        yield "claimed"


def deliver_or_create(world: World) -> Operation | None:
    """Signal the run of a key, or start it."""
    if is_crowded(world) and world.likely(0.5):
        return None
    keys = [run.key for run in world.runs() if run.key is not None and world.waits(WaitKind.SIGNAL, run.run_id)]
    key = world.chance.choice(keys) if keys and world.likely(0.7) else world.chance.choice(KEYS)
    run = new_run(world, key=key, dedup=Span(0), on_conflict="get")
    # Only ids of such calls: a known signal without a run has no answer.
    signal, claimant = new_signal(world, run.key or "", world.openers), world.maybe_claimant()
    world.openers.append(signal.signal_id)

    def facts(answer: Any) -> Iterator[str]:
        created, delivered, claimed = answer
        yield from created_facts(created)
        yield from _delivered([delivered], claimed)

    return Operation(
        "signals.deliver_or_create",
        (signal, run, claimant),
        lambda at: at.opened.store.signals.deliver_or_create(signal, run, claimant),
        facts,
    )


def redeliver(world: World) -> Operation | None:
    """Move signals that no run will read; also some that cannot be moved."""
    strays = [one.signal for one in [*world.state["held"], *world.state["unread"]]]
    letters = [
        Redelivery(one.number, world.a_target(), world.chance.choice([one.payload, b"other"]))
        for one in world.chance.sample(strays, min(len(strays), _STRAYS_MAX))
    ]
    if not letters and world.likely(0.7):
        return None
    if world.likely(0.2):
        letters.append(Redelivery(world.chance.choice([1, 2, 5, 10_000]), world.a_target(), b"p"))
    claimant = world.maybe_claimant()
    return Operation(
        "signals.redeliver",
        (letters, claimant),
        lambda at: at.opened.store.signals.redeliver(at.numbers.to_own(letters), claimant),
        lambda answer: _delivered(*answer),
    )
