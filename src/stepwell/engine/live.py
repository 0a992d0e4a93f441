"""Streams of runs: readers follow them, and are woken when an item is appended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, assert_never

from stepwell.codec.base import Codec
from stepwell.engine.changes import ChangeFlag, Changes
from stepwell.errors import InvalidOptionError, StoreError
from stepwell.ids import RunId
from stepwell.model.live import Chunk, ChunkKind, Page, check_shown_name
from stepwell.model.runs import Run
from stepwell.replay.step_streams import chunk_place
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.store import Store
from stepwell.stores.base.wakeups import HintKind

PAGE = 32
_FLOWS = frozenset({HintKind.STREAM, HintKind.ENDED})

V = TypeVar("V", covariant=True)


@dataclass(frozen=True, slots=True)
class StreamItem(Generic[V]):
    """A value of a stream. Continue after it with `after=item.offset`.

    `source` is the path of the step that appended it, or "" for the workflow itself.
    """

    offset: int
    value: V
    source: str


@dataclass(frozen=True, slots=True)
class StreamReset:
    """A step started again: drop the items of this `source` with an offset of `since` or above."""

    offset: int
    source: str
    since: int


Items = AsyncIterator[StreamItem[V] | StreamReset]


def check_stream(name: str, after: Any) -> None:
    """Raise for an invalid name or offset."""
    check_shown_name(name, what="stream name")
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after < 1 << 63:
        raise InvalidOptionError(
            f"a stream cannot be read after offset {after!r}",
            where=f"stream {name!r}",
            why="offsets are whole numbers from 1; 0 means from the beginning",
            fix="give the offset of the last item that you have, or 0",
        )


async def follow(
    store: Store, codec: Codec, find: Callable[[], Awaitable[Run]], name: str, after: int, hint: Any
) -> Items[Any]:
    """The items of a stream after an offset, as they arrive, until the stream is closed or the run has ended."""
    run = await find()
    reader = StreamReader(codec, run, name, after, hint)
    changed, changes = ChangeFlag(), Changes(store, _FLOWS)
    changes.listen(run.run_id, changed)
    try:
        while not reader.is_closed:
            changed.clear()
            page = await _look(store, run.run_id, name, reader.after)
            for chunk in page.chunks:
                item = reader.read(chunk)
                if item is not None:
                    yield item
            if len(page.chunks) < PAGE:
                if page.is_over:
                    return
                await changed.heard()
    finally:
        changes.unlisten(run.run_id, changed)


class StreamReader:
    """The position of one reader, and the items that it has from each source."""

    def __init__(self, codec: Codec, run: Run, name: str, after: int, hint: Any) -> None:
        self._codec = codec
        self._run = run
        self._name = name
        self._hint = hint
        self._began_after = after
        self._latest: dict[str, int] = {}  # of each source: the offset of the last item
        self.after = after
        self.is_closed = False

    def read(self, chunk: Chunk) -> StreamItem[Any] | StreamReset | None:
        """The item for the reader; None for a reset that withdraws only items that the reader does not have."""
        self.after = chunk.offset
        match chunk.kind:
            case ChunkKind.DATA:
                self._latest[chunk.source] = chunk.offset
                place = chunk_place(self._run.workflow, self._run.run_id, chunk.source, self._name)
                return StreamItem(chunk.offset, self._codec.decode(chunk.value, self._hint, place=place), chunk.source)
            case ChunkKind.RESET:
                since = int(chunk.value)
                had = max(self._began_after, self._latest.get(chunk.source, 0))
                return StreamReset(chunk.offset, chunk.source, since) if since <= had else None
            case ChunkKind.CLOSE:
                self.is_closed = True
                return None
            case _:
                assert_never(chunk.kind)


async def _look(store: Store, run_id: RunId, name: str, after: int) -> Page:
    try:
        return await store.views.read_stream(run_id, name, after=after, limit=PAGE)
    except StoreError as error:
        if is_final(error):
            raise
        return Page((), False)
