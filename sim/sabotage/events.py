"""Switches that break the delivery of events."""

from __future__ import annotations

from typing import Any

import apsw

from sim.sabotage.patches import Patches, nothing, statement, switches
from stepwell.model.events import Published
from stepwell.replay import journal
from stepwell.stores.sqlite import histories
from stepwell.stores.sqlite.rows import decode_texts
from stepwell.stores.sqlite.transitions import claims, commits, events, moves, publications


def event_lost_while_the_wait_is_stored() -> Patches:
    """A wait that is being stored does not look at what its topic keeps."""
    return [(events, "_find_kept", lambda tx, run, wait: None)]


def event_delivered_twice() -> Patches:
    """A wait stays open after it was given an event."""
    return statement("waits.close", "topic = null, facet = null, armed = null", "token = token")


def event_consumed_at_read() -> Patches:
    """Whoever reads an inbox empties it."""
    original = histories.read_events

    def read_events(connection: apsw.Connection, run: int) -> Any:
        read = original(connection, run)
        connection.execute("update stepwell_receipts set is_read = 1 where run = ?", (run,))
        return read

    return [(claims, "read_events", read_events), (commits, "receive", nothing)]


def one_event_to_two() -> Patches:
    """An event for one run reaches all that wait."""
    original = events.choose

    def choose(tx: Any, deliver: str, topic: str, facets: Any) -> Any:
        return original(tx, "all", topic, facets)

    return [(events, "choose", choose), (publications, "choose", choose)]


def event_without_a_wake() -> Patches:
    """An event is put into an inbox, and its run sleeps on."""
    return [(events, "wake", nothing)]


def event_id_ignored() -> Patches:
    """An event is published however often it is sent."""
    original = publications._publish_one

    def publish_one(tx: Any, new: Any, woken: Any) -> Published:
        tx.execute(
            "update stepwell_events set event_id = event_id || ' ' || number where event_id = ?", (new.event_id,)
        )
        return original(tx, new, woken)

    return [(publications, "_publish_one", publish_one)]


def unread_event_dropped() -> Patches:
    """An event for one run is dropped when that run ends without having read it."""
    return statement("receipts.list_of_run", "e.deliver", "'all' as deliver")


def continue_drops_events() -> Patches:
    """Unread events stay behind when a run continues."""
    return statement("receipts.pass_on", "where run = :run", "where run = :run and :successor < 0")


def park_without_looking_for_events() -> Patches:
    """A run is parked although the event that it waits for is in its inbox."""
    return [(moves, "has_receiver", lambda tx, run: False)]


def conditions_ignored() -> Patches:
    """An event reaches waits that asked for another one."""
    original = events.choose

    def choose(tx: Any, deliver: str, topic: str, facets: Any) -> Any:
        asked = tx.execute("select facets from stepwell_waits where topic = ?", (topic,)).fetchall()
        every = {one for (stored,) in asked for one in decode_texts(stored)}
        return original(tx, deliver, topic, sorted({*facets, *every}))

    is_answered = (events, "is_answered", lambda wait, topic, facets: topic in wait.names)
    return [is_answered, (events, "choose", choose), (publications, "choose", choose)]


def used_event_stays() -> Patches:
    """An event is used without being taken out of the inbox."""
    return [(journal.Journal, "receive_event", nothing)]


EVENT_SWITCHES = switches(
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
