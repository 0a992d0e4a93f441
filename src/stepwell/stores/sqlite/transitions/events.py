"""Publishing events, keeping them in topics, and giving them to runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.events import RETENTION, NewEvent, Publication, Published, is_answered, receiver
from stepwell.model.locations import Location
from stepwell.model.runs import Claimed
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.model.workers import Claimant
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_events, read_waits
from stepwell.stores.sqlite.rows import decode_texts, encode_locations, encode_texts
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.claims import Quota, is_parked, wake
from stepwell.stores.sqlite.transitions.starts import create_one

_PAUSED = RunStatus.PAUSED.value


class Open(NamedTuple):
    """An open wait, and the run that it belongs to."""

    armed: int
    run: int
    position: int
    location: Location
    facets: str
    run_id: RunId
    status: str
    owner: int | None


def publish(
    tx: Transaction, events: Sequence[NewEvent], claimant: Claimant | None
) -> tuple[list[Published], list[Claimed]]:
    """Publish events in order, and wake who waits; claims come last, so that an inbox has all of them."""
    woken: dict[int, None] = {}
    published = [_publish_one(tx, new, woken) for new in events]
    quota = Quota(tx, claimant)
    return published, [claimed for run in woken if (claimed := quota.take(run)) is not None]


def _publish_one(tx: Transaction, new: NewEvent, woken: dict[int, None]) -> Published:
    known = tx.find("events.find", event_id=new.event_id)
    if known is not None:
        return Published(Publication.DUPLICATE, known[0])
    _purge(tx, new.topic)
    waits = _choose(tx, new.deliver, new.topic, new.facets)
    is_kept = new.retain is not None and (new.deliver == "all" or not waits)
    if is_kept:
        row = tx.find("events.count_kept", topic=new.topic, now=tx.now)
        if row is not None and row[0] >= new.room:
            return Published(Publication.FULL)
    kept_until = None if new.retain is None else Instant(tx.now + new.retain)
    reached = len({wait.run for wait in waits})
    inserted = tx.find(
        "events.insert",
        event_id=new.event_id,
        topic=new.topic,
        payload=new.payload if waits or is_kept else None,
        facets=encode_texts(new.facets),
        deliver=new.deliver,
        now=tx.now,
        kept_until=kept_until,
        is_taken=int(new.deliver == "one" and bool(waits)),
        reached=reached,
        forget_at=max(tx.now + RETENTION, kept_until or 0),
    )
    assert inserted is not None
    _give(tx, inserted[0], waits, woken)
    return Published(Publication.PUBLISHED, reached, _start(tx, new, woken))


def _start(tx: Transaction, new: NewEvent, woken: dict[int, None]) -> tuple[RunId, ...]:
    started: list[RunId] = []
    for start in new.starts:
        created = create_one(tx, start, Quota(tx, None), None)
        if created.is_new:
            started.append(created.run_id)
            found = tx.find("runs.find_for_signal", run_id=created.run_id)
            if found is not None and found[4] is not None and found[4] <= tx.now:
                woken[found[0]] = None
    return tuple(started)


def _purge(tx: Transaction, topic: str) -> None:
    """Forget events that nobody will ask for again, some at a time."""
    for (number,) in tx.rows("events.list_forgettable", topic=topic, now=tx.now):
        tx.run("receipts.forget", event=number)
        tx.run("events.forget", number=number)


def _choose(tx: Transaction, deliver: str, topic: str, facets: Sequence[str]) -> list[Open]:
    """The open waits that are given an event, longest open first."""
    has = set(facets)
    rows = tx.rows("waits.list_open", topic=topic, facets=encode_texts(["", *facets]))
    found = sorted(wait for wait in map(Open._make, rows) if has.issuperset(decode_texts(wait.facets)))
    if deliver == "one":
        awake = [wait for wait in found if wait.status != _PAUSED]
        return (awake or found)[:1]
    return found


def _give(tx: Transaction, event: int, waits: list[Open], woken: dict[int, None]) -> None:
    """Put an event into the inboxes of the runs whose waits are given it."""
    by_run: dict[int, list[Open]] = {}
    for wait in waits:
        by_run.setdefault(wait.run, []).append(wait)
        tx.run("waits.close", run=wait.run, position=wait.position)
    for run, given in by_run.items():
        _add_receipt(tx, run, event, tuple(wait.location for wait in given))
        _, _, _, _, _, run_id, status, owner = given[0]
        if owner is not None:
            tx.hint(HintKind.MAIL, run_id)
        elif is_parked(status, owner):
            wake(tx, run, run_id)
            woken[run] = None


def _add_receipt(tx: Transaction, run: int, event: int, locations: tuple[Location, ...]) -> None:
    number = _next(tx, "receipts")
    tx.run("receipts.add", number=number, run=run, event=event, locations=encode_locations(locations))


def _next(tx: Transaction, counter: str) -> int:
    row = tx.find("meta.next", name=counter)
    assert row is not None
    return int(row[0])


def has_receiver(tx: Transaction, run: int) -> bool:
    """Whether an event in the inbox is for one of the run's waits."""
    events = read_events(tx.connection, run)
    if not events:
        return False
    waits = read_waits(tx.connection, run)
    return any(receiver(event, waits) is not None for event in events)


