"""Reads the recorded history and the inbox of a run."""

from __future__ import annotations

from operator import attrgetter

import apsw

from stepwell.ids import RunId
from stepwell.model.events import IncomingEvent
from stepwell.model.runs import AHEAD_OUTCOMES_MAX, AHEAD_WAITS_MAX, ChildOutcome, History, Inbox
from stepwell.model.signals import Signal
from stepwell.model.waits import Wait
from stepwell.stores.sqlite.rows import (
    to_attempt,
    to_cursor,
    to_entry,
    to_event,
    to_outcome,
    to_progress,
    to_signal,
    to_wait,
)
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import rows_of

_LIST_EVENTS = SQL["receipts.list_unread"]
_BY_SEQ = attrgetter("seq")


def read_names(connection: apsw.Connection, run: int) -> tuple[str, ...]:
    """The run's numbered names."""
    return tuple(name for (name,) in rows_of(connection, "names.list", run=run))


def read_history(connection: apsw.Connection, run: int) -> History:
    """Everything recorded of a run."""
    entries = list(map(to_entry, connection.execute(SQL["entries.list"], (run,))))
    entries.sort(key=_BY_SEQ)
    return History(
        read_names(connection, run),
        tuple(entries),
        tuple(map(to_attempt, rows_of(connection, "attempts.list", run=run))),
        tuple(map(to_cursor, rows_of(connection, "cursors.list", run=run))),
        read_waits(connection, run),
        tuple(map(to_progress, rows_of(connection, "progress.list", run=run))),
    )


def read_waits(connection: apsw.Connection, run: int) -> tuple[Wait, ...]:
    """What the run waits for, in order."""
    return tuple(map(to_wait, rows_of(connection, "waits.list", run=run)))


def read_signals(connection: apsw.Connection, run: int) -> tuple[Signal, ...]:
    """The pending signals, by number."""
    return tuple(map(to_signal, connection.execute(SQL["signals.list_pending"], (run,))))


def read_events(connection: apsw.Connection, run: int) -> tuple[IncomingEvent, ...]:
    """The events that the run has not received yet, by number."""
    return tuple(map(to_event, connection.execute(_LIST_EVENTS, (run,))))


def read_outcomes(connection: apsw.Connection, run: int, run_id: RunId) -> tuple[ChildOutcome, ...]:
    """The outcomes of the ended children, and of the other ended runs, that the run's waits name."""
    children = rows_of(connection, "runs.list_ended_children", run_id=run_id, run=run)
    others = rows_of(connection, "runs.list_ended_watched", run=run)
    return tuple(map(to_outcome, [*children, *others]))


def read_arrived_outcomes(connection: apsw.Connection, run: int, run_id: RunId) -> tuple[ChildOutcome, ...]:
    """The same, and outcomes of spawned children that code may wait for next: see `Inbox.children`."""
    found = read_outcomes(connection, run, run_id)
    awaited = [location for (location,) in rows_of(connection, "waits.list_child_locations", run=run)]
    if not 0 < len(awaited) <= AHEAD_WAITS_MAX:
        return found
    known = {outcome.location for outcome in found}
    ahead = rows_of(connection, "runs.list_ended_ahead", run_id=run_id, location=min(awaited), limit=AHEAD_OUTCOMES_MAX)
    return (*found, *(to_outcome(row) for row in ahead if row[0] not in known))


def read_inbox(connection: apsw.Connection, run: int, run_id: RunId) -> Inbox:
    """What arrived for a run and is not consumed yet."""

    return Inbox(
        read_signals(connection, run), read_arrived_outcomes(connection, run, run_id), read_events(connection, run)
    )
