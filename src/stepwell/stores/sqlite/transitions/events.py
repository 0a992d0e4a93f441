"""Events in topics and in the inboxes of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepwell.ids import RunId
from stepwell.model.events import RETENTION, is_answered, receiver
from stepwell.model.locations import Location
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_events, read_waits
from stepwell.stores.sqlite.rows import decode_texts, encode_locations, encode_texts
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.claims import is_parked, wake

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


def choose(tx: Transaction, deliver: str, topic: str, facets: Sequence[str]) -> list[Open]:
    """The open waits that get an event, longest open first."""
    has = set(facets)
    rows = tx.rows("waits.list_open", topic=topic, facets=encode_texts(["", *facets]))
    found = sorted(wait for wait in map(Open._make, rows) if has.issuperset(decode_texts(wait.facets)))
    if deliver == "one":
        awake = [wait for wait in found if wait.status != _PAUSED]
        return (awake or found)[:1]
    return found


def give(tx: Transaction, event: int, waits: list[Open], woken: dict[int, None]) -> None:
    """Put an event into the inboxes of the runs with these waits."""
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
    """Whether one of the run's waits accepts an event in the inbox."""
    events = read_events(tx.connection, run)
    if not events:
        return False
    waits = read_waits(tx.connection, run)
    return any(receiver(event, waits) is not None for event in events)


def receive(tx: Transaction, run: int, run_id: RunId, number: int) -> None:
    """Take an event out of the inbox. If its topic still keeps it, the run remembers it as received."""
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
    """Store the topic waits of a run. A wait that was stored before keeps its state (open or not)."""
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
        asked = {"facets": encode_texts(wait.where), "topic": topic, "facet": facet, "armed": armed}
        tx.run("waits.add_topic", **stored, **asked, limit_at=wait.limit_at)
    for position, wait in fresh:
        _take_available(tx, run, run_id, position, wait, waits)


def list_topic_waits(tx: Transaction, run: int) -> dict[Wait, tuple[str | None, int | None]]:
    """The stored topic waits of a run, each with its topic and number if it is open."""
    found: dict[Wait, tuple[str | None, int | None]] = {}
    for location, token, due_at, names, since, facets, limit_at, topic, armed in tx.rows("waits.list_topics", run=run):
        what = (location, WaitKind.TOPIC, token, due_at, decode_texts(names), decode_texts(facets), since, limit_at)
        wait = Wait(*what)
        found[wait] = (topic, armed)
    return found


def _take_available(
    tx: Transaction, run: int, run_id: RunId, position: int, wait: Wait, waits: tuple[Wait, ...]
) -> None:
    """Give a new wait an event that is in the inbox for no other wait of its run, or an event that its topic keeps."""
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
    # Row by row: the loop ends at the first match.
    asked = {"topic": wait.names[0], "now": tx.now, "run": run, "first": first}
    row: Row
    for row in tx.execute(SQL["events.list_kept_for"], asked):
        if is_answered(wait, wait.names[0], decode_texts(row[1])):
            return row
    return None


def give_back(tx: Transaction, run: int) -> None:
    """Return unread events of an ended run to their topics, if they were for one run only."""
    for number, is_read, event, topic, facets, deliver, kept_until in tx.rows("receipts.list_of_run", run=run):
        tx.run("receipts.remove", number=number)
        until = tx.now + RETENTION if kept_until is None else kept_until
        if is_read or deliver == "all" or until <= tx.now:
            tx.run("events.empty", number=event)
            continue
        waits = choose(tx, "one", topic, decode_texts(facets))
        tx.run("events.give_back", number=event, is_taken=int(bool(waits)), kept_until=until)
        give(tx, event, waits, {})
