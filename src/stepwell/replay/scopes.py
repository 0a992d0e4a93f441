"""Scopes: the part of a path in which names are unique, and the time that code in it sees."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from stepwell.clock import Instant
from stepwell.model.entries import Entry
from stepwell.model.locations import ROOT, Location, beside, first_name, named, nth, use
from stepwell.model.states import ENTRIES_OF_WAITS, EntryKind
from stepwell.replay import divergence
from stepwell.replay.copies import are_small
from stepwell.replay.deprecations import warn_of_repeat
from stepwell.replay.event_loop import Numbers, Timer
from stepwell.replay.fingerprints import describe_arguments, join_fingerprints, split_fingerprints
from stepwell.replay.timers import arm_timer

if TYPE_CHECKING:
    from stepwell.replay.turn import Turn


class _Name:
    """A name in one scope: how often the code has used it, and the arguments of its first use."""

    __slots__ = ("first", "is_unique", "packed", "uses")

    def __init__(self, packed: Location) -> None:
        self.packed = packed  # below the root
        self.uses = 0
        self.is_unique = False
        self.first: bytes | tuple[Any, ...] = b""  # its fingerprint, or the arguments themselves if they cannot change


class Scope:
    """The place of operations: the workflow itself, a branch, or one iteration of a loop."""

    __slots__ = ("_draws", "_names", "is_closed", "location", "numbers", "parent", "time", "turn")

    def __init__(self, turn: Turn, location: Location, time: Instant, parent: Scope | None = None) -> None:
        self.turn = turn
        self.location = location
        self.parent = parent
        self.time = time  # when the last result reached code in this scope: the value of `ctx.now()`
        self.numbers = turn.loop.numbers if parent is None else Numbers()  # of its tasks, futures and operations
        self.is_closed = False  # its branch lost or was cancelled: it can no longer record anything
        self._names: dict[str, _Name] = {}
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

    def place(
        self, name: str, kind: EntryKind, *, repeat: bool = False, unique: bool = False
    ) -> tuple[Location, Entry | None]:
        """Fix the path of an operation that the code calls now, and look up its entry.

        The first use of a name is at `name`, the others at `name#2`, `name#3` and so on.
        """
        if repeat:
            warn_of_repeat()
        return self._place(name, kind, unique)[1:]

    def place_call(
        self,
        name: str,
        kind: EntryKind,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        unique: bool = False,
        fingerprint: bool = True,
        repeat: bool = False,
    ) -> tuple[Location, Entry | None]:
        """The same for an operation with arguments. A numbered use records a fingerprint of its arguments, and the
        second use that of the first, too, so a replay that passes others is noticed.
        """
        if repeat:
            warn_of_repeat()
        known, location, entry = self._place(name, kind, unique)
        if not fingerprint:
            return location, entry
        arguments = (*args, kwargs) if kwargs else args
        turn = self.turn
        codec, journal = turn.codec, turn.journal
        if known.uses == 1:
            known.first = arguments if are_small(args, kwargs) else codec.fingerprint(arguments) or b""
            if journal.has_loaded:
                self._check_first(known, location, arguments)
            return location, entry
        if entry is None:
            own = codec.fingerprint(arguments) or b""
            first = known.first
            if first:
                known.first = b""
                first = codec.fingerprint(first) or b"" if type(first) is tuple else first
            journal.fingerprints[location] = join_fingerprints(own, first)  # type: ignore[arg-type]
        elif entry.fingerprint is not None:
            self._check_arguments(entry, split_fingerprints(entry.fingerprint)[0], location, arguments)
        return location, entry

    def place_note(self, name: str, kind: EntryKind) -> tuple[Location, Entry | None]:
        """The same for what the code notes at once, and may note again under the same name."""
        self.check_open()
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = _Name(named(ROOT, self.turn.journal.names.number(name)))
        known.uses += 1
        location = Location(self.location + known.packed)
        location = location if known.uses == 1 else use(location, known.uses)
        return location, self._enter(location, kind)

    def _place(self, name: str, kind: EntryKind, unique: bool) -> tuple[_Name, Location, Entry | None]:
        turn = self.turn
        if self.parent is not None or self.is_closed:
            self.check_open()
        else:
            turn.check_open()
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = _Name(named(ROOT, turn.journal.names.number(name)))
        if turn.journal.zero_based:
            location = self._numbered_from_zero(known)
        elif known.uses == 0:
            known.uses = 1
            location = Location(self.location + known.packed)
        else:
            known.uses += 1
            location = nth(self.location, known.packed, known.uses)
        if unique or known.is_unique or turn.has_unique_names:
            self._check_unique(known, location, kind)
        return known, location, self._enter(location, kind)

    def _numbered_from_zero(self, known: _Name) -> Location:
        """The place of a use in a history in which uses of some names count from `name#0`.

        Beside them, the code of that time could have an operation that was not numbered.
        """
        journal = self.turn.journal
        base = Location(self.location + known.packed)
        if base not in journal.zero_based:
            known.uses += 1
            return base if known.uses == 1 else nth(self.location, known.packed, known.uses)
        is_recorded = base in journal.entries or base in journal.waits
        if is_recorded and base not in journal.visited:
            return base
        known.uses += 1
        return use(base, known.uses - 1)

    def _check_unique(self, known: _Name, location: Location, kind: EntryKind) -> None:
        turn, known.is_unique = self.turn, True
        if known.uses > 1:
            base = Location(self.location + known.packed)
            first = turn.journal.visited.get(base) or kind
            path = turn.journal.names.text
            problem = divergence.duplicate(
                path(base), first.word, kind.word, is_workflow=turn.has_unique_names, second_path=path(location)
            )
            raise turn.diverge(problem)

    def _check_first(self, known: _Name, location: Location, arguments: tuple[Any, ...]) -> None:
        """Compare the first use with what the second one recorded of it."""
        second = self.turn.journal.entries.get(nth(self.location, known.packed, 2))
        if second is not None and second.fingerprint is not None:
            self._check_arguments(second, split_fingerprints(second.fingerprint)[1], location, arguments)

    def _check_arguments(self, entry: Entry, recorded: bytes, location: Location, arguments: tuple[Any, ...]) -> None:
        turn = self.turn
        if not recorded or turn.codec.has_fingerprint(arguments, recorded):
            return
        # After a repair, or with results that a person supplied, the code may pass others.
        if turn.codec.fingerprint(arguments) is None or any(low < entry.seq <= high for low, high in turn.run.loose):
            return
        path = turn.journal.names.text(location)
        words = describe_arguments(turn.codec, recorded, arguments)
        raise turn.diverge(divergence.arguments_changed(path, entry.kind, *words))

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
            path = journal.names.text(location)
            raise turn.diverge(divergence.duplicate(path, first.word, kind.word, second_path=path))
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
