"""Pin a run to the code path that it first took."""

from __future__ import annotations

from stepwell.errors import HistoryDivergedError
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.packing import pack, unpack
from stepwell.replay.scopes import Scope


def pin_version(scope: Scope, name: str, latest: int) -> int:
    """`latest` for a run that reaches this place for the first time, 1 for one that had passed it;
    for ever the same.
    """
    turn = scope.turn
    location, entry = scope.place(name, EntryKind.VERSION)
    if entry is None:
        pinned = 1 if turn.journal.has_recorded_below(scope.location) else latest
        entry = turn.journal.record(location, EntryKind.VERSION, EntryStatus.DONE, pack([pinned], b""), turn.now)
    (pinned,), _ = unpack(entry.value)
    if pinned > latest:
        path = turn.journal.names.text(location)
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
