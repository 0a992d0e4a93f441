"""A child process, seen from the parent: its pipes, the end of its output, and its exit."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from subprocess import PIPE
from typing import Any, Final, cast

from stepwell.worker.isolation.frames import FRAME_BYTES_MAX
from stepwell.worker.isolation.variables import variables_for

OUTPUT_BYTES_MAX: Final = 64 * 1024
_STDOUT, _STDERR, _ANSWER = 1, 2, 3  # the last is the number of a stream here, not of a descriptor

_STARTED_SECONDS_MAX: Final = 5.0  # the fork blocks the loop; connecting the pipes takes a few rounds of it
_KILLED_SECONDS_MAX: Final = 5.0  # a killed process is gone at once, unless the kernel itself is stuck
_DRAIN_SECONDS_MAX: Final = 1.0  # a process outside the group may keep a pipe open permanently
_SLICE_SECONDS: Final = 0.05


class Tail:
    """The last bytes of a stream; never more than twice its limit in memory."""

    def __init__(self, bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Add output."""
        self._kept += data[-self._bytes_max :]
        self._dropped += max(0, len(data) - self._bytes_max)
        if len(self._kept) > 2 * self._bytes_max:
            self._cut()

    def _cut(self) -> None:
        excess = max(0, len(self._kept) - self._bytes_max)
        del self._kept[:excess]
        self._dropped += excess

    @property
    def text(self) -> str:
        """The end of the output, and how many bytes were dropped before it."""
        self._cut()
        text = self._kept.decode("utf-8", "replace")
        return f"[{self._dropped:,} bytes before]\n{text}" if self._dropped else text


class ChildProcess(asyncio.SubprocessProtocol):
    """One process in a group of its own. Everything happens in callbacks of the event loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._tails = {_STDOUT: Tail(), _STDERR: Tail()}
        self._open = {_STDOUT, _STDERR, _ANSWER}
        self._transport: asyncio.SubprocessTransport | None = None
        self._answer_pipe: asyncio.ReadTransport | None = None
        self._started: asyncio.Future[None] | None = None
        self._exited: asyncio.Future[None] = loop.create_future()
        self._drained: asyncio.Future[None] = loop.create_future()
        self.answer = bytearray()

    @property
    def stdout(self) -> str:
        """The end of what it wrote to stdout."""
        return self._tails[_STDOUT].text

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr."""
        return self._tails[_STDERR].text

    @property
    def code(self) -> int:
        """Its exit code; negative for a signal."""
        code = self._transport.get_returncode() if self._transport is not None else None
        return 0 if code is None else code

    async def run(self, module: str, frame: bytes, variables: Mapping[str, str] | None = None) -> None:
        """Start the process of a module, give it a frame, and wait until it has ended.

        The caller must call `end` afterwards, also after a cancellation.
        """
        # A cancellation here would lose the process, which exists before its transport is known.
        self._started = self._loop.create_future()
        await asyncio.shield(self._start(module, variables, self._started))
        assert self._transport is not None
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        stdin.write(frame)  # it stays open: when it closes, the child knows that the parent has ended
        await asyncio.shield(self._exited)  # `end` waits for it too, after a cancellation

    async def _start(self, module: str, variables: Mapping[str, str] | None, started: asyncio.Future[None]) -> None:
        answer, answer_of_child = os.pipe()
        try:
            pipe, _ = await self._loop.connect_read_pipe(lambda: _AnswerPipe(self), os.fdopen(answer, "rb", 0))
            self._answer_pipe = pipe
            self._transport, _ = await self._loop.subprocess_exec(
                lambda: self,
                *_interpreter(),
                *("-m", module, str(answer_of_child)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=(answer_of_child,),
                start_new_session=True,
                env={
                    **(variables_for(()) if variables is None else variables),
                    "PYTHONPATH": os.pathsep.join(search_path()),
                },
            )
        finally:
            os.close(answer_of_child)
            started.set_result(None)

    async def end(self) -> None:
        """Kill the process group; wait until the process is gone and its output is read, even if that is cancelled: the
        loop may be about to end, and nothing else waits for the child.
        """
        interrupted: asyncio.CancelledError | None = None
        try:
            if self._started is not None:
                interrupted = await _await(self._started, _STARTED_SECONDS_MAX)
                if not self._started.done():
                    self._started.add_done_callback(lambda _: self._drop())
            if self._transport is not None:
                self._kill(self._transport.get_pid())
                interrupted = await _await(self._exited, _KILLED_SECONDS_MAX) or interrupted
                interrupted = await _await(self._drained, _DRAIN_SECONDS_MAX) or interrupted
        finally:
            self._close()
        if interrupted is not None:
            raise interrupted

    def _drop(self) -> None:
        """The process has started after `end` has stopped waiting for that."""
        if self._transport is not None:
            self._kill(self._transport.get_pid())
        self._close()

    def _close(self) -> None:
        for pipe in (self._transport, self._answer_pipe):
            if pipe is not None:
                pipe.close()

    @staticmethod
    def _kill(group: int) -> None:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # no process is left; macOS reports it as a permission error
            pass

    # --- called by the loop ---

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._tails[fd].add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open and not self._drained.done():
            self._drained.set_result(None)

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    def answered(self, data: bytes) -> None:
        """A part of the answer arrived."""
        self.answer += data
        if len(self.answer) > FRAME_BYTES_MAX and self._answer_pipe is not None:
            self._answer_pipe.close()  # no valid answer is this long


async def _await(future: asyncio.Future[None], seconds: float) -> asyncio.CancelledError | None:
    """Wait for a future that is done soon; returns the last cancellation that arrived meanwhile, of however many.

    The time for which the loop is blocked hardly counts: on a busy machine, starting a process alone may take seconds.
    """
    loop = asyncio.get_running_loop()
    interrupted: asyncio.CancelledError | None = None
    while not future.done() and seconds > 0:
        began = loop.time()
        try:
            await asyncio.wait([future], timeout=_SLICE_SECONDS)
        except asyncio.CancelledError as error:
            interrupted = error
        seconds -= min(loop.time() - began, _SLICE_SECONDS)
    return interrupted


class _AnswerPipe(asyncio.Protocol):
    def __init__(self, process: ChildProcess) -> None:
        self._process = process

    def data_received(self, data: bytes) -> None:
        self._process.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.pipe_connection_lost(_ANSWER, exc)


def search_path() -> list[str]:
    """The module search path of this process, with absolute paths."""
    return [str(os.path.abspath(entry)) for entry in sys.path]  # noqa: PTH100  also "" and entries that are not folders


def _interpreter() -> list[Any]:
    """This interpreter: unbuffered, so that the output of a killed body is kept; a crash in C reports its line."""
    optimize = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return [sys.executable, "-u", "-P", *optimize, "-X", "faulthandler"]
