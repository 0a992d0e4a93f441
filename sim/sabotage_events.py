"""Switches that break the delivery of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.sabotage_stores import _nothing, _statement
from stepwell.model.events import Published
from stepwell.replay import journal
from stepwell.stores.memory import ends, events, publishing, runs, store
from stepwell.stores.sqlite.transitions import events as sqlite_events

Patches = list[tuple[Any, str, Any]]


def event_lost_while_the_wait_is_stored() -> Patches:
    """A wait that is being stored does not look at what its topic keeps."""
    return [(events, "_kept_for", lambda tx, row, wait: None)]


def event_delivered_twice() -> Patches:
    """A wait stays open after it was given an event."""
    original = events.give

    def give(tx: Any, event: Any, waits: Any, woken: Any) -> None:
        before = dict(tx.db.open_waits[event.topic])
        original(tx, event, waits, woken)
        tx.db.open_waits[event.topic].update(before)

    return [(events, "give", give), (publishing, "give", give)]


def event_consumed_at_read() -> Patches:
    """Whoever reads an inbox empties it."""
    original = runs.read_inbox

    def read_inbox(db: Any, row: Any) -> Any:
        inbox = original(db, row)
        if row.owner is not None:
            for receipt in db.receipts.get(row.run_id, {}).values():
                receipt.is_read = True
        return inbox

    return [(runs, "read_inbox", read_inbox), (store, "read_inbox", read_inbox), (events, "receive", _nothing)]


def one_event_to_two() -> Patches:
    """An event for one run reaches all that wait."""
    original = events.choose

    def choose(tx: Any, deliver: str, topic: str, facets: Any) -> Any:
        return original(tx, "all", topic, facets)

    return [(events, "choose", choose), (publishing, "choose", choose)]


def event_without_a_wake() -> Patches:
    """An event is put into an inbox, and its run sleeps on."""
    return [(events, "wake", _nothing)]


def event_id_ignored() -> Patches:
    """An event is published however often it is sent."""
    original = publishing._publish_one

    def publish_one(tx: Any, new: Any, woken: Any) -> Published:
        tx.db.events.pop(new.event_id, None)
        return original(tx, new, woken)

    return [(publishing, "_publish_one", publish_one)]


def unread_event_dropped() -> Patches:
    """An event for one run is dropped when that run ends without having read it."""

    def give_back(tx: Any, row: Any) -> None:
        for receipt in tuple(tx.db.receipts.get(row.run_id, {}).values()):
            tx.drop_receipt(receipt)

    return [(ends, "give_back", give_back)]


def continue_drops_events() -> Patches:
    """Unread events stay behind when a run continues."""
    return [(events, "pass_on", _nothing)]


def park_without_looking_for_events() -> Patches:
    """A run is parked although the event that it waits for is in its inbox."""
    return [(events, "has_receiver", lambda db, row: False)]


def conditions_ignored() -> Patches:
    """An event reaches waits that asked for another one."""
    return [(events, "is_answered", lambda wait, topic, facets: topic in wait.names)]


def used_event_stays() -> Patches:
    """An event is used without being taken out of the inbox."""
    return [(journal.Journal, "receive_event", _nothing)]


EVENT_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        event_lost_while_the_wait_is_stored,
        event_delivered_twice,
        event_consumed_at_read,
        one_event_to_two,
        event_without_a_wake,
        event_id_ignored,
        unread_event_dropped,
        continue_drops_events,
        park_without_looking_for_events,
        conditions_ignored,
        used_event_stays,
    )
}


def sqlite_event_waits_stay_open() -> Patches:
    """A wait stays open after it was given an event."""
    return _statement("waits.close", "topic = null, facet = null, armed = null", "token = token")


def sqlite_kept_event_not_looked_for() -> Patches:
    """A wait that is being stored does not look at what its topic keeps."""
    return [(sqlite_events, "_find_kept", lambda tx, run, wait: None)]


def sqlite_unread_event_dropped() -> Patches:
    """An event for one run is dropped when that run ends without having read it."""
    return _statement("receipts.list_of_run", "e.deliver", "'all' as deliver")


SQLITE_EVENT_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made
    for made in (sqlite_event_waits_stay_open, sqlite_kept_event_not_looked_for, sqlite_unread_event_dropped)
}
