"""Append to a stream from the workflow, and close it."""

from __future__ import annotations

from typing import Any

from stepwell.codec.base import ANY
from stepwell.errors import InvalidOptionError
from stepwell.model.entries import Entry
from stepwell.model.live import Append, ChunkKind, check_shown_name
from stepwell.model.locations import ROOT, Location
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.operations import Operation
from stepwell.replay.recorded_values import settle_value
from stepwell.replay.scopes import Scope
from stepwell.replay.step_streams import chunk_place, closed

NOTHING = b"jnull"


class Stream:
    """A durable output of this run. Clients read it from any offset, while the run is active and afterwards."""

    __slots__ = ("_name", "_scope")

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope = scope
        self._name = check_shown_name(name, what="stream name")

    def append(self, value: Any) -> Operation[None]:
        """Append a value. It is recorded once, and reaches readers with the run's next commit."""
        return self._operation(f"stream {self._name}", ChunkKind.DATA, value)

    def close(self) -> Operation[None]:
        """Tell readers that nothing follows. The end of the run does the same."""
        if self._scope.location != ROOT:
            raise InvalidOptionError(
                f"stream {self._name!r} was closed inside a branch",
                where=self._scope.turn.journal.names.text(self._scope.location),
                why="other branches may still append to it",
                fix="close it in the workflow itself, after the branches",
            )
        return self._operation(f"close {self._name}", ChunkKind.CLOSE, None)

    def _operation(self, place: str, kind: ChunkKind, value: Any) -> Operation[None]:
        scope, name = self._scope, self._name
        location, entry = scope.place(place, EntryKind.STREAM)
        return Operation(scope.turn, location, lambda: run_append(scope, location, entry, name, kind, value))


async def run_append(
    scope: Scope, location: Location, entry: Entry | None, stream: str, kind: ChunkKind, value: Any
) -> None:
    """Append one line exactly once. Raises `StreamClosedError` after the close."""
    turn = scope.turn
    path = turn.journal.names.text(location)
    if entry is None:
        await turn.order.reach_end()
        if stream in turn.closed_streams:
            raise closed(path, stream)
        stored = b""
        if kind is ChunkKind.DATA:
            stored, _ = settle_value(turn, value, ANY, chunk_place(turn.run.workflow, turn.run.run_id, path, stream))
        entry = turn.journal.record(location, EntryKind.STREAM, EntryStatus.DONE, NOTHING, turn.now)
        turn.journal.append(Append(stream, kind, stored))
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    if kind is ChunkKind.CLOSE:
        turn.closed_streams.add(stream)
