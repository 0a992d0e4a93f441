"""The supervisor's side of its worker process: start it, send orders, receive reports, kill it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from stepwell.cli.dev.child import GRACE_SECONDS
from stepwell.cli.dev.sources import Module
from stepwell.environment import Executor

_LINE_BYTES_MAX: Final = 1 << 26  # one report has the text of all modules
_PATIENCE_SECONDS: Final = GRACE_SECONDS + 5

Heard = Callable[[dict[str, Any]], None]
Printed = Callable[[str], None]


def _python(module: str, *words: str) -> list[str]:
    # -P: a file of the author must not shadow a module of the standard library.
    return [sys.executable, "-P", "-m", module, *words]


async def ask_python(module: str, *words: str) -> Any:
    """The JSON answer of a new interpreter; None if it died without an answer."""
    process = await asyncio.create_subprocess_exec(
        *_python(module, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        answer, _ = await process.communicate()
    except asyncio.CancelledError:
        if process.returncode is None:
            process.kill()
        raise
    try:
        return json.loads(answer)
    except ValueError:
        return None


class WorkerProcess:
    """One worker process. It is in a group of its own, so that Ctrl-C reaches the supervisor alone."""

    def __init__(self, process: asyncio.subprocess.Process, executor: Executor, heard: Heard, printed: Printed) -> None:
        self._process = process
        self._heard = heard
        self._said: set[str] = set()
        self._changed = asyncio.Event()
        self._ended = executor.spawn(self._attend(printed), name="stepwell-dev-worker")
        self._ended.add_done_callback(lambda _: self._changed.set())

    @classmethod
    async def start(
        cls, first: dict[str, Any], kept: Sequence[Module], executor: Executor, heard: Heard, printed: Printed
    ) -> WorkerProcess:
        """Start a worker process; with `kept`, it runs this code instead of the files."""
        process = await asyncio.create_subprocess_exec(
            *_python("stepwell.cli.dev.child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES_MAX,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            process_group=0 if os.name == "posix" else None,
        )
        worker = cls(process, executor, heard, printed)
        worker.tell(first | {"kept": kept})
        return worker

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it is running."""
        return not self._ended.done()

    def tell(self, order: dict[str, Any]) -> None:
        """Send an order; a dead worker gets nothing."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def until(self, said: str, *, seconds: float = _PATIENCE_SECONDS) -> bool:
        """Wait for a report; false if the worker ends before, or takes too long."""
        while said not in self._said:
            if not self.is_alive:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                return False
        self._said.discard(said)
        return True

    async def kill(self) -> None:
        """Kill it at once, and wait for its end."""
        if self._process.returncode is None:
            self._process.kill()
        await self._ended

    async def stop(self) -> None:
        """Let it end after its running steps; kill it if that takes too long."""
        self.tell({"do": "stop"})
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await asyncio.shield(self._ended)
        except TimeoutError:
            await self.kill()

    async def ended(self) -> int:
        """Wait for its end; its exit code."""
        await asyncio.shield(self._ended)
        return self._process.returncode or 0

    async def _attend(self, printed: Printed) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        await asyncio.gather(
            _lines(self._process.stdout, self._hear),
            _lines(self._process.stderr, lambda line: printed(line.decode(errors="replace"))),
        )
        await self._process.wait()

    def _hear(self, line: bytes) -> None:
        said = json.loads(line)
        self._heard(said)
        self._said.add(said["say"])
        self._changed.set()


async def _lines(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue  # longer than any report
        if not line:
            return
        try:
            take(line.rstrip(b"\r\n"))
        except ValueError:
            continue  # the end of the process cut this line
