"""Worker processes on one database: `stepwell worker` itself, and workers with sinks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.system.fleet import LEDGER, ROOT, mark_of
from tests.system.ledger import Line, read_ledger
from tests.system.postgres import served
from tests.system.postgres.served import LEDGER_VARIABLE

SECONDS_MAX = 60.0  # what has not happened by then never will
# While its database is away a worker warns. Anything worse that it prints is a defect.
_DEFECTS = ("ERROR", "CRITICAL", "Traceback", "was never")


async def until(found: Callable[[], bool | Awaitable[bool]], what: str = "it never came to that") -> None:
    """Return as soon as it is so."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        answer = found()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


class Hand:
    """One worker process."""

    def __init__(self, folder: Path, command: list[str], name: str) -> None:
        self.name = name
        self._log = folder / f"{name}-{time.monotonic_ns()}.log"
        environment = os.environ | {LEDGER_VARIABLE: str(folder / LEDGER)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        self._mark = mark_of(folder, self._process.pid)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process exists."""
        return self._process.poll() is None

    @property
    def is_up(self) -> bool:
        """Whether it serves: it said so, or left its mark."""
        return self.is_alive and (self._mark.exists() or f"(pid {self.pid})" in self.log())

    def log(self) -> str:
        """What it printed."""
        return self._log.read_text(errors="replace")

    def complaints(self) -> list[str]:
        """What it printed that no failure of the database excuses."""
        return [line for line in self.log().splitlines() if any(word in line for word in _DEFECTS)]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this very process."""
        if self.is_alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once; when this returns it is gone."""
        self.send(signal.SIGKILL)
        self._process.wait()

    async def left(self) -> int:
        """The exit code, once it has left by itself."""
        await until(lambda: not self.is_alive, f"worker {self.name} does not leave")
        return self._process.returncode


class Crew:
    """The workers on one database, and the ledger in which they note what they do. All are killed in the end."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.hands: list[Hand] = []
        (folder / LEDGER).touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hand in self.hands:
            hand.kill()
        complaints = [f"{hand.name}: {line}" for hand in self.hands for line in hand.complaints()]
        if kind is None:
            assert complaints == []

    async def hire(self, name: str, *, lease: float = 30.0) -> Hand:
        """One more `stepwell worker`, once it serves."""
        command = [sys.executable, "-m", "stepwell.cli.main", "--db", self.url, "worker", served.__name__]
        return await self._up(name, [*command, "--name", name, "--lease", f"{lease}s"])

    async def enlist(self, name: str, *, lease: float = 30.0, skew: float = 0.0, mode: str = "live") -> Hand:
        """One more worker with sinks, once it serves."""
        command = [sys.executable, "-m", "tests.system.postgres.serve", str(self.folder), self.url, "--name", name]
        return await self._up(name, [*command, "--lease", str(lease), "--skew", str(skew), "--mode", mode])

    async def _up(self, name: str, command: list[str]) -> Hand:
        hand = Hand(self.folder, command, name)
        self.hands.append(hand)
        await until(lambda: hand.is_up or not hand.is_alive, f"worker {name} does not come up")
        assert hand.is_alive, hand.log()
        return hand

    def lines(self, *kinds: str) -> list[Line]:
        """What the ledger has of these kinds, or all of it, by time."""
        return [line for line in read_ledger(self.folder / LEDGER) if not kinds or line.kind in kinds]
