"""Outlines: a history as a tree of its places, now or at an earlier line, in parts of a bounded size. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final, NamedTuple

from stepwell.clock import Instant
from stepwell.model.entries import Entry, Progress
from stepwell.model.locations import ROOT, Location, format_path, undo
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.model.waits import Wait
from stepwell.stores.base.overviews import Outline

_ENDS: Final = 20  # places that are shown at the beginning of a long list, and
_LAST: Final = 5  # at its end
_ODD: Final = 20  # in it: those that failed, were retried, or are not over
_TRIED: Final = frozenset({EntryKind.STEP, EntryKind.UNDO})  # whose attempts are tries
_ROLLBACK: Final = undo(ROOT)  # when the rollback began; code did nothing there


class Place:
    """A place in a run, and what was recorded at it and below it."""

    __slots__ = (
        "above",
        "began_at",
        "below",
        "count",
        "ended_at",
        "entry",
        "failed",
        "is_moving",
        "is_undone",
        "name",
        "number",
        "open_since",
        "path",
        "progress",
        "retried",
        "waits",
    )

    # Written out, with few objects: a history may have tens of thousands of places.
    def __init__(self, name: str, path: str, above: Place | None) -> None:
        self.name = name
        self.path = path
        self.above = above
        self.number = 0  # among the places beside it
        self.entry: Entry | None = None
        self.is_undone = False
        self.open_since: Instant | None = None  # it had begun, and had not ended
        self.waits: tuple[Wait, ...] = ()
        self.progress: Progress | None = None
        self.count = 0  # lines at it and below it
        self.failed = 0
        self.retried = 0
        self.is_moving = False  # something at it or below it is not over
        self.began_at: Instant | None = None
        self.ended_at: Instant | None = None
        self.below: list[Place] = _NONE

    @property
    def iteration(self) -> int | None:
        """The number of an iteration of a loop, or of an item of a map."""
        digits = self.name[1:]
        return int(digits) if self.name[:1] == "~" and digits.isdecimal() else None

    @property
    def is_odd(self) -> bool:
        """Whether a person may look for it in a long list."""
        return self.failed > 0 or self.retried > 0 or self.is_moving


_NONE: Final[list[Place]] = []  # shared, and never changed


class Part(NamedTuple):
    """A place that is shown, with the places below it that are."""

    place: Place
    below: tuple[Part, ...]

    @property
    def places(self) -> Iterator[Place]:
        """All places that are shown."""
        yield self.place
        for part in self.below:
            yield from part.places


def last_line(outline: Outline) -> int:
    """The number of the last line of a history."""
    return outline.entries[-1].seq if outline.entries else 0


def grow(outline: Outline, at: int | None = None) -> Place:
    """The tree of a history, in the order of the first line below each place; at a line, as it was after that line.

    Which waits there were at an earlier line is not recorded. A place whose line came later had begun if the line tells
    so, and the line after the given one belongs to what ran then.
    """
    is_past = at is not None and at < last_line(outline)
    shown = [one for one in outline.entries if one.seq <= at] if is_past and at is not None else outline.entries
    tree = _Tree(outline.names)
    undone = {one.location for one in shown if one.kind is EntryKind.UNDO}
    tree.record(shown, undone)
    if is_past and at is not None:
        then = shown[-1].at if shown else outline.run.created_at
        tree.open(_begun(outline.entries, at, then))
    else:
        tree.wait(outline.waits, outline.progress)
    return tree.sum_up()


def _begun(entries: Iterable[Entry], at: int, then: Instant) -> Iterator[tuple[Entry, Instant]]:
    """What had begun and had not ended."""
    for entry in entries:
        began = Instant(entry.at - entry.took)
        if entry.seq > at and ((entry.took and began <= then) or entry.seq == at + 1):
            yield entry, min(began, then)


class _Tree:
    """A tree that grows."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.root = Place("", "", None)
        self._names = names
        self._places: dict[str, Place] = {"": self.root}

    def record(self, entries: Iterable[Entry], undone: AbstractSet[Location]) -> None:
        names, places, at = self._names, self._places, self._at
        for entry in entries:
            location = entry.location
            if location == _ROLLBACK:
                continue
            path = format_path(location, names)
            place = places.get(path) or at(path)
            place.entry, place.count = entry, 1
            place.began_at, place.ended_at = Instant(entry.at - entry.took), entry.at
            if undone and undo(location) in undone:
                place.is_undone = True
            if entry.status is EntryStatus.FAILED:
                place.failed = 1
            if entry.attempts > 1 and entry.kind in _TRIED:
                place.retried = 1

    def open(self, begun: Iterable[tuple[Entry, Instant]]) -> None:
        for entry, since in begun:
            place = self._at(format_path(entry.location, self._names))
            place.open_since, place.is_moving = since, True

    def wait(self, waits: Iterable[Wait], progress: Iterable[Progress]) -> None:
        for wait in waits:
            place = self._at(format_path(wait.location, self._names))
            place.waits, place.is_moving = (*place.waits, wait), True
        for one in progress:
            place = self._at(format_path(one.location, self._names))
            place.progress, place.is_moving = one, True

    def sum_up(self) -> Place:
        """Add what is below each place to it, and put iterations in their order; returns the root."""
        # A place is made after the one above it.
        for place in reversed(self._places.values()):
            if len(place.below) > 1 and place.below[0].iteration is not None:
                _sort_iterations(place.below)
            above = place.above
            if above is None:
                continue
            above.count += place.count
            above.failed += place.failed
            above.retried += place.retried
            if place.is_moving:
                above.is_moving = True
            began, ended = place.began_at, place.ended_at
            if began is not None and (above.began_at is None or began < above.began_at):
                above.began_at = began
            if ended is not None and (above.ended_at is None or ended > above.ended_at):
                above.ended_at = ended
        return self.root

    def _at(self, path: str) -> Place:
        found = self._places.get(path)
        if found is None:
            scope_path, _, name = path.rpartition("/")
            above = self._places.get(scope_path) or self._at(scope_path)
            found = self._places[path] = Place(name, path, above)
            if above.below is _NONE:
                above.below = [found]
            else:
                found.number = len(above.below)
                above.below.append(found)
        return found


