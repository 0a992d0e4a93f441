"""Histories: the record of one run as pages, as a tree, and as it was at an earlier line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from stepwell.advice import Advice, Verb
from stepwell.clock import to_datetime
from stepwell.engine.backend import Backend
from stepwell.engine.facts import PAYLOAD
from stepwell.engine.outlines import Part, Place, choose, find_place, grow, last_line
from stepwell.engine.undos import Undo, undo_stack
from stepwell.engine.views import (
    BARE,
    EntryView,
    ProgressView,
    RunView,
    WaitView,
    entry_views,
    passage_views,
    plain,
    progress_view,
    run_view,
    wait_views,
    waits_at,
)
from stepwell.errors import NotFoundError
from stepwell.ids import RunId
from stepwell.model.entries import Entry
from stepwell.model.locations import format_path
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.stores.base.overviews import Outline, Passage

NODES_MAX: Final = 2_000
PAGE_MAX: Final = 500
_LONG: Final = 1_000  # entries
_KEPT_MAX: Final = 4
VALUE_MAX: Final = 4_096  # bytes of a stored value that a tree shows


@dataclass(frozen=True, slots=True)
class PlaceView:
    """A place in a run, with what was recorded at it and below it. `count`, `failed` and `retried` are lines.

    `children` is how many places are directly below it, of which `below` may have only some; `number` is its own number
    among the places beside it. `open_since` is for a look into the past: it had begun, and had not ended. A value of
    more than a few kilobytes is left out of `entry`; `omitted` is its size then.
    """

    name: str
    path: str
    number: int
    entry: EntryView | None
    omitted: int | None
    open_since: datetime | None
    waits: tuple[WaitView, ...]
    progress: ProgressView | None
    count: int
    failed: int
    retried: int
    is_moving: bool
    began_at: datetime | None
    ended_at: datetime | None
    children: int
    below: tuple[PlaceView, ...]


@dataclass(frozen=True, slots=True)
class PublishedView:
    """What a run has published under a name, at a position of its history. At an earlier line the value of then is not
    known if it has changed since; then `is_known` is false.
    """

    name: str
    position: int
    is_known: bool
    value: Any = field(metadata=PAYLOAD)


@dataclass(frozen=True, slots=True)
class TreeView:
    """A run as a tree of its places, after line `at` of `last`, at a moment. `is_past` if more was recorded later."""

    run: RunView
    at: int
    last: int
    moment: datetime
    is_past: bool
    root: PlaceView
    published: tuple[PublishedView, ...]


class Histories:
    """`engine.histories`: reads the record of one run in parts, whatever its length."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: dict[RunId, Outline] = {}  # of long histories, the latest last: a person looks at many parts of one
        self._grown: tuple[Outline, int, Place] | None = None  # the latest tree of a long history

    async def page(self, target: str, *, after: int = 0, limit: int = 100) -> list[EntryView]:
        """Lines of a history after a number, in the order of their commits. Raises `NotFoundError`."""
        run_id = await self._run_id(target)
        passage = await self._backend.retrying(
            lambda store: store.overviews.list_entries(run_id, after=after, limit=limit)
        )
        return passage_views(passage, self._backend.fetch)

    async def entry(self, target: str, seq: int) -> EntryView:
        """One line of a history, with its whole value. Raises `NotFoundError`."""
        run_id = await self._run_id(target)
        passage = await self._backend.retrying(lambda store: store.overviews.find_entries(run_id, [seq]))
        found = passage_views(passage, self._backend.fetch)
        if not found:
            raise NotFoundError("line of history", str(seq), fix=Advice(Verb.SHOW, run_id))
        return found[0]

    async def find(self, target: str, *, kinds: frozenset[EntryKind] = frozenset(), text: str = "") -> list[int]:
        """The numbers of the lines of some kinds whose path, kind or status has a text. Raises `NotFoundError`."""
        outline, wanted = await self._outline(target), text.strip().casefold()
        return [
            one.seq
            for one in outline.entries
            if (not kinds or one.kind in kinds) and (not wanted or wanted in _words_of(one, outline.names).casefold())
        ]

    async def lines(self, target: str, seqs: Sequence[int]) -> list[EntryView]:
        """Lines of a history by their numbers, in order. Raises `NotFoundError`."""
        run_id = await self._run_id(target)
        passage = await self._backend.retrying(lambda store: store.overviews.find_entries(run_id, list(seqs)))
        return passage_views(passage, self._backend.fetch)

    async def tree(
        self, target: str, *, at: int | None = None, under: str = "", first: int = 0, limit: int = 500
    ) -> TreeView:
        """A run as a tree of its places; with `at`, as it was after that line.

        Of a long run it is a part: at most `limit` places `under` a path, from number `first` on. Raises
        `NotFoundError`.
        """
        outline = await self._outline(target)
        last = last_line(outline)
        then = last if at is None else min(at, last)
        place = find_place(self._tree(outline, then), under)
        if place is None:
            raise NotFoundError("place", under, fix=Advice(Verb.SHOW, outline.run.run_id))
        part = choose(place, first=first, limit=limit)
        seqs = [one.entry.seq for one in part.places if one.entry is not None]
        passage = await self._backend.retrying(
            lambda store: store.overviews.find_entries(outline.run.run_id, sorted(seqs))
        )
        shown = _Shown(outline, passage, self._backend)
        moment = next((one.at for one in reversed(outline.entries) if one.seq <= then), outline.run.created_at)
        return TreeView(
            run_view(outline.run, fetch=self._backend.fetch),
            then,
            last,
            to_datetime(moment),
            then < last,
            shown.view(part),
            await self._published(outline.run.run_id, then),
        )

    async def side(self, target: str) -> tuple[RunView, list[EntryView], list[WaitView]]:
        """The whole record of a run, for a comparison. Raises `NotFoundError`."""
        detail = await self._backend.detail(target)
        fetch = self._backend.fetch
        return run_view(detail.run, fetch=fetch), entry_views(detail, fetch=fetch), wait_views(detail)

    async def undos(self, target: str) -> Sequence[Undo]:
        """Each step of a run that can be undone, last in first out, and what became of its undo."""
        outline = await self._outline(target)
        return undo_stack(run_view(outline.run), outline.run.undo_floor, outline.names, outline.entries)

    async def published(self, target: str) -> Sequence[PublishedView]:
        """What a run has published, by name; of its newest successor, if it has continued."""
        run = await self._backend.get_last(target)
        return await self._published(run.run_id, run.last_seq)

    async def _published(self, run_id: RunId, at: int) -> tuple[PublishedView, ...]:
        found = await self._backend.retrying(lambda store: store.views.list_published(run_id))
        return tuple(
            PublishedView(
                one.name,
                one.position,
                one.position <= at,
                plain(one.value, self._backend.fetch) if one.position <= at else None,
            )
            for one in found
        )

    async def _outline(self, target: str) -> Outline:
        run = await self._backend.get(target)
        kept = self._kept.pop(run.run_id, None)
        if kept is None or kept.run != run:
            kept = await self._backend.retrying(lambda store: store.overviews.read_outline(run.run_id))
        if kept is None:
            raise NotFoundError("run", target, fix=Advice(Verb.LIST))
        if len(kept.entries) >= _LONG:
            self._kept[run.run_id] = kept
            if len(self._kept) > _KEPT_MAX:
                del self._kept[next(iter(self._kept))]
        return kept

    def _tree(self, outline: Outline, at: int) -> Place:
        if self._grown is not None and self._grown[0] is outline and self._grown[1] == at:
            return self._grown[2]
        root = grow(outline, at)
        self._grown = (outline, at, root) if outline.run.run_id in self._kept else None
        return root

    async def _run_id(self, target: str) -> RunId:
        return (await self._backend.get(target)).run_id


