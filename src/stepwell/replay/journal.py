"""The journal: a run's history in memory, what the code has visited of it, and what is not committed yet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.commits import Commit, Move
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.live import Append, Published
from stepwell.model.locations import Location, Names, carried_from, is_below, is_undoing, subtree, undo
from stepwell.model.outbox import Emit
from stepwell.model.runs import History, NewRun, Ranges
from stepwell.model.signals import Refusal, Reply
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.model.workers import Fence
from stepwell.replay.headers import unpack

if TYPE_CHECKING:
    from stepwell.replay.steps import Step

_GATE = EntryKind.VERSION

SPAWNED_MAX = 1_000  # of the runs that forgotten iterations of a loop have spawned, so many can still be waited for
_NAMED = frozenset({EntryKind.CHECKPOINT, EntryKind.SPAWN})


@dataclass(slots=True)
class PendingExtras:
    """What few commits carry beside entries."""

    attempts: list[Attempt] = field(default_factory=list)
    cursors: dict[Location, Cursor] = field(default_factory=dict)
    ended_cursors: list[Location] = field(default_factory=list)
    trims: list[tuple[Location, Location]] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)
    children: list[NewRun] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    received: dict[int, None] = field(default_factory=dict)
    emits: list[Emit] = field(default_factory=list)
    published: dict[str, Published] = field(default_factory=dict)
    appends: list[Append] = field(default_factory=list)
    progress: dict[Location, Progress] = field(default_factory=dict)
    ended_progress: list[Location] = field(default_factory=list)
    ended_attempts: list[tuple[Location, int]] = field(default_factory=list)


class Pending:
    """What the next commit will carry: nearly always entries alone, so the extras are made when they are needed."""

    __slots__ = ("_extras", "entries", "is_urgent", "receipts")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.is_urgent = False  # something that must be durable before the next effect
        self.receipts = 0  # how many of the entries are receipts that a replay would make again
        self._extras: PendingExtras | None = None

    @property
    def extras(self) -> PendingExtras:
        """What is not entries, to be added to."""
        if self._extras is None:
            self._extras = PendingExtras()
        return self._extras

    @property
    def extras_if_any(self) -> PendingExtras | None:
        """What is not entries, if there was ever any."""
        return self._extras


class Journal:
    """One run's history: look-ups by location, the visited set, and the delta."""

    def __init__(self, run_id: RunId, history: History, last_seq: int) -> None:
        self.run_id = run_id
        self.names = Names(history.names)
        self.entries = {entry.location: entry for entry in history.entries}
        self.cursors = {cursor.location: cursor for cursor in history.cursors}
        self.waits = {wait.location: wait for wait in history.waits}
        self.progress = {progress.location: progress for progress in history.progress}
        self.attempts: dict[Location, list[Attempt]] = {}
        for attempt in history.attempts:
            self.attempts.setdefault(attempt.location, []).append(attempt)
        self.last_seq = last_seq
        self.loaded_seq = last_seq  # what is above it was recorded here
        self.position = 0  # the seq of the latest result that reached the code
        self._loaded = sorted(self.entries)
        self.visited: dict[Location, EntryKind | None] = {}  # what the code came to as what; None: it passes over it
        # Recorded entries that the code has not passed yet: 0 means live. It may leave gates out.
        self._gates = {entry.location for entry in history.entries if entry.kind is _GATE}
        self.unvisited = len(self.entries) - len(self._gates)
        self.ahead = set(self.waits)  # where it stood waiting, until the code comes there again
        self.awaited = set(self.waits)  # the same, whatever is recorded before the code comes there
        self.replies: dict[Location, int] = {}  # recorded; the code that gave them may not run again
        self.repeated: dict[Location, Entry] = {}  # what has ended, and whose inner code is being run again
        self._pass_over_carried()
        self.bound: dict[Location, Step[..., Any]] = {}  # steps that can be undone, as the code passed them here
        self.pending = Pending()

    def _pass_over_carried(self) -> None:
        """What predecessors did is not passed by this run's code: it is there to be undone."""
        for location in reversed(self._loaded):  # they stand behind all others
            number = carried_from(location)
            if number == 0:
                break
            self.visited[location] = None
            self.unvisited -= 1
            described = self.entries[location].undo
            if described is not None and not is_undoing(location):
                self.names.origins[number] = unpack(described)[0][2]

    # --- reading ---

    def recall(self, location: Location) -> Entry | None:
        """The recorded entry of an operation that the code visits now."""
        entry = self.entries.get(location)
        if entry is not None and entry.kind is not _GATE:
            self.unvisited -= 1
        return entry

    def reach_wait(self, location: Location) -> Wait | None:
        """The stored wait of a place, if any; the code has come there again."""
        self.ahead.discard(location)
        self.awaited.discard(location)
        return self.waits.get(location)

    def find_wait(self, location: Location, kind: WaitKind) -> Wait | None:
        """The wait that was stored here before, with its deadline."""
        stored = self.waits.get(location)
        return stored if stored is not None and stored.kind is kind else None

    def skip_below(self, scope: Location) -> None:
        """Everything below a finished operation counts as visited: it is not run again."""
        self.skip(*subtree(scope))

    def skip(self, first: Location, end: Location) -> None:
        """A range of keys counts as visited, and what was waited for in it as come."""
        if self.awaited:
            self.awaited = {at for at in self.awaited if not first <= at < end}
        for location in self._loaded[bisect_left(self._loaded, first) : bisect_left(self._loaded, end)]:
            if location not in self.visited:
                self.visited[location] = None
                if location not in self._gates:
                    self.unvisited -= 1

    @contextmanager
    def repeating(self, entry: Entry) -> Iterator[None]:
        """The inner code of a recorded operation is run again: all that it comes to is recorded."""
        self.repeated[entry.location] = entry
        try:
            yield
        finally:
            del self.repeated[entry.location]

    def pass_replies(self, position: int | None = None) -> None:
        """Replies up to a position, or all that the code has not come to, were given by code that is not run again."""
        for location, seq in tuple(self.replies.items()):
            if position is None or seq <= position:
                del self.replies[location]
                self.visited[location] = None
                self.unvisited -= 1

    def leave_only(self, scopes: Iterable[Location]) -> None:
        """Everything counts as visited but what is recorded below these scopes: a rollback passes only that."""
        self.visited.update(dict.fromkeys(self._loaded))
        self.ahead.intersection_update(self.waits)
        forward, self.awaited = self.awaited & self.waits.keys(), set()
        for scope in scopes:
            first, end = subtree(scope)
            self.awaited.update(at for at in forward if first <= at < end)
            below = self._loaded[bisect_left(self._loaded, first) : bisect_left(self._loaded, end)]
            for location in below:
                self.visited.pop(location, None)
        self.unvisited = sum(
            location in self.entries and location not in self.visited and location not in self._gates
            for location in self._loaded
        )

    def forward(self) -> Journal:
        """A journal with what is recorded of the forward code, for a replay that leaves no trace in this one."""
        attempts = tuple(attempt for tried in self.attempts.values() for attempt in tried)
        history = History(
            self.names.texts,
            tuple(entry for entry in self.entries.values() if not is_undoing(entry.location)),
            attempts,
            tuple(self.cursors.values()),
            tuple(self.waits.values()),
            tuple(self.progress.values()),
        )
        return Journal(self.run_id, history, self.last_seq)

    def missing(self) -> Iterator[Entry]:
        """Recorded entries that the code has not visited, in the order of their commit."""
        for entry in sorted(self.entries.values()):
            if entry.location in self.replies:
                continue
            if entry.location not in self.visited and entry.kind not in (_GATE, EntryKind.UNDO):
                yield entry

    def unpassed(self, loose: Ranges) -> tuple[list[Entry], list[Wait]]:
        """What the code should have come to once nothing recorded is left to hand to it: entries, those apart that were
        recorded after what a repair took out, which may have set the code on another way; and waits.
        """
        entries = [*self.missing()] if self.unvisited > 0 else []
        if loose:
            entries = [one for one in entries if not any(low < one.seq <= high for low, high in loose)]
        entries += self.repeated.values()
        reached = {at for at in self.awaited if at in self.visited and at not in self.entries}
        return entries, [self.waits[at] for at in sorted(self.awaited - reached) if at in self.waits]

    def forget_pending(self) -> None:
        """Nothing that is not committed yet is to be committed."""
        self.pending = Pending()
        self.names.take_new()

    def has_recorded_below(self, scope: Location) -> bool:
        """Whether anything not yet visited is recorded, or waited for, in a scope:
        the run has been beyond this point.
        """
        if self.unvisited and any(
            location not in self.visited and is_below(location, scope) for location in self.entries
        ):
            return True
        return any(location not in self.visited and is_below(location, scope) for location in self.waits)

    # --- writing ---

    def record(
        self,
        location: Location,
        kind: EntryKind,
        status: EntryStatus,
        value: bytes,
        at: Instant,
        took: int = 0,
        attempts: int = 0,
        undo: bytes | None = None,
        *,
        is_urgent: bool = True,
    ) -> Entry:
        """Append the one result of an operation."""
        self.ahead.clear()
        self.last_seq += 1
        self.position = self.last_seq
        entry = Entry(self.last_seq, location, kind, status, value, at, took, attempts, undo)
        self.entries[location] = entry
        self.pending.entries.append(entry)
        if is_urgent:
            self.pending.is_urgent = True
        if self.progress and status is EntryStatus.DONE:
            self.end_progress(location)
        if self.attempts and status is EntryStatus.DONE:
            self._end_attempt(location)
        return entry

    def record_receipt(self, location: Location, value: bytes, at: Instant) -> Entry:
        """Append the receipt of a signal that a replay would receive here again: the signal is durable, so its receipt
        need not be before the next effect. Only the time of it would be another one; see `pin`.
        """
        # After a result that would be lost, the code might not come here again.
        is_first = len(self.pending.entries) == self.pending.receipts
        self.pending.receipts += 1
        return self.record(location, EntryKind.RECEIVE, EntryStatus.DONE, value, at, is_urgent=not is_first)

    def pin(self) -> None:
        """The code has looked at the time of the latest result: that must be durable before the next effect."""
        if self.pending.entries:
            self.pending.is_urgent = True

    def adopt(self, entry: Entry) -> None:
        """The result of a transactional step: it is durable already."""
        self.ahead.clear()
        self.last_seq = entry.seq
        self.entries[entry.location] = entry

    def record_attempt(self, attempt: Attempt) -> None:
        """Append a failed attempt, or the beginning of one, which the outcome replaces."""
        known = self.attempts.setdefault(attempt.location, [])
        extras = self.pending.extras
        if known and known[-1].number == attempt.number:
            before = known.pop()
            extras.attempts = [one for one in extras.attempts if one is not before]
        known.append(attempt)
        extras.attempts.append(attempt)
        self.pending.is_urgent = True

    def _end_attempt(self, location: Location) -> None:
        """A step is done: that its last attempt began says nothing more."""
        known = self.attempts.get(location)
        if known and known[-1].is_beginning:
            begun, extras = known.pop(), self.pending.extras
            extras.attempts = [one for one in extras.attempts if one is not begun]
            extras.ended_attempts.append((location, begun.number))

    def keep_progress(self, progress: Progress) -> None:
        """A body has come further. It is durable with the next commit, which is due now."""
        self.progress[progress.location] = progress
        self.pending.extras.progress[progress.location] = progress
        self.pending.is_urgent = True

    def end_progress(self, location: Location) -> None:
        """A step is done, or no longer needed: how far its body had come is forgotten."""
        if self.progress.pop(location, None) is not None:
            self.pending.extras.progress.pop(location, None)
            self.pending.extras.ended_progress.append(location)

    def move_cursor(self, cursor: Cursor) -> None:
        """A loop has come further. Not urgent: without it, recorded iterations are replayed."""
        self.cursors[cursor.location] = cursor
        self.pending.extras.cursors[cursor.location] = cursor

    def end_cursor(self, location: Location) -> None:
        """A loop is over."""
        self.cursors.pop(location, None)
        self.pending.extras.cursors.pop(location, None)
        self.pending.extras.ended_cursors.append(location)

    def trim(self, first: Location, end: Location) -> None:
        """Forget a range of keys; what can still be undone stays."""
        for location in [found for found in self.entries if first <= found < end]:
            if self.entries[location].undo is None:
                del self.entries[location]
        # Nothing comes there again; a loop that never ends would keep the places of all its iterations.
        for location in [found for found in self.visited if first <= found < end and found not in self.entries]:
            del self.visited[location]
        for location in [found for found in self.bound if first <= found < end and found not in self.entries]:
            del self.bound[location]
        for table in (self.attempts, self.cursors, self.waits, self.pending.extras.cursors):
            for location in [found for found in table if first <= found < end]:
                del table[location]
        for location in [found for found in self.progress if first <= found < end]:
            self.end_progress(location)
        for location in [found for found in self.replies if first <= found < end]:
            del self.replies[location]
        self.awaited.intersection_update(self.waits)
        # Entries of the range that no commit has carried yet are still sent: the sequence has no gaps.
        self.pending.extras.trims.append((first, end))
        self.pending.is_urgent = True

    def trim_loop(self, loop: Location, first: Location, end: Location) -> None:
        """Forget the iterations in a range of keys. What later code can name stays: of each name the latest checkpoint,
        and the last runs that were spawned.
        """
        old = [entry for at, entry in self.entries.items() if loop < at < end and entry.kind in _NAMED]
        if not old:
            self.trim(first, end)
            return
        old.sort()
        checkpoints = {self._checkpoint(one): one for one in old if one.kind is EntryKind.CHECKPOINT}
        spawned = [one for one in old if one.kind is EntryKind.SPAWN]
        kept = {one.location: one for one in (*checkpoints.values(), *spawned[-SPAWNED_MAX:])}
        at = first
        for location in sorted(kept):
            if location >= first:
                self.trim(at, location)
                at = Location(location + b"\0")  # the next key
        self.trim(at, end)
        for entry in old:
            if entry.location < first and entry.location not in kept and entry.location in self.entries:
                self.trim(entry.location, Location(entry.location + b"\0"))

    def _checkpoint(self, entry: Entry) -> str:
        return self.names.text(entry.location).rpartition("/")[2].partition("#")[0]

    def consume(self, number: int) -> None:
        """A signal was used; it is consumed in the commit that carries its use."""
        self.pending.extras.consumed.append(number)

    def refuse(self, number: int, reason: str) -> None:
        """A signal does not fit; it is set aside with the next commit."""
        self.pending.extras.refused.append(Refusal(number, reason))

    def reply(self, reply: Reply) -> None:
        """Somebody who asked is answered with the next commit."""
        self.pending.extras.replies.append(reply)

    def receive_event(self, number: int) -> None:
        """An event was used, perhaps by several waits; it leaves the inbox in the commit that carries its use."""
        self.pending.extras.received[number] = None

    def start_child(self, child: NewRun) -> None:
        """A child begins with the next commit."""
        self.pending.extras.children.append(child)
        self.pending.is_urgent = True

    def cancel_child(self, location: Location) -> None:
        """Nobody waits any more for the child of a place: it never begins, or is cancelled with the next commit."""
        extras = self.pending.extras
        begun = [child for child in extras.children if child.parent is None or child.parent.location != location]
        if len(begun) < len(extras.children):
            extras.children = begun
        else:
            self.trim(*subtree(location))

    def emit(self, emit: Emit) -> None:
        """An event is published with the commit that carries the entry recorded beside it."""
        self.pending.extras.emits.append(emit)

    def publish(self, name: str, value: bytes) -> None:
        """Show a value with the next commit. Not urgent: it makes no commit of its own."""
        self.pending.extras.published[name] = Published(name, self.position, value)

    def append(self, append: Append) -> None:
        """Append to a stream with the next commit."""
        self.pending.extras.appends.append(append)
        self.pending.is_urgent = True

    def undo_stack(self, floor: int) -> list[Entry]:
        """What can still be undone, last committed first. What a compensation does is not undone in its turn."""
        stack = [
            entry
            for entry in self.entries.values()
            if entry.undo is not None and entry.seq > floor and not is_undoing(entry.location)
        ]
        return sorted(stack, reverse=True)

    def left_to_undo(self, floor: int) -> list[Entry]:
        """What can be undone and is not undone yet, last committed first."""
        return [entry for entry in self.undo_stack(floor) if undo(entry.location) not in self.entries]

    def take(self, fence: Fence, number: int, waits: tuple[Wait, ...] | None, move: Move | None) -> Commit:
        """Everything that is not committed yet, as one commit."""
        pending, self.pending = self.pending, Pending()
        names, entries, extras = self.names.take_new(), tuple(pending.entries), pending.extras_if_any
        if extras is None:
            return Commit(self.run_id, fence, number, names, entries, (), (), (), (), (), (), waits, move)
        return Commit(
            self.run_id,
            fence,
            number,
            names,
            entries,
            tuple(extras.attempts),
            tuple(extras.cursors.values()),
            tuple(extras.ended_cursors),
            tuple(extras.trims),
            tuple(extras.consumed),
            tuple(extras.children),
            waits,
            move,
            tuple(extras.refused),
            tuple(extras.replies),
            tuple(extras.received),
            tuple(extras.emits),
            None,
            tuple(extras.published.values()),
            tuple(extras.appends),
            tuple(extras.progress.values()),
            tuple(extras.ended_progress),
            tuple(extras.ended_attempts),
        )
