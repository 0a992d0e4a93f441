"""Pin a run to the code path that it first took."""

from __future__ import annotations

from stepwell.errors import HistoryDivergedError
from stepwell.model.locations import Location, gate_name, named, shown_gate
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.headers import pack, unpack
from stepwell.replay.scopes import Scope


def pin_version(scope: Scope, name: str, latest: int) -> int:
    """`latest` for a run that reaches this place for the first time, 1 for a run that had passed it before. It never
    changes for a run.
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
                f"this run is pinned to version {pinned} of {path}, and this code has only versions up to {latest}",
                where=path,
                recorded=f"version {pinned}",
                now=f"version {latest}",
                fix="start a worker with the newer code, or raise the number in ctx.version",
            )
        )
    return int(pinned)


def _location(scope: Scope, name: str) -> Location:
    """The location of a gate. It differs from that of an operation of the same name, except in old histories."""
    journal = scope.turn.journal
    number = journal.names.find(name)
    if number is not None:
        among = named(scope.location, number)
        entry = journal.entries.get(among)
        if entry is not None and entry.kind is EntryKind.VERSION:
            return among
    return named(scope.location, journal.names.number(gate_name(name)))