def receive(tx: Transaction, run: int, run_id: RunId, number: int) -> None:
    """Take an event out of the inbox. What the topic still keeps is remembered as received."""
    found = tx.find("receipts.find_unread", number=number, run=run)
    if found is None:
        raise ValueError(f"run {run_id} has no event {number} in its inbox")
    event, is_remembered = found
    tx.run("receipts.read" if is_remembered else "receipts.remove", number=number)
    if not is_remembered:
        tx.run("events.empty", number=event)


def add_topic_waits(
    tx: Transaction, run: int, run_id: RunId, waits: tuple[Wait, ...], before: dict[Wait, tuple[str | None, int | None]]
) -> None:
    """Store the topic waits among a run's waits: one that was there before stays open or not as it was."""
    fresh: list[tuple[int, Wait]] = []
    for position, wait in enumerate(waits):
        if wait.kind is not WaitKind.TOPIC:
            continue
        topic: str | None
        armed: int | None
        if wait in before:
            topic, armed = before[wait]
        else:
            fresh.append((position, wait))
            topic, armed = wait.names[0], _next(tx, "armed")
        facet = None if topic is None else min(wait.where, default="")
        parts = (run, position, wait.location, wait.token, wait.due_at, encode_texts(wait.names), wait.since)
        names = ("run", "position", "location", "token", "due_at", "names", "since")
        stored = dict(zip(names, parts, strict=True))
        tx.run("waits.add_topic", **stored, facets=encode_texts(wait.where), topic=topic, facet=facet, armed=armed)
    for position, wait in fresh:
        _take_what_is_there(tx, run, run_id, position, wait, waits)


def list_topic_waits(tx: Transaction, run: int) -> dict[Wait, tuple[str | None, int | None]]:
    """The stored topic waits of a run, each with its topic and order if it is open."""
    found: dict[Wait, tuple[str | None, int | None]] = {}
    for location, token, due_at, names, since, facets, topic, armed in tx.rows("waits.list_topics", run=run):
        wait = Wait(location, WaitKind.TOPIC, token, due_at, decode_texts(names), decode_texts(facets), since)
        found[wait] = (topic, armed)
    return found


def _take_what_is_there(
    tx: Transaction, run: int, run_id: RunId, position: int, wait: Wait, waits: tuple[Wait, ...]
) -> None:
    """Let a new wait take what nobody else of its run waits for, or what its topic keeps."""
    for event in read_events(tx.connection, run):
        if receiver(event, waits) is wait:
            places = dict.fromkeys((*event.locations, wait.location))
            tx.run("receipts.aim", number=event.number, locations=encode_locations(tuple(places)))
            tx.run("waits.close", run=run, position=position)
            tx.hint(HintKind.MAIL, run_id)
            return
    kept = None if wait.since == "wait" else _find_kept(tx, run, wait)
    if kept is not None:
        event, _, deliver = kept
        if deliver == "one":
            tx.run("events.take", number=event)
        _add_receipt(tx, run, event, (wait.location,))
        tx.run("waits.close", run=run, position=position)
        tx.hint(HintKind.MAIL, run_id)


def _find_kept(tx: Transaction, run: int, wait: Wait) -> Row | None:
    first = 0
    if wait.since == "start":
        created = tx.find("runs.find_creation", id=run)
        first = created[0] if created is not None else 0
    # Row by row: the first one that fits ends it.
    asked = {"topic": wait.names[0], "now": tx.now, "run": run, "first": first}
    row: Row
    for row in tx.execute(SQL["events.list_kept_for"], asked):
        if is_answered(wait, wait.names[0], decode_texts(row[1])):
            return row
    return None


def give_back(tx: Transaction, run: int) -> None:
    """A run ends: what it has not received goes back to its topic if it was for one run only."""
    for number, is_read, event, topic, facets, deliver, kept_until in tx.rows("receipts.list_of_run", run=run):
        tx.run("receipts.remove", number=number)
        until = tx.now + RETENTION if kept_until is None else kept_until
        if is_read or deliver == "all" or until <= tx.now:
            tx.run("events.empty", number=event)
            continue
        waits = _choose(tx, "one", topic, decode_texts(facets))
        tx.run("events.give_back", number=event, is_taken=int(bool(waits)), kept_until=until)
        _give(tx, event, waits, {})
