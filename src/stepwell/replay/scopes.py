"""Scopes: the part of a path in which names are unique, and the time that code in it sees."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import TYPE_CHECKING

from stepwell.clock import Instant
from stepwell.model.entries import Entry
from stepwell.model.locations import Location, beside, first_name, named, use
from stepwell.model.states import ENTRIES_OF_WAITS, EntryKind
from stepwell.replay import divergence
from stepwell.replay.event_loop import Numbers, Timer
from stepwell.replay.timers import arm_timer

if TYPE_CHECKING:
    from stepwell.replay.turn import Turn


class Scope:
    """The place of operations: the workflow itself, a branch, or one iteration of a loop."""

    __slots__ = ("_draws", "_places", "_uses", "is_closed", "location", "numbers", "parent", "time", "turn")

    def __init__(self, turn: Turn, location: Location, time: Instant, parent: Scope | None = None) -> None:
        self.turn = turn
        self.location = location
        self.parent = parent
        self.time = time  # when the last result reached code in this scope: the value of `ctx.now()`
        self.numbers = turn.loop.numbers if parent is None else Numbers()  # of its tasks, futures and operations
        self.is_closed = False  # its branch lost or was cancelled: it can no longer record anything
        self._places: dict[str, Location] = {}
        self._uses: dict[str, int] = {}
        self._draws = 0

    def below(self, location: Location) -> Scope:
        """A scope inside this one, which begins with the same time."""
        return Scope(self.turn, location, self.time, self)

    def check_open(self) -> None:
        """Reject operations of a branch that has lost."""
        self.turn.check_open()
        if not self.is_open:
            raise asyncio.CancelledError

    @property
    def is_open(self) -> bool:
        """Whether neither its own branch nor one around it has lost."""
        scope: Scope | None = self
        while scope is not None:
            if scope.is_closed:
                return False
            scope = scope.parent
        return True

    def place(self, name: str, kind: EntryKind, *, repeat: bool = False) -> tuple[Location, Entry | None]:
        """Fix the path of an operation that the code calls now, and look up its entry."""
        if self.parent is not None or self.is_closed:
            self.check_open()
        else:
            self.turn.check_open()
        location = self._places.get(name)
        if location is None:
            location = self._places[name] = named(self.location, self.turn.journal.names.number(name))
        if repeat:
            nth = self._uses.get(name, 0)
            self._uses[name] = nth + 1
            location = use(location, nth)
        return location, self._enter(location, kind)

    def place_note(self, name: str, kind: EntryKind) -> tuple[Location, Entry | None]:
        """The same for what the code notes at once, and may note again under the same name: `name`, `name#2`, …"""
        self.check_open()
        nth = self._uses[name] = self._uses.get(name, 0) + 1
        location = named(self.location, self.turn.journal.names.number(name))
        location = location if nth == 1 else use(location, nth)
        return location, self._enter(location, kind)

    def place_companion(
        self, location: Location, word: str, kind: EntryKind, *, number: int | None = None
    ) -> tuple[Location, Entry | None]:
        """Fix the path of an operation that belongs to another one: `approve#2` has its `approve reply#2`."""
        self.check_open()
        names = self.turn.journal.names
        name = names.texts[first_name(location, self.location)]
        mine = beside(location, self.location, names.number(f"{name} {word}"))
        if number is not None:
            mine = use(mine, number)
        return mine, self._enter(mine, kind)

    def find_companion(self, location: Location, word: str, *, number: int | None = None) -> Location | None:
        """Where `place_companion` would place an operation; None if this run has never used its name."""
        names = self.turn.journal.names
        found = names.find(f"{names.texts[first_name(location, self.location)]} {word}")
        if found is None:
            return None
        mine = beside(location, self.location, found)
        return mine if number is None else use(mine, number)

    def enter(self, location: Location, kind: EntryKind) -> Entry | None:
        """Visit a place that belongs to an operation, and look up its entry."""
        return self._enter(location, kind)

    def _enter(self, location: Location, kind: EntryKind) -> Entry | None:
        turn, journal = self.turn, self.turn.journal
        if location in journal.visited:
            first = journal.visited[location] or kind
            raise turn.diverge(divergence.duplicate(journal.names.text(location), first.word, kind.word))
        journal.visited[location] = kind
        entry = journal.recall(location)
        if entry is not None:
            if entry.kind is not kind:
                raise turn.diverge(divergence.kind_changed(journal.names.text(location), entry.kind, kind))
        elif journal.waits:
            wait = journal.waits.get(location)
            if wait is not None and kind not in ENTRIES_OF_WAITS[wait.kind]:
                raise turn.diverge(divergence.wait_changed(journal.names.text(location), wait.kind.value, kind))
        return entry

    def note_result(self, entry: Entry, *, uses_signals: bool = True) -> None:
        """A result reaches the code: its time becomes the scope's, and it consumes the signals that were seen here."""
        if entry.at > self.time:
            self.time = entry.at
        observations = self.turn.mailbox.observations
        if observations is not None and uses_signals:
            observations.passed(self.location, entry, is_new=entry.seq > self.turn.journal.loaded_seq)

    def ended(self) -> None:
        """The code of this scope has returned: questions that it has not answered pass to the surrounding code."""
        if self.turn.mailbox.observations is not None:
            self.turn.mailbox.observations.left(self.location)
        if self.turn.owed and self.parent is not None:
            for asked in self.turn.owed:
                asked.pass_to(self.parent.location, within=self.location)

    def abandoned(self, *, is_recorded: bool = False) -> None:
        """The code of this scope has lost or failed: it consumes nothing, and its unanswered questions are refused.

        If that is recorded, they have been refused already.
        """
        if self.turn.mailbox.observations is not None:
            self.turn.mailbox.observations.left(self.location)
        if self.turn.owed and not self.turn.is_closed:
            for asked in tuple(self.turn.owed):
                asked.give_up(within=self.location, is_told=is_recorded)

    def read_time(self) -> Instant:
        """The scope's time, which code sees: it must be durable before the next effect."""
        self.turn.journal.pin()
        return self.time

    def arm(self, timer: Timer, due_at: Instant) -> None:
        """Call the callback of a timer of asyncio when it is due."""
        arm_timer(self, timer, due_at)

    def draw(self, size: int = 8) -> bytes:
        """The next pseudo-random bytes of this scope: a function of run, scope and count, so a replay gets the same."""
        self._draws += 1
        seed = f"{self.turn.run.run_id}\x1f{self._draws}\x1f".encode() + self.location
        return hashlib.blake2b(seed, digest_size=size).digest()

    def draw_uuid(self) -> uuid.UUID:
        """A random UUID, the same in a replay."""
        return uuid.UUID(bytes=self.draw(16), version=4)
