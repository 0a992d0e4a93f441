"""The external ledger: one file that many processes append to, so that it outlives any kill of theirs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple


class Line(NamedTuple):
    """One line: what happened, when (the machine's monotonic clock), in which process."""

    kind: str
    at: float
    pid: int
    facts: dict[str, Any]


class Ledger:
    """Appends whole lines with one `write` each: a process that dies leaves what it had noted, and no half line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, kind: str, **facts: Any) -> None:
        """Append a line."""
        text = json.dumps([kind, time.monotonic(), os.getpid(), facts], separators=(",", ":"))
        os.write(self._file, text.encode() + b"\n")

    def acknowledged(self, kind: str, **facts: Any) -> None:
        """Append a line about something that was promised to us; it is on the disk when this returns."""
        self.note(kind, **facts)
        os.fdatasync(self._file)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def read_ledger(path: Path) -> list[Line]:
    """Every line, by time."""
    lines = [Line(*json.loads(text)) for text in path.read_bytes().splitlines()]
    return sorted(lines, key=lambda line: line.at)
