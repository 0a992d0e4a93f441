"""Which effects of a run a rollback would undo, computed from its entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwell.model.entries import Entry
from stepwell.model.locations import Location, begun_at, is_undoing, undo
from stepwell.model.states import EntryKind, EntryStatus

_BEGUN, _DONE = EntryKind.BEGUN, EntryStatus.DONE


def is_settled(entry: Entry, entries: Mapping[Location, Entry]) -> bool:
    """Whether an entry is the beginning of something whose result is recorded, so that nothing is left to be undone."""
    if entry.kind is not _BEGUN:
        return False
    done = entries.get(begun_at(entry.location))
    return done is not None and done.status is _DONE


def undo_stack(entries: Mapping[Location, Entry], floor: int = 0) -> list[Entry]:
    """The entries that have a compensation, last committed first. What a compensation does is not undone."""
    stack = [
        entry
        for entry in entries.values()
        if entry.undo is not None
        and entry.seq > floor
        and not is_undoing(entry.location)
        and not is_settled(entry, entries)
    ]
    return sorted(stack, reverse=True)


def left_to_undo(entries: Iterable[Entry], floor: int = 0) -> list[Entry]:
    """The entries that have a compensation and are not undone yet, last committed first."""
    known = {entry.location: entry for entry in entries}
    return [entry for entry in undo_stack(known, floor) if undo(entry.location) not in known]
