"""The journal: a run's history in memory, which of it the code has visited, and what is not committed yet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwell.clock import Instant
from stepwell.ids import RunId
from stepwell.model.attributes import Description, combined
from stepwell.model.commits import Commit, Move
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.live import Append, Published
from stepwell.model.locations import (
    Location,
    Names,
    carried_from,
    counting_from_zero,
    is_below,
    is_undoing,
    numbered_use,
    subtree,
    undo,
)
from stepwell.model.outbox import Emit
from stepwell.model.records import RecordClosing, RecordOpening
from stepwell.model.runs import History, NewRun, Ranges
from stepwell.model.signals import Refusal, Reply
from stepwell.model.states import NOTES, EntryKind, EntryStatus, WaitKind
from stepwell.model.undos import is_settled, undo_stack
from stepwell.model.waits import Wait
from stepwell.model.workers import Fence
from stepwell.replay.headers import pack, unpack

if TYPE_CHECKING:
    from stepwell.replay.steps import Step

SPAWNED_MAX = 1_000  # runs spawned by trimmed iterations of a loop that the history still names
_NAMED = frozenset({EntryKind.CHECKPOINT, EntryKind.SPAWN})
_LEFT_OUT = NOTES | {EntryKind.UNDO}
BLOCK = pack(["cleanup"], b"")


@dataclass(slots=True)
class PendingExtras:
    """The parts of a commit other than entries. Few commits have any."""

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
    opened: list[RecordOpening] = field(default_factory=list)
    closed: list[RecordClosing] = field(default_factory=list)
    description: Description | None = None


class Pending:
    """What the next commit will carry. It is nearly always entries alone, so the extras are made on demand."""

    __slots__ = ("_extras", "entries", "is_urgent", "notes", "receipts")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.is_urgent = False  # it has something that must be durable before the next effect
        self.receipts = 0  # how many of the entries are receipts and notes that a replay would make again
        self.notes = 0  # how many of those describe the run
        self._extras: PendingExtras | None = None

    @property
    def extras(self) -> PendingExtras:
        """The parts other than entries, made if needed."""
        if self._extras is None:
            self._extras = PendingExtras()
        return self._extras

    @property
    def extras_if_any(self) -> PendingExtras | None:
        """The parts other than entries; None if there were none so far."""
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
        self.loaded_seq = last_seq  # entries above it were recorded in this claim
        self.position = 0  # the seq of the latest result that reached the code
        self._loaded = sorted(self.entries)
        self.visited: dict[Location, EntryKind | None] = {}  # as which kind; None: it was skipped
        # Recorded entries that the code has not passed yet; at 0 it is live. The code may leave notes out.
        self._notes = {entry.location for entry in history.entries if entry.kind in NOTES}
        # The beginnings of blocks with a clean-up that may not have ended.
        self.blocks = {one.location for one in history.entries if one.kind is EntryKind.BEGUN and one.value == BLOCK}
        self.unvisited = len(self.entries) - len(self._notes)
        self.ahead = set(self.waits)  # where the run waited, until the code reaches the place again
        self.awaited = set(self.waits)  # the same, even if something is recorded there before the code reaches it
        self.replies: dict[Location, int] = {}  # recorded; the code that gave them may not run again
        self.repeated: dict[Location, Entry] = {}  # ended operations whose inner code is running again
        self.described: Description | None = None  # what this claim has changed, committed or not
        self._pass_over_carried()
        self.has_loaded = bool(self._loaded)
        self.zero_based = self._find_zero_based()
        self.fingerprints: dict[Location, bytes | None] = {}  # of the arguments of operations that have not ended
        self._spawned: dict[str, Location] = {}  # by run id, of entries up to this seq:
        self._spawned_seq = 0
        self.bound: dict[Location, Step[..., Any]] = {}  # steps that can be undone, as the code passed them here
        self.bound_effects: dict[Location, Callable[..., Any]] = {}  # what undoes other effects, likewise
        self.pending = Pending()

    def _pass_over_carried(self) -> None:
        """Skip the entries of predecessors. This run's code does not pass them; they are kept to be undone."""
        for location in reversed(self._loaded):  # they sort after all others
            number = carried_from(location)
            if number == 0:
                break
            self.visited[location] = None
            self.unvisited -= 1
            described = self.entries[location].undo
            if described is not None and not is_undoing(location):
                self.names.origins[number] = unpack(described)[0][2]

    def _find_zero_based(self) -> frozenset[Location]:
        """The names whose uses count from 0 in this history: it began when `repeat=True` numbered every use."""
        return counting_from_zero((*self.entries, *self.waits, *self.attempts, *self.progress, *self.cursors))

    # --- reading ---

    def recall(self, location: Location) -> Entry | None:
        """The recorded entry of an operation that the code visits now."""
        entry = self.entries.get(location)
        if entry is not None and entry.kind not in NOTES:
            self.unvisited -= 1
        return entry

    def reach_wait(self, location: Location) -> Wait | None:
        """The stored wait of a place that the code reaches now, if there is one."""
        self.ahead.discard(location)
        self.awaited.discard(location)
        return self.waits.get(location)

    def find_wait(self, location: Location, kind: WaitKind) -> Wait | None:
        """The wait that was stored here before, with its deadline."""
        stored = self.waits.get(location)
        return stored if stored is not None and stored.kind is kind else None

    def find_spawned(self, run_id: RunId) -> Location | None:
        """The place where this run spawned another run."""
        if self._spawned_seq < self.last_seq:
            for entry in reversed(self.entries.values()):
                if entry.seq <= self._spawned_seq:
                    break
                if entry.kind is EntryKind.SPAWN:
                    self._spawned[unpack(entry.value)[0][0]] = entry.location
            self._spawned_seq = self.last_seq
        location = self._spawned.get(run_id)
        return location if location in self.entries else None

    def later_uses(self, scope: Location, first: Location) -> set[Location]:
        """The second and later uses of a name in this history; `first` is the location of its first use."""
        found = {numbered_use(at, scope, first) for at in (*self._loaded, *self.waits)}
        return {at for at in found if at is not None}

    def skip_below(self, scope: Location) -> None:
        """Mark everything below a finished operation as visited: it does not run again."""
        self.skip(*subtree(scope))

    def skip(self, first: Location, end: Location) -> None:
        """Mark a range of keys as visited, and its waits as reached."""
        if self.awaited:
            self.awaited = {at for at in self.awaited if not first <= at < end}
        for location in self._loaded[bisect_left(self._loaded, first) : bisect_left(self._loaded, end)]:
            if location not in self.visited:
                self.visited[location] = None
                if location not in self._notes:
                    self.unvisited -= 1

    @contextmanager
    def repeating(self, entry: Entry) -> Iterator[None]:
        """While the inner code of a recorded operation runs again: everything that it reaches is recorded."""
        self.repeated[entry.location] = entry
        try:
            yield
        finally:
            del self.repeated[entry.location]

    def pass_replies(self, position: int | None = None) -> None:
        """Mark replies as passed, up to a position or all: the code that gave them does not run again."""
        for location, seq in tuple(self.replies.items()):
            if position is None or seq <= position:
                del self.replies[location]
                self.visited[location] = None
                self.unvisited -= 1

    def skip_all_except(self, scopes: Iterable[Location]) -> None:
        """Mark everything as visited except entries below these scopes: a rollback passes only those."""
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
            location in self.entries and location not in self.visited and location not in self._notes
            for location in self._loaded
        )

    def forward(self) -> Journal:
        """A journal with the entries of the forward code, for a replay that does not change this journal."""
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
            if entry.location not in self.visited and entry.kind not in _LEFT_OUT:
                yield entry

    def unpassed(self, loose: Ranges) -> tuple[list[Entry], list[Wait]]:
        """Entries and waits that the code has not reached although it has received every recorded result.

        Entries in `loose` ranges are left out: a repair removed earlier entries, so the code may take another path.
        """
        entries = [*self.missing()] if self.unvisited > 0 else []
        if loose:
            entries = [one for one in entries if not any(low < one.seq <= high for low, high in loose)]
        entries += self.repeated.values()
        reached = {at for at in self.awaited if at in self.visited and at not in self.entries}
        return entries, [self.waits[at] for at in sorted(self.awaited - reached) if at in self.waits]

    def forget_pending(self) -> None:
        """Drop everything that is not committed yet."""
        self.pending = Pending()
        self.names.take_new()

    def has_recorded_below(self, scope: Location) -> bool:
        """Whether a scope has an entry or a wait that the code has not visited yet: the run was beyond this point."""
        if self.unvisited and any(
            location not in self.visited and is_below(location, scope) for location in self.entries
        ):
            return True
        return any(location not in self.visited and is_below(location, scope) for location in self.waits)

    def is_ahead_below(self, scope: Location, loose: Ranges) -> bool:
        """Whether a scope has an entry or a wait that the code is still to pass: the run was beyond this point.

        Not counted are notes, and entries in `loose` ranges, which the code may leave out.
        """
        ahead = [entry for at, entry in self.entries.items() if at not in self.visited and is_below(at, scope)]
        if any(not any(low < one.seq <= high for low, high in loose) for one in ahead if one.kind not in _LEFT_OUT):
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
        """Append the result of an operation."""
        self.ahead.clear()
        self.last_seq += 1
        self.position = self.last_seq
        fingerprint = self.fingerprints.pop(location, None) if self.fingerprints else None
        entry = Entry(self.last_seq, location, kind, status, value, at, took, attempts, undo, fingerprint)
        self.entries[location] = entry
        self.pending.entries.append(entry)
        if kind is EntryKind.BEGUN and value == BLOCK:
            self.blocks.add(location)
        if is_urgent:
            self.pending.is_urgent = True
        if self.progress and status is EntryStatus.DONE:
            self.end_progress(location)
        if self.attempts and status is EntryStatus.DONE:
            self._end_attempt(location)
        return entry

    def record_receipt(self, location: Location, value: bytes, at: Instant) -> Entry:
        """Append the receipt of a signal that a replay would receive here again.

        The signal is durable, so the receipt need not be durable before the next effect. Only its time would differ
        after a crash; see `pin`.
        """
        # If an earlier result can be lost, the code might not reach this place again.
        is_first = len(self.pending.entries) == self.pending.receipts
        self.pending.receipts += 1
        return self.record(location, EntryKind.RECEIVE, EntryStatus.DONE, value, at, is_urgent=not is_first)

    def describe(self, location: Location, value: bytes, at: Instant, change: Description | None) -> None:
        """Note that the run is described in another way; without a change, that this was refused.

        It need not be durable before the next effect: a replay makes it again. It is no result, so it leaves the
        position of the code as it is.
        """
        status = EntryStatus.FAILED if change is None else EntryStatus.DONE
        self.last_seq += 1
        self.entries[location] = entry = Entry(self.last_seq, location, EntryKind.DESCRIBE, status, value, at, 0)
        self.pending.entries.append(entry)
        self.pending.receipts += 1
        self.pending.notes += 1
        if change is not None:
            self.described = combined(self.described, change)
            self.pending.extras.description = combined(self.pending.extras.description, change)

    def pin(self) -> None:
        """The code has read the time of the latest result, so that must be durable before the next effect."""
        if len(self.pending.entries) > self.pending.notes:
            self.pending.is_urgent = True

    def adopt(self, entry: Entry) -> None:
        """Add the result of a transactional step, which is durable already."""
        self.ahead.clear()
        self.fingerprints.pop(entry.location, None)
        self.last_seq = entry.seq
        self.entries[entry.location] = entry

    def record_attempt(self, attempt: Attempt) -> None:
        """Append a failed attempt, or the beginning of an attempt, which the outcome replaces."""
        known = self.attempts.setdefault(attempt.location, [])
        extras = self.pending.extras
        if known and known[-1].number == attempt.number:
            before = known.pop()
            extras.attempts = [one for one in extras.attempts if one is not before]
        known.append(attempt)
        extras.attempts.append(attempt)
        self.pending.is_urgent = True

    def _end_attempt(self, location: Location) -> None:
        """A step is done: the recorded beginning of its last attempt is no longer needed."""
        known = self.attempts.get(location)
        if known and known[-1].is_beginning:
            begun, extras = known.pop(), self.pending.extras
            extras.attempts = [one for one in extras.attempts if one is not begun]
            extras.ended_attempts.append((location, begun.number))

    def forget_attempts(self, location: Location, *, keep: int) -> None:
        """Drop the oldest attempts of a step that is retried without a limit, so that its record does not grow."""
        known = self.attempts.get(location, [])
        while len(known) > keep:
            oldest, extras = known.pop(0), self.pending.extras
            extras.attempts = [one for one in extras.attempts if one is not oldest]
            extras.ended_attempts.append((location, oldest.number))

    def keep_progress(self, progress: Progress) -> None:
        """Keep the progress of a body. The next commit, which is due now, makes it durable."""
        self.progress[progress.location] = progress
        self.pending.extras.progress[progress.location] = progress
        self.pending.is_urgent = True

    def end_progress(self, location: Location) -> None:
        """A step is done or no longer needed: drop the progress of its body."""
        if self.progress.pop(location, None) is not None:
            self.pending.extras.progress.pop(location, None)
            self.pending.extras.ended_progress.append(location)

    def move_cursor(self, cursor: Cursor) -> None:
        """Move the cursor of a loop. Not urgent: without it, recorded iterations are replayed."""
        self.cursors[cursor.location] = cursor
        self.pending.extras.cursors[cursor.location] = cursor

    def end_cursor(self, location: Location) -> None:
        """A loop has ended: drop its cursor."""
        self.cursors.pop(location, None)
        self.pending.extras.cursors.pop(location, None)
        self.pending.extras.ended_cursors.append(location)

    def trim(self, first: Location, end: Location) -> None:
        """Drop the entries in a range of keys, except entries that can still be undone."""
        gone = [found for found in self.entries if first <= found < end and not self._stays(found)]
        for location in gone:
            del self.entries[location]
        self.blocks.difference_update(gone)
        # The code does not reach these places again. An endless loop would keep the places of all its iterations.
        for location in [found for found in self.visited if first <= found < end and found not in self.entries]:
            del self.visited[location]
        for bound in (self.bound, self.bound_effects):
            for location in [found for found in bound if first <= found < end and found not in self.entries]:
                del bound[location]
        for location in [found for found in self.fingerprints if first <= found < end]:
            del self.fingerprints[location]
        for table in (self.attempts, self.cursors, self.waits, self.pending.extras.cursors):
            for location in [found for found in table if first <= found < end]:
                del table[location]
        for location in [found for found in self.progress if first <= found < end]:
            self.end_progress(location)
        for location in [found for found in self.replies if first <= found < end]:
            del self.replies[location]
        self.awaited.intersection_update(self.waits)
        # Entries of the range that are not committed yet are still sent, so that the sequence has no gaps.
        self.pending.extras.trims.append((first, end))
        self.pending.is_urgent = True

    def _stays(self, location: Location) -> bool:
        """Whether an entry may have to be undone."""
        entry = self.entries[location]
        return entry.undo is not None and not is_settled(entry, self.entries)

    def trim_loop(self, loop: Location, first: Location, end: Location) -> None:
        """Drop the iterations in a range of keys. Kept is what later code can name: the latest checkpoint of each name,
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
        """Consume a signal in the commit that records its use."""
        self.pending.extras.consumed.append(number)

    def refuse(self, number: int, reason: str) -> None:
        """Reject a signal that does not fit, with the next commit; it is kept for an operator."""
        self.pending.extras.refused.append(Refusal(number, reason))

    def reply(self, reply: Reply) -> None:
        """Send a reply with the next commit."""
        self.pending.extras.replies.append(reply)

    def receive_event(self, number: int) -> None:
        """Remove an event from the inbox in the commit that records its use, perhaps by several waits."""
        self.pending.extras.received[number] = None

    def start_child(self, child: NewRun) -> None:
        """Start a child with the next commit."""
        self.pending.extras.children.append(child)
        self.pending.is_urgent = True

    def cancel_child(self, location: Location) -> None:
        """The code no longer waits for the child of a place: do not start it, or cancel it with the next commit."""
        extras = self.pending.extras
        begun = [child for child in extras.children if child.parent is None or child.parent.location != location]
        if len(begun) < len(extras.children):
            extras.children = begun
        else:
            self.trim(*subtree(location))

    def open_record(self, opening: RecordOpening) -> None:
        """Open a record with the next commit, which also stores the wait for its answer."""
        self.pending.extras.opened.append(opening)
        self.pending.is_urgent = True

    def close_record(self, closing: RecordClosing) -> None:
        """The code no longer waits for a record: do not open it, or close it with the next commit."""
        extras, known = self.pending.extras, (closing.kind, closing.record_id)
        unseen = [one for one in extras.opened if (one.record.kind, one.record.record_id) != known]
        if len(unseen) < len(extras.opened):
            extras.opened = unseen
        else:
            extras.closed.append(closing)
            self.pending.is_urgent = True

    def emit(self, emit: Emit) -> None:
        """Publish an event with the commit that carries its entry."""
        self.pending.extras.emits.append(emit)

    def publish(self, name: str, value: bytes) -> None:
        """Show a value with the next commit. Not urgent: it causes no commit of its own."""
        self.pending.extras.published[name] = Published(name, self.position, value)

    def append(self, append: Append) -> None:
        """Append to a stream with the next commit."""
        self.pending.extras.appends.append(append)
        self.pending.is_urgent = True

    def undo_stack(self, floor: int) -> list[Entry]:
        """The entries that have a compensation, last committed first. Steps of a compensation are not undone."""
        return undo_stack(self.entries, floor)

    def left_to_undo(self, floor: int) -> list[Entry]:
        """The entries that have a compensation and are not undone yet, last committed first."""
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
            tuple(extras.opened),
            tuple(extras.closed),
            extras.description,
        )
