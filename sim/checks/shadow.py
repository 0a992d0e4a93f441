"""The checker's own record of what was committed, kept from the commits and compared with what the store says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stepwell.clock import Instant
from stepwell.model.entries import Attempt, Entry, Progress
from stepwell.model.locations import Location, format_path, is_undoing, undo
from stepwell.model.states import EntryKind, WaitKind
from stepwell.model.undos import is_settled


@dataclass(slots=True)
class Shadow:
    """One run as the checker remembers it."""

    run_id: str
    names: list[str] = field(default_factory=list)
    entries: dict[Location, Entry] = field(default_factory=dict)  # what the store must still have
    ever: dict[Location, Entry] = field(default_factory=dict)  # also what was trimmed
    paths: dict[str, Entry] = field(default_factory=dict)  # `ever`, spelled
    attempts: dict[Location, list[Attempt]] = field(default_factory=dict)
    started: dict[tuple[Location, int], int] = field(default_factory=dict)  # at-most-once starts, with their epoch
    undoable: dict[Location, Entry] = field(default_factory=dict)  # by the location of their undo
    closed: list[Location] = field(default_factory=list)  # ended joins, races and loops
    deadlines: dict[tuple[Location, WaitKind], Instant | None] = field(default_factory=dict)
    limits: dict[tuple[Location, WaitKind | int], Instant | None] = field(default_factory=dict)
    applied: dict[int, int] = field(default_factory=dict)  # last commit number of each epoch
    loops: set[Location] = field(default_factory=set)  # begun, with a cursor, and not ended
    progress: dict[Location, Progress] = field(default_factory=dict)  # of long steps
    promised: dict[int, Entry] = field(default_factory=dict)  # receipts that a body relied on before they were durable
    told: dict[Location, Any] = field(default_factory=dict)  # what a body was told when it first started
    witnessed: dict[str, str] = field(default_factory=dict)  # what code had seen when a body began after it
    last_seq: int = 0
    floor: int = 0
    stalls: int = 0
    retries: int = 0
    retried_at: int = 0

    def path(self, location: Location) -> str:
        """The path of a location, as people read it."""
        return format_path(location, self.names)

    def add(self, entry: Entry) -> None:
        """Remember an entry."""
        self.entries[entry.location] = self.ever[entry.location] = entry
        self.paths[self.path(entry.location)] = entry
        self.last_seq = entry.seq
        if entry.undo is not None and not is_undoing(entry.location):  # what undoes is not undone in its turn
            self.undoable[undo(entry.location)] = entry
        if entry.kind in (EntryKind.JOIN, EntryKind.RACE, EntryKind.LOOP, EntryKind.MAP, EntryKind.ITEM):
            self.closed.append(entry.location)

    def trim(self, low: Location, high: Location) -> None:
        """What the store may forget."""
        inside = [(at, entry) for at, entry in self.entries.items() if low <= at < high]
        for location in [at for at, entry in inside if entry.undo is None or is_settled(entry, self.entries)]:
            del self.entries[location]
            self.undoable.pop(undo(location), None)
        for location in [at for at in self.attempts if low <= at < high]:
            del self.attempts[location]

    def forget(self, location: Location) -> None:
        """A failed entry that a retry removed: it may be recorded again, and so may a race's trimmed losers."""
        self.closed = [at for at in self.closed if at in self.entries or not at.startswith(location)]
        self.closed = [at for at in self.closed if at != location]
        for at in [
            one for one in self.ever if one.startswith(location) and (one == location or one not in self.entries)
        ]:
            del self.ever[at]
            self.paths.pop(self.path(at), None)
        self.entries.pop(location, None)
        self.limits.clear()
        self.deadlines.clear()  # an end deletes all waits; a retry arms them anew

    def forgive(self, now: Instant) -> None:
        """An operator lets it try again: no attempt that was made counts any more, though the clock was set back."""
        self.retried_at = max([now, *(attempt.at for past in self.attempts.values() for attempt in past)])

    def left_to_undo(self) -> list[Entry]:
        """What a rollback still has to undo, last first."""
        left = [
            e
            for at, e in self.undoable.items()
            if e.seq > self.floor and at not in self.ever and not is_settled(e, self.entries)
        ]
        return sorted(left, key=lambda entry: entry.seq, reverse=True)
