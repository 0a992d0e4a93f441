"""Worker processes, started and signalled one by one by their own ids."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
DATABASE, LEDGER, LOG = "storm.db", "ledger.jsonl", "workers.log"
CALM = "calm"  # once this file exists, workers start no runs of their own
UP_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 60.0


def sqlite_url(folder: Path) -> str:
    """The file that the workers of a folder share, unless they are told of another database."""
    return f"sqlite:///{folder / DATABASE}"


def mark_of(folder: Path, pid: int) -> Path:
    """The file that a worker makes once it serves."""
    return folder / f"{pid}.up"


class Member:
    """One worker process."""

    def __init__(self, folder: Path, url: str, arguments: tuple[str, ...], program: str) -> None:
        command = [sys.executable, "-m", program, str(folder), url, *arguments]
        with (folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._mark = mark_of(folder, self._process.pid)
        self.url = url
        self.arguments = arguments
        self.is_reserved = False  # something is being done to it

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self._mark.exists() and self.is_alive

    @property
    def is_alive(self) -> bool:
        """Whether the process exists."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this very process."""
        if self.is_alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once; when this returns it is gone, and so are its locks."""
        self.send(signal.SIGKILL)
        self._process.wait()

    async def left(self, timeout: float = DRAIN_SECONDS_MAX) -> int | None:
        """The exit code, once it has left by itself; None if it has not in time."""
        deadline = time.monotonic() + timeout
        while self.is_alive:
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.02)
        return self._process.returncode


class Fleet:
    """The workers on one folder. Whatever is left when it closes is killed."""

    def __init__(self, folder: Path, url: str | None = None, *, program: str = "tests.system.storm_worker") -> None:
        self.folder = folder
        self._program = program  # the module that a worker runs
        self.url = url or sqlite_url(folder)  # of the database they share
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.kill()

    def spawn(self, *arguments: str, url: str | None = None) -> Member:
        """One more worker, which may have a way of its own to the database."""
        member = Member(self.folder, url or self.url, arguments, self._program)
        self.members.append(member)
        return member

    async def up(self, *arguments: str) -> Member:
        """One more worker, once it serves."""
        member = self.spawn(*arguments)
        await self.wait_up(member)
        return member

    async def wait_up(self, member: Member) -> None:
        """Wait until it serves."""
        deadline = time.monotonic() + UP_SECONDS_MAX
        while not member.is_up:
            if not member.is_alive or time.monotonic() > deadline:
                raise RuntimeError(f"worker {member.pid} did not come up: {self.log()[-2000:]}")
            await asyncio.sleep(0.01)

    def replace(self, member: Member) -> Member:
        """Another worker like one that is gone."""
        self.members.remove(member)
        return self.spawn(*member.arguments, url=member.url)

    def log(self) -> str:
        """What the workers printed; nothing, if all is well."""
        return (self.folder / LOG).read_text(errors="replace")
