"""The supervisor's side of its worker: start it, tell it something, hear it, kill it."""

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

_LINE_BYTES_MAX: Final = 1 << 26  # what a child says at once has the text of all its modules
_PATIENCE_SECONDS: Final = GRACE_SECONDS + 5

Heard = Callable[[dict[str, Any]], None]
Printed = Callable[[str], None]


def _python(module: str, *words: str) -> list[str]:
    # -P: a file of the author's that is called like one of the standard library must not be taken for it.
    return [sys.executable, "-P", "-m", module, *words]


async def ask_python(module: str, *words: str) -> Any:
    """What a fresh interpreter answers, as JSON; None if it died without an answer."""
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
        """Start one; `kept` is the code that it gets, if it is not to be that of the files."""
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
        """Whether it runs."""
        return not self._ended.done()

    def tell(self, order: dict[str, Any]) -> None:
        """Give it an order. One that is dead does not hear it."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def until(self, said: str, *, seconds: float = _PATIENCE_SECONDS) -> bool:
        """Wait until it says something; false if it ends before, or takes too long."""
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
        """Kill it without a warning, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._ended

    async def stop(self) -> None:
        """Ask it to end when its steps have; kill it if that takes too long."""
        self.tell({"do": "stop"})
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await asyncio.shield(self._ended)
        except TimeoutError:
            await self.kill()

    async def ended(self) -> int:
        """Wait for its end, and give its exit code."""
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
            continue  # longer than anything that is meant for us
        if not line:
            return
        try:
            take(line.rstrip(b"\r\n"))
        except ValueError:
            continue  # a line that was cut by the end of its process
