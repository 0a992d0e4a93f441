"""Pin a run to the code path that it first took."""

from __future__ import annotations

from stepwell.errors import HistoryDivergedError
from stepwell.model.locations import Location, gate_name, named, shown_gate
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import pack, unpack
from stepwell.replay.scopes import Scope


def pin_version(scope: Scope, name: str, latest: int) -> int:
    """`latest` for a run that reaches this place for the first time, 1 for one that had passed it;
    for ever the same, however often it is asked.
    """
    turn, journal = scope.turn, scope.turn.journal
    scope.check_open()
    location = _location(scope, name)
    if location not in journal.visited:
        journal.visited[location] = EntryKind.VERSION
        if journal.recall(location) is None:
            pinned = 1 if journal.has_recorded_below(scope.location) else latest
            journal.record(location, EntryKind.VERSION, EntryStatus.DONE, pack([pinned], b""), turn.now)
    entry = journal.entries[location]
    (pinned,), _ = unpack(entry.value)
    if pinned > latest:
        path = shown_gate(journal.names.text(location))
        raise turn.diverge(
            HistoryDivergedError(
                f"this run was pinned to version {pinned} of {path}, and this code knows only {latest}",
                where=path,
                recorded=f"version {pinned}",
                now=f"version {latest}",
                fix="run it with the newer code",
            )
        )
    return int(pinned)


def _location(scope: Scope, name: str) -> Location:
    """Where a gate stands: beside the operations, which may have the same name. Old histories have it among them."""
    journal = scope.turn.journal
    number = journal.names.find(name)
    if number is not None:
        among = named(scope.location, number)
        entry = journal.entries.get(among)
        if entry is not None and entry.kind is EntryKind.VERSION:
            return among
    return named(scope.location, journal.names.number(gate_name(name)))
