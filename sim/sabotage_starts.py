"""Switches that break how runs are started, and what was said about them at the start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from stepwell.clock import Span
from stepwell.replay.turn import Turn
from stepwell.stores.memory import commits, runs, starts, store
from stepwell.stores.memory.transaction import Transaction
from stepwell.stores.sqlite.texts import SQL
from stepwell.worker.claim_state import ClaimState

Patches = list[tuple[Any, str, Any]]


def deadline_ignored_while_waiting() -> Patches:
    """A parked run is not due at its deadline."""
    original = commits._move

    def move(tx: Any, row: Any, what: Any, announce: Any) -> None:
        deadline, row.deadline_at = row.deadline_at, None
        try:
            original(tx, row, what, announce)
        finally:
            row.deadline_at = deadline

    return [(commits, "_move", move)]


def deadline_ignored_while_running() -> Patches:
    """Neither the worker nor the store looks at the deadline of a run that goes on."""
    return [(ClaimState, "is_past_deadline", lambda self, now: False), (commits, "_has_expired", lambda tx, row: False)]


def deadline_too_early() -> Patches:
    """A worker gives a run up some time before its deadline."""
    original = ClaimState.is_past_deadline
    return [(ClaimState, "is_past_deadline", lambda self, now: original(self, now + 300_000))]


def limit_of_wait_extended() -> Patches:
    """A wait that is armed again may take as long again."""
    original = Turn.wait

    async def wait(self: Turn, location: Any, *args: Any) -> Any:
        stored = self.journal.waits.get(location)
        if stored is not None and stored.limit_at is not None:
            limit = self._limit(stored.due_at)
            self.journal.waits[location] = stored._replace(limit_at=limit)
        return await original(self, location, *args)

    return [(Turn, "wait", wait)]


def priority_ignored() -> Patches:
    """What has been due longest is claimed, however urgent something else is."""

    def longest_due(db: Any, definitions: Any, now: Any) -> Any:
        due = [first for _, first in runs._first_of_lanes(db, definitions, now)]
        return db.runs[min(due)[1]] if due else None

    return [(runs, "_longest_due", longest_due)]


def start_overtakes() -> Patches:
    """A run is claimed with its start although something more urgent is due."""
    return [(runs, "_most_urgent", lambda db, definitions, now: -sys.maxsize)]


def replaced_run_goes_on() -> Patches:
    """A replaced run loses its key, and is not cancelled."""
    return [(starts, "cancel_family", lambda tx, row, **options: [])]


def replaced_run_keeps_its_key() -> Patches:
    """A replaced run that has something to undo still has its key."""
    original = Transaction.change

    def change(self: Transaction, row: Any, **fields: Any) -> None:
        fields.pop("replaced_by", None)
        original(self, row, **fields)

    return [(Transaction, "change", change)]


def debounce_loses_the_last_input() -> Patches:
    """A call for a planned run only puts it off."""
    original = starts.debounce

    def debounce(tx: Any, new: Any, quiet: Any, max_wait: Any) -> Any:
        planned = tx.db.debounced.get(new.key)
        is_known = planned is not None and planned.run_id == new.run_id
        return original(tx, new._replace(input=planned.input) if is_known else new, quiet, max_wait)

    return [(store, "debounce", debounce)]


def debounce_does_not_wait() -> Patches:
    """A debounced run begins at once."""
    original = starts.debounce
    return [(store, "debounce", lambda tx, new, quiet, max_wait: original(tx, new, Span(1), max_wait))]


def debounce_takes_a_run_for_planned() -> Patches:
    """A call that comes when the run has begun is taken for done."""
    original = starts.debounce
    return [(store, "debounce", lambda *args: original(*args)._replace(is_stale=False))]


def tied_children_left() -> Patches:
    """Children that end with their parent go on."""
    return [(commits, "cancel_tied", lambda tx, row, announce: None)]


START_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        deadline_ignored_while_waiting,
        deadline_ignored_while_running,
        deadline_too_early,
        limit_of_wait_extended,
        priority_ignored,
        start_overtakes,
        replaced_run_goes_on,
        replaced_run_keeps_its_key,
        debounce_loses_the_last_input,
        debounce_does_not_wait,
        debounce_takes_a_run_for_planned,
        tied_children_left,
    )
}


# --- the statements of the SQLite store ----------------------------------------------------


def _statement(name: str, old: str, new: str) -> Patches:
    assert old in SQL[name], f"{name} has changed: {SQL[name]}"
    return [(SQL, name, SQL[name].replace(old, new))]


def sqlite_start_overtakes() -> Patches:
    """A run is claimed with its start although something more urgent is due."""
    return _statement("definitions.find_more_urgent", "d.priority > :priority", "d.priority > :priority + 1000")


def sqlite_debounce_loses_the_last_input() -> Patches:
    """A call for a planned run only puts it off."""
    return _statement("payloads.change_input", "input = :input", "input = iif(:input is null, :input, input)")


SQLITE_START_SWITCHES: dict[str, Callable[[], Patches]] = {
    made.__name__.replace("_", "-"): made for made in (sqlite_start_overtakes, sqlite_debounce_loses_the_last_input)
}
