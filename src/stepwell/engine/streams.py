"""Streams of one run as lines for pages: what it has appended, and what was withdrawn, without the codec."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from stepwell.engine.backend import Backend
from stepwell.engine.changes import ChangeFlag, Changes
from stepwell.engine.facts import PAYLOAD
from stepwell.engine.live import check_stream
from stepwell.engine.views import plain
from stepwell.errors import StoreError
from stepwell.ids import RunId
from stepwell.model.live import Chunk, ChunkKind
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.wakeups import HintKind

_PAGE: Final = 100
_PAUSE_SECONDS: Final = 0.1  # between two reads of one follower
_FLOWS: Final = frozenset({HintKind.STREAM, HintKind.ENDED})
_WORDS: Final[dict[ChunkKind, Literal["item", "reset", "close"]]] = {
    ChunkKind.DATA: "item",
    ChunkKind.RESET: "reset",
    ChunkKind.CLOSE: "close",
}


@dataclass(frozen=True, slots=True)
class StreamLine:
    """A line of a stream: an item with its value, a reset, or the close.

    After a reset, the items of this `source` with an offset of `since` or above no longer count.
    """

    offset: int
    kind: Literal["item", "reset", "close"]
    source: str
    value: Any = field(default=None, metadata=PAYLOAD)
    since: int | None = None


class StreamPage(NamedTuple):
    """Lines of a stream. Nothing follows them if `is_over`."""

    lines: tuple[StreamLine, ...]
    is_over: bool


class Streams:
    """`engine.streams`: reads the streams of one run line by line. `engine.runs.stream` reads their typed items."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def names(self, target: str) -> list[str]:
        """The names of the streams that a run has appended to, sorted. Raises `NotFoundError`."""
        run = await self._backend.get(target)
        return await self._backend.retrying(lambda store: store.views.list_streams(run.run_id))

    async def page(self, target: str, name: str, *, after: int = 0, limit: int = _PAGE) -> StreamPage:
        """Lines with an offset above `after`. Raises `NotFoundError`."""
        check_stream(name, after)
        run = await self._backend.get(target)
        return await self._read(run.run_id, name, after, limit)

    async def follow(self, target: str, name: str, *, after: int = 0) -> AsyncGenerator[StreamPage | None, None]:
        """Lines as they come, several at once if they come quickly; None for each second without any.

        Ends when the stream is closed, or when the run has ended. Raises `NotFoundError`.
        """
        check_stream(name, after)
        run = await self._backend.get(target)
        changed, changes = ChangeFlag(), Changes(self._backend.store, _FLOWS)
        changes.listen(run.run_id, changed)
        try:
            while True:
                changed.clear()
                page = await self._look(run.run_id, name, after)
                is_closed = any(line.kind == "close" for line in page.lines)
                if page.lines:
                    after = page.lines[-1].offset
                    yield page
                    await asyncio.sleep(_PAUSE_SECONDS)
                else:
                    yield None
                if is_closed or (page.is_over and len(page.lines) < _PAGE):
                    return
                if len(page.lines) < _PAGE:
                    await changed.heard()
        finally:
            changes.unlisten(run.run_id, changed)

    async def _look(self, run_id: RunId, name: str, after: int) -> StreamPage:
        try:
            return await self._read(run_id, name, after, _PAGE)
        except StoreError as error:
            if is_final(error):
                raise
            return StreamPage((), False)

    async def _read(self, run_id: RunId, name: str, after: int, limit: int) -> StreamPage:
        page = await self._backend.store.views.read_stream(run_id, name, after=after, limit=limit)
        is_over = page.is_over and len(page.chunks) < limit
        return StreamPage(tuple(self._line(chunk) for chunk in page.chunks), is_over)

    def _line(self, chunk: Chunk) -> StreamLine:
        kind = _WORDS[chunk.kind]
        if kind == "reset":
            return StreamLine(chunk.offset, kind, chunk.source, since=int(chunk.value))
        value = plain(chunk.value, self._backend.fetch) if kind == "item" else None
        return StreamLine(chunk.offset, kind, chunk.source, value)
