"""Operations of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from stepwell.clock import Instant, Span
from stepwell.conformance.snapshot import RECORD_KINDS
from stepwell.ids import RunId
from stepwell.model.locations import Location
from stepwell.model.records import (
    Changed,
    ChangeOutcome,
    NewRecord,
    NewRecordEvent,
    RecordChange,
    RecordClosing,
    RecordFilter,
    RecordOpening,
    RecordOrder,
)
from stepwell.model.runs import NewRun, Run
from stepwell.model.signals import NewSignal
from tests.differential.runs import is_crowded, new_run
from tests.differential.signals import new_signal
from tests.differential.world import Operation, World

_IDS = ("t1", "t2", "t3", "T1", "ä'4")  # few, so that they collide
_STATES = ("open", "claimed", "Done", "erlédigt")
LABELS = ("all", "role:a", "Rolle:Ä")
_ORDERS: tuple[RecordOrder, ...] = get_args(RecordOrder)


def change(world: World) -> Operation:
    """Change records, some from an outdated version, with consequences; some changes are repeated or wrong."""
    changes = [_a_change(world) for _ in range(world.chance.choice([1, 1, 1, 2, 3]))]
    if world.likely(0.04):
        changes[-1] = changes[-1]._replace(events=())
    claimant = world.maybe_claimant()

    def facts(answer: list[Changed]) -> Iterator[str]:
        seen = {record.number: record for record, _ in world.before["records"]}
        for one, changed in zip(changes, answer, strict=True):
            is_repeated = changed.outcome is ChangeOutcome.CHANGED and one in world.changes
            yield "repeated" if is_repeated else changed.outcome.value
            if changed.outcome is ChangeOutcome.CHANGED and not is_repeated:
                world.changes.append(one)
            yield from (f"signal {each.delivery.value}" for each in changed.delivered)
            if any(each.delivery.value == "missing" and each.run_id for each in changed.delivered):
                yield "signal kept by an ended run"
            if changed.started:
                yield "started"
            if changed.claimed:
                yield "claimed"
        for record in world.records():
            before = seen.get(record.number)
            if before is None:
                yield "created"
            elif before.is_open != record.is_open:
                yield "opened again" if record.is_open else "closed"

    return Operation(
        "records.change", (changes, claimant), lambda at: at.opened.store.records.change(changes, claimant), facts
    )


def _a_change(world: World) -> RecordChange:
    there, chance = world.records(), world.chance
    if world.changes and world.likely(0.1):
        return chance.choice(world.changes[-5:])
    new, expected = _a_record(world), 0
    if there and world.likely(0.8):
        record = chance.choice(there)
        new, expected = new._replace(kind=record.kind, record_id=record.record_id), record.version
    if world.likely(0.1):
        expected = max(0, expected + chance.choice([-1, 1]))
    return RecordChange(world.next_id("c"), expected, new, _events(world), _signals(world), _starts(world))


def _a_record(world: World) -> NewRecord:
    chance = world.chance
    return NewRecord(
        chance.choice([RECORD_KINDS[0], *RECORD_KINDS]),
        chance.choice(_IDS),
        chance.choice(_STATES),
        chance.choice([b"", b"\x00body"]),
        tuple(sorted(world.some(LABELS))),
        Instant(world.now + chance.choice([-1, 0, 500_000, 2_000_000])) if world.likely(0.5) else None,
        is_open=world.likely(0.75),
        end_state=chance.choice([None, "gone", "gone"]),
    )


def _events(world: World) -> tuple[NewRecordEvent, ...]:
    options = [NewRecordEvent("noted", "änn", b"\x00x"), NewRecordEvent("v")]
    return tuple(world.chance.choice(options) for _ in range(world.chance.choice([1, 1, 2])))


def _signals(world: World) -> tuple[NewSignal, ...]:
    if world.likely(0.7):
        return ()
    signals = [new_signal(world, world.a_target(), world.signals) for _ in range(world.chance.choice([1, 1, 2]))]
    return tuple(one._replace(hold=world.likely(0.02), asks=False) for one in signals)


def _starts(world: World) -> tuple[NewRun, ...]:
    if is_crowded(world) or world.likely(0.85):
        return ()
    starts = [new_run(world) for _ in range(world.chance.choice([1, 1, 2]))]
    taken = world.a_run()
    if taken is not None and world.likely(0.1):
        starts.append(new_run(world, run_id=taken.run_id))
    return tuple(starts)


# --- parts of commits ---------------------------------------------------------------------------


def opened(world: World, at: Location) -> tuple[RecordOpening, ...]:
    """Records that a run opens, some of which exist."""
    events = _events(world) if world.likely(0.8) else ()
    return tuple(RecordOpening(at, _a_record(world), events) for _ in range(world.chance.choice([1, 1, 2])))


def closed(world: World, run: Run) -> tuple[RecordClosing, ...]:
    """Records that a run closes, some of which are not its own."""
    own = [record for record in world.records() if record.run_id == run.run_id]
    among = own if own and world.likely(0.8) else world.records()
    return tuple(
        RecordClosing(one.kind, one.record_id, world.chance.choice(_STATES), NewRecordEvent("decided", "ann"))
        for one in world.chance.sample(among, min(len(among), world.chance.choice([1, 1, 2])))
    )


# --- care and reads -----------------------------------------------------------------------------


def prune(world: World) -> Operation:
    """Delete old closed records."""
    kind, limit = world.chance.choice(RECORD_KINDS), world.chance.choice([1, 2, 5])
    older_than = Span(world.chance.choice([0, 1_000_000, 60_000_000]))
    return Operation(
        "records.prune",
        (kind, older_than, limit),
        lambda at: at.opened.store.records.prune(kind, older_than=older_than, limit=limit),
        lambda count: ["pruned" if count else "nothing"],
    )


def _kinds(world: World) -> tuple[str, ...]:
    return world.some((*RECORD_KINDS, "none"), 0.7)


def due(world: World) -> Operation:
    """The records that are due."""
    kinds, limit = _kinds(world), world.chance.choice([1, 3, 100])
    return Operation(
        "records.due",
        (kinds, limit),
        lambda at: at.opened.store.records.due(kinds, limit=limit),
        lambda found: ["due" if found else "nothing"],
    )


def next_due(world: World) -> Operation:
    """When the next record is due."""
    kinds = _kinds(world)
    return Operation(
        "records.next_due",
        (kinds,),
        lambda at: at.opened.store.records.next_due(kinds),
        lambda found: ["nothing" if found is None else "due"],
    )


def _an_identity(world: World) -> tuple[str, str]:
    if world.records() and world.likely(0.8):
        record = world.chance.choice(world.records())
        return record.kind, record.record_id
    return world.chance.choice(RECORD_KINDS), world.chance.choice(_IDS)


def find(world: World) -> Operation:
    """By kind and id."""
    kind, record_id = _an_identity(world)
    return Operation(
        "records.find",
        (kind, record_id),
        lambda at: at.opened.store.records.find(kind, record_id),
        lambda found: ["nothing" if found is None else "found"],
    )


def _a_filter(world: World) -> RecordFilter:
    chance, owners = world.chance, [record.run_id for record in world.records() if record.run_id is not None]
    return RecordFilter(
        chance.choice(RECORD_KINDS),
        world.some(_STATES, chance.choice([0, 0, 0.5])),
        world.some(LABELS, chance.choice([0, 0.4])),
        chance.choice([None, True, False]),
        chance.choice([*owners, RunId("nobody")]) if world.likely(0.2) else None,
        Instant(world.now + chance.choice([0, 1_000_000])) if world.likely(0.2) else None,
        chance.choice(_ORDERS),
    )


def list_records(world: World) -> Operation:
    """Some records, page by page."""
    where, limit = _a_filter(world), world.chance.choice([1, 3, 100])
    after = world.chance.choice(world.records()) if world.records() and world.likely(0.4) else None
    return Operation(
        "records.list_records",
        (where, limit, after),
        lambda at: at.opened.store.records.list_records(
            where, limit=limit, after=None if after is None else at.numbers.to_own(after)
        ),
        lambda found: ["found" if found else "nothing"],
    )


def count(world: World) -> Operation:
    """How many records match."""
    where, limit = _a_filter(world), world.chance.choice([1, 100])
    return Operation(
        "records.count",
        (where, limit),
        lambda at: at.opened.store.records.count(where, limit=limit),
        lambda count: ["found" if count else "nothing"],
    )


def list_events(world: World) -> Operation:
    """The history of a record."""
    (kind, record_id), limit = _an_identity(world), world.chance.choice([1, 3, 100])
    before = world.chance.choice([None, None, 1, 3])
    return Operation(
        "records.list_events",
        (kind, record_id, limit, before),
        lambda at: at.opened.store.records.list_events(kind, record_id, limit=limit, before=before),
        lambda found: ["found" if found else "nothing"],
    )