def _words_of(entry: Entry, names: tuple[str, ...]) -> str:
    return f"{format_path(entry.location, names)} {entry.kind.name.lower()} {entry.status.name.lower()}"


class _Shown:
    """Makes the views of the places that are shown."""

    def __init__(self, outline: Outline, passage: Passage, backend: Backend) -> None:
        self._outline = outline
        self._fetch = backend.fetch
        done = [one for one in passage.entries if one.status is EntryStatus.DONE]
        self._omitted = {one.seq: len(one.value) for one in done if len(one.value) > VALUE_MAX}
        # A value that is not shown is not decoded either, where that is possible.
        spared = {one.seq for one in done if one.seq in self._omitted and one.kind in BARE}
        entries = tuple(one._replace(value=b"") if one.seq in spared else one for one in passage.entries)
        views = passage_views(passage._replace(entries=entries), self._fetch)
        self._entries = {one.seq: replace(one, value=None) if one.seq in self._omitted else one for one in views}

    def view(self, part: Part) -> PlaceView:
        place, names = part.place, self._outline.names
        entry = None if place.entry is None else self._entries.get(place.entry.seq)
        if entry is not None and entry.is_undone != place.is_undone:
            entry = replace(entry, is_undone=place.is_undone)  # not yet, at an earlier line
        return PlaceView(
            place.name,
            place.path,
            place.number,
            entry,
            None if place.entry is None else self._omitted.get(place.entry.seq),
            None if place.open_since is None else to_datetime(place.open_since),
            tuple(waits_at(names, place.waits)),
            None if place.progress is None else progress_view(place.path, place.progress, self._fetch),
            place.count,
            place.failed,
            place.retried,
            place.is_moving,
            None if place.began_at is None else to_datetime(place.began_at),
            None if place.ended_at is None else to_datetime(place.ended_at),
            len(place.below),
            tuple(self.view(one) for one in part.below),
        )
