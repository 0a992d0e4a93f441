"""Drafts of repairs: what a repair would change, computed from the record alone, without a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from stepwell.advice import Advice, Verb
from stepwell.clock import Instant
from stepwell.errors import InvalidMoveError, NotFoundError
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId, derived_run_id
from stepwell.model.amendments import Amendment, Dropped, loosened
from stepwell.model.entries import Attempt, Entry
from stepwell.model.failures import decode_failure, encode_failure
from stepwell.model.locations import (
    ROOT,
    Location,
    carried_from,
    format_path,
    former,
    former_number,
    is_former,
    is_undoing,
    is_within,
    loops_around,
    prefixes,
    undo,
)
from stepwell.model.runs import History, Ranges, Run
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.nearest import nearest
from stepwell.replay.headers import unpack
from stepwell.replay.journal import Journal
from stepwell.replay.primitives.child import child_label
from stepwell.stores.base.views import Detail

START = "/"  # the path of the whole run
_NEVER = Instant(1 << 62)


@dataclass(slots=True)
class Draft:
    """A repair of one run that is being planned."""

    detail: Detail
    now: Instant
    dropped: dict[Location, Entry] = field(default_factory=dict)
    whole: set[Location] = field(default_factory=set)  # loops, maps and the place itself: all below them is dropped
    undone: set[Location] = field(default_factory=set)  # of the dropped ones: those whose effects were undone
    ended_cursors: set[Location] = field(default_factory=set)
    ended_progress: set[Location] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    waits: tuple[Wait, ...] = ()
    children: list[Dropped] = field(default_factory=list)
    retries: list[RunId] = field(default_factory=list)
    names: tuple[str, ...] = ()  # new ones
    consumed: set[int] = field(default_factory=set)
    version: int | None = None
    input: bytes | None = None

    @property
    def run(self) -> Run:
        """The run as it was read."""
        return self.detail.run

    @property
    def kept(self) -> list[Entry]:
        """The entries that stay, in their order."""
        return [entry for entry in self.detail.history.entries if entry.location not in self.dropped]

    @property
    def loose(self) -> Ranges:
        """What the code may leave out, because the record before it is dropped."""
        taken = [entry.seq for entry in self.dropped.values()]
        return loosened(self.run.loose, taken, [entry.seq for entry in self.kept])

    def path(self, location: Location) -> str:
        """A location as text for people."""
        return format_path(location, (*self.detail.history.names, *self.names)) or START

    def key(self, location: Location) -> str:
        """A location as text for deriving ids."""
        return format_path(location, (*self.detail.history.names, *self.names), is_key=True)

    def history(self) -> History:
        """The history after the repair."""
        before = self.detail.history
        numbered = {(one.location, one.number): one for one in (*before.attempts, *self.attempts)}
        return History(
            (*before.names, *self.names),
            (*self.kept, *self.entries),
            tuple(numbered[key] for key in sorted(numbered)),
            tuple(one for one in before.cursors if one.location not in self.ended_cursors),
            self.waits,
            tuple(one for one in before.progress if one.location not in self.ended_progress),
        )

    def future(self) -> Run:
        """The run after the repair."""
        run = self.run
        return run._replace(
            status=RunStatus.PENDING,
            cause=None,
            failure=None,
            undo_floor=0,
            retried_at=self.now,
            loose=self.loose,
            last_seq=run.last_seq + len(self.entries),
            version=run.version if self.version is None else self.version,
            input=run.input if self.input is None else self.input,
        )

    def amendment(self, amendment_id: str, verb: str, by: str, reason: str) -> Amendment:
        """The draft as the store applies it."""
        run = self.run
        return Amendment(
            amendment_id,
            run.run_id,
            run.status,
            run.epoch,
            run.revision,
            verb,
            by,
            reason,
            forgotten=tuple(sorted(self.dropped)),
            ended_cursors=tuple(sorted(self.ended_cursors)),
            ended_progress=tuple(sorted(self.ended_progress)),
            attempts=tuple(self.attempts),
            entries=tuple(self.entries),
            waits=self.waits,
            children=tuple(self.children),
            retries=tuple(self.retries),
            version=self.version,
            input=self.input,
            names=self.names,
            consumed=tuple(sorted(self.consumed)),
            loose=self.loose,
        )


def places(detail: Detail) -> dict[str, Location]:
    """Every place that is recorded, waited at or begun, and every scope around it, by path."""
    history = detail.history
    known: Iterable[Location] = (
        *(one.location for one in history.entries),
        *(one.location for one in history.waits),
        *(one.location for one in history.attempts),
        *(one.location for one in history.cursors),
        *(one.location for one in history.progress),
        *(location for _, location, _ in _children(detail)),
    )
    return {format_path(at, history.names): at for location in known for at in prefixes(location)}


def locate(detail: Detail, path: str) -> Location:
    """The place that a path names. Raises `NotFoundError` with similar paths."""
    if path.strip() == START:
        return ROOT
    known = places(detail)
    wanted = path.strip().strip("/")
    if wanted not in known:
        fix = Advice(Verb.SHOW, detail.run.run_id, note="see its recorded places")
        raise NotFoundError("place", path, near=nearest(wanted, list(known)), fix=fix)
    return known[wanted]


def rewind(detail: Detail, location: Location, now: Instant) -> Draft:
    """Drop a place, and all that was recorded after it. The rest is a state that the run has been in before.

    A loop or map is rewound as a whole: its state after some of its iterations is not stored.
    """
    if is_undoing(location):
        raise InvalidMoveError(
            f"{format_path(location, detail.history.names)} is an undo, and a run cannot be rewound to it",
            fix="name the step that it undoes",
        )
    if carried_from(location):
        raise InvalidMoveError(
            f"{format_path(location, detail.history.names)} was done by a predecessor of this run",
            fix="name a place of this run",
        )
    loops = loops_around(location)
    target = loops[0] if loops else location
    draft = Draft(detail, now, whole={target})
    entries = detail.history.entries
    seqs = [entry.seq for entry in entries if is_within(entry.location, target) and not carried_from(entry.location)]
    cut = min(seqs, default=detail.run.last_seq + 1)
    while True:
        cut_at = next((entry.at for entry in entries if entry.seq >= cut), _NEVER)
        _drop_since(draft, cut, cut_at)
        lowest = min((entry.seq for entry in draft.dropped.values()), default=cut)
        if lowest >= cut:
            break
        cut = lowest
    _drop_undone(draft)
    draft.ended_progress = {one.location for one in detail.history.progress}
    _drop_children(draft, lambda run: run.created_at >= cut_at)
    _keep_tries(draft)
    return draft


def go_on(detail: Detail, now: Instant) -> Draft:
    """Continue a run from its last record; a failed run, from its failure."""
    draft = Draft(detail, now, waits=detail.history.waits)
    run, names = detail.run, detail.history.names
    failure = decode_failure(run.failure) if run.failure and run.status is RunStatus.FAILED else None
    if failure is not None:
        for entry in detail.history.entries:
            if entry.status is EntryStatus.FAILED and failure.concerns(format_path(entry.location, names)):
                draft.dropped[entry.location] = entry
        draft.retries = [
            child.run_id
            for child, at, _ in _children(detail)
            if at in draft.dropped and child.status is RunStatus.FAILED
        ]
    before = set(draft.dropped)
    _drop_undone(draft)
    _drop_children(draft, lambda _: False, but=before)
    return draft


def retry_now(detail: Detail, now: Instant) -> Draft | None:
    """End the waits for next attempts, and keep all others; None if no step waits for its next attempt."""
    waits = detail.history.waits
    left = tuple(wait for wait in waits if wait.kind is not WaitKind.RETRY)
    is_plain = detail.run.status is RunStatus.WAITING and detail.run.cause is None
    return Draft(detail, now, waits=left) if is_plain and len(left) < len(waits) else None


def find_left(detail: Detail, path: str) -> Location:
    """The step at a path whose effect is still to be undone by an incomplete rollback.

    Raises `NotFoundError` or `InvalidMoveError` if there is none.
    """
    run, history = detail.run, detail.history
    left = {one.location: one for one in Journal(run.run_id, history, run.last_seq).left_to_undo(run.undo_floor)}
    step = locate(detail, path)
    if step in left:
        return step
    paths = ", ".join(format_path(one, history.names) for one in left)
    is_undone = any(entry.location == undo(step) for entry in history.entries)
    raise InvalidMoveError(
        f"{path} cannot be marked as undone",
        where=run.run_id,
        why="it is undone already" if is_undone else "it is not a step that this rollback undoes",
        fix=f"name a step that is left to undo: {paths}",
    )


def fork_at(detail: Detail, location: Location, now: Instant) -> Draft:
    """What a fork from a place starts with: what `rewind` would leave. A loop whose state was dropped at the end of the
    run starts again.
    """
    draft = rewind(detail, location, now)
    cursors = {one.location for one in detail.history.cursors}
    for entry in draft.kept:
        for loop in loops_around(entry.location):
            is_open = loop not in cursors and all(one.location != loop for one in draft.kept)
            if is_open and detail.run.ended_at is not None and detail.run.status is not RunStatus.FAILED:
                _drop_whole(draft, loop)
    return draft


def _drop_since(draft: Draft, cut: int, cut_at: Instant) -> None:
    """Drop what was recorded from a seq on, and as a whole every loop that has recorded anything since."""
    history = draft.detail.history
    for entry in history.entries:
        if entry.seq >= cut:
            draft.dropped[entry.location] = entry
            if entry.kind is EntryKind.LOOP:
                draft.whole.add(entry.location)
    for cursor in history.cursors:
        (moved_at,), _ = unpack(cursor.state)
        if moved_at >= cut_at or any(is_within(at, cursor.location) for at in draft.dropped):
            draft.whole.add(cursor.location)
    for scope in tuple(draft.whole):
        _drop_whole(draft, scope)


def _drop_whole(draft: Draft, scope: Location) -> None:
    draft.whole.add(scope)
    history = draft.detail.history
    # The steps of predecessors can still be undone, however far this run is rewound.
    own = [one for one in history.entries if not carried_from(one.location)]
    draft.dropped |= {one.location: one for one in own if is_within(one.location, scope)}
    draft.ended_cursors |= {one.location for one in history.cursors if is_within(one.location, scope)}


def _drop_undone(draft: Draft) -> None:
    """Drop undone steps, so that they run again, and everything that contains their results."""
    recorded = {entry.location: entry for entry in draft.detail.history.entries}
    for location in [at for at in recorded if undo(at) in recorded and not is_undoing(at)]:
        if location in draft.dropped:
            continue
        draft.undone.add(location)
        for loop in loops_around(location):
            if loop in recorded or any(one.location == loop for one in draft.detail.history.cursors):
                _drop_whole(draft, loop)
        draft.dropped |= {at: recorded[at] for at in prefixes(location) if at in recorded}
    undoing = [entry for entry in recorded.values() if is_undoing(entry.location)]
    draft.dropped |= {entry.location: entry for entry in undoing}


def _children(detail: Detail) -> Iterator[tuple[Run, Location, bool]]:
    """The children of the run with their calls, and whether the run does not wait for them."""
    for child in detail.children:
        if child.parent is not None and not is_former(child.parent.location):
            yield child, child.parent.location, child.parent.detached


def _drop_children(draft: Draft, is_later: Callable[[Run], bool], but: Iterable[Location] = ()) -> None:
    """Release the children whose calls are dropped, and count them, so that new children get other ids."""
    recorded = {entry.location for entry in draft.detail.history.entries}
    kept, every = set(but), [child.parent.location for child in draft.detail.children if child.parent is not None]
    for child, at, _ in _children(draft.detail):
        if at in recorded:
            is_dropped = at in draft.dropped and at not in kept
        else:
            is_dropped = is_later(child) or any(is_within(at, scope) for scope in draft.whole)
        if is_dropped:
            number = 1 + max((former_number(one, at) for one in every), default=0)
            successor = derived_run_id(draft.run.run_id, child_label(draft.key(at), number))
            draft.children.append(Dropped(child.run_id, former(at, number), successor))
            gone = encode_failure(
                FailureRecord("Rewound", f"the child {child.run_id} was dropped", run_id=child.run_id)
            )
            draft.attempts += [Attempt(at, each, draft.now, gone, None) for each in range(1, number + 1)]


def _keep_tries(draft: Draft) -> None:
    """Keep counting the attempts of a step whose result is dropped."""
    known: dict[Location, int] = {}
    gone = encode_failure(FailureRecord("Rewound", "the result was dropped"))
    for attempt in draft.detail.history.attempts:
        known[attempt.location] = known.get(attempt.location, 0) + 1
        entry = draft.dropped.get(attempt.location)
        if entry is not None and entry.status is EntryStatus.DONE and attempt.is_unknown:
            draft.attempts.append(attempt._replace(at=entry.at, failure=gone))
    for location, entry in sorted(draft.dropped.items()):
        if entry.kind is EntryKind.STEP:
            numbers = range(known.get(location, 0) + 1, entry.attempts + 1)
            draft.attempts += [Attempt(location, number, entry.at, gone, None) for number in numbers]
