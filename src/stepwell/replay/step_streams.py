"""Streams of step bodies: each append is committed while the body runs, under the run's fence.

An append belongs to its attempt. When the step is retried, after a failure or a crash, the first append of the new
attempt withdraws, in the same commit, what earlier attempts had written to that stream. Readers get a reset, and never
see two attempts mixed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from stepwell.codec.base import ANY, Codec, Place, Row
from stepwell.errors import InvalidOptionError, StreamClosedError
from stepwell.ids import RunId
from stepwell.model.live import Append, ChunkKind, check_shown_name

if TYPE_CHECKING:
    from stepwell.replay.bodies import Body


class StreamAppender(Protocol):
    """Commits the appends of running bodies."""

    codec: Codec
    loop: asyncio.AbstractEventLoop

    def is_closed(self, stream: str) -> bool:
        """Whether the workflow has closed the stream."""
        ...

    def put(self, body: Body, append: Append) -> asyncio.Future[None]:
        """Commit a line; done when it is durable. Called on the loop's own thread."""
        ...


class StreamWriter:
    """Appends to streams for one attempt at a step."""

    def __init__(self, body: Body, outlet: StreamAppender, path: str) -> None:
        self._body = body
        self._outlet = outlet
        self._path = path

    def encode(self, stream: str, value: Any) -> Append:
        """The line for a value. Raises for a value that cannot be stored, and for a closed stream."""
        run, body = self._body.run, self._body
        if body.link is not None:
            body.link.check("stream")
        if self._outlet.is_closed(stream):
            raise closed(self._path, stream)
        stored = self._outlet.codec.encode(value, ANY, place=chunk_place(run.workflow, run.run_id, self._path, stream))
        return Append(stream, ChunkKind.DATA, stored, self._path, run.epoch << 20 | body.attempt)

    def put(self, append: Append) -> asyncio.Future[None]:
        """Commit a line, on the loop's own thread."""
        begins = append.stream not in self._body.begun
        if begins:
            self._body.begun |= {append.stream}
        return self._outlet.put(self._body, append._replace(begins=begins))

    def hand_over(self, append: Append) -> None:
        """Commit a line, from any thread, without waiting."""
        if _is_running(self._outlet.loop):
            self.put(append)
        else:
            self._outlet.loop.call_soon_threadsafe(self.put, append)


class StepStream:
    """A stream to append to from inside a step body."""

    def __init__(self, writer: StreamWriter, name: str) -> None:
        self._writer = writer
        self._name = name

    async def append(self, value: Any) -> None:
        """Append a value; it is durable, and readers have it, when this returns.

        For `async def` bodies, on the worker's event loop; in a thread use `write`.
        """
        await self._writer.put(self._writer.encode(self._name, value))

    def write(self, value: Any) -> None:
        """Append a value without waiting, also from a plain function in a thread.

        It becomes durable soon, and no later than the step's own result.
        """
        self._writer.hand_over(self._writer.encode(self._name, value))


def open_step_stream(writer: StreamWriter | None, path: str, name: str) -> StepStream:
    """The stream of that name, for one attempt at a step."""
    check_shown_name(name, what="stream name")
    if writer is None:
        raise InvalidOptionError(
            f"step {path} cannot append to stream {name!r}",
            where=path,
            why="its body runs in a process of its own, or outside a run",
            fix="append from a step without isolate, or from the workflow",
        )
    return StepStream(writer, name)


def chunk_place(workflow: str, run_id: RunId, path: str, stream: str) -> Place:
    """The place of the values of a stream. Their offset is not known before they are stored."""
    return Place(workflow, path, f"a chunk of stream {stream!r}", row=Row(run_id, stream, "chunk"))


def closed(path: str, stream: str) -> StreamClosedError:
    """The error of an append after the close."""
    return StreamClosedError(
        f"stream {stream!r} is closed",
        where=path,
        why="its readers have been told that nothing follows",
        fix="append before the workflow closes it, or use another stream",
    )


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