def _sort_iterations(places: list[Place]) -> None:
    """Items of a map may end in any order."""
    numbers = [-1 if one.iteration is None else one.iteration for one in places]
    if any(after < before for before, after in pairwise(numbers)):
        places.sort(key=lambda one: -1 if one.iteration is None else one.iteration)
        for number, one in enumerate(places):
            one.number = number


def find_place(root: Place, path: str) -> Place | None:
    """The place of a path; None if there is none."""
    at = root
    for name in path.split("/") if path else ():
        found = next((one for one in at.below if one.name == name), None)
        if found is None:
            return None
        at = found
    return at


def choose(place: Place, *, first: int, limit: int) -> Part:
    """A part of a tree: the places directly below one place from number `first` on, and as many places below these as
    there is room for. Of a long list below, the first, the last and odd places are shown.
    """
    rows = place.below[first : first + limit]
    chosen: dict[str, Sequence[Place]] = {place.path: rows}
    left, level = limit - len(rows), list(rows)
    while level and left > 0:
        following: list[Place] = []
        for one in level:
            below = _few(one.below)[: max(left, 0)]
            chosen[one.path] = below
            left -= len(below)
            following += below
        level = following
    return _part(place, chosen)


def _few(places: Sequence[Place]) -> Sequence[Place]:
    if len(places) <= _ENDS + _LAST + _ODD:
        return places
    odd = [one for one in places[_ENDS:-_LAST] if one.is_odd][:_ODD]
    return [*places[:_ENDS], *odd, *places[-_LAST:]]


def _part(place: Place, chosen: Mapping[str, Sequence[Place]]) -> Part:
    return Part(place, tuple(_part(one, chosen) for one in chosen.get(place.path, ())))
