"""What workflows note while they run, outside everything durable: in this process, and in a file that survives it."""

from __future__ import annotations

import os
import time
from typing import Any


class Notes:
    """The first time counts: a workflow that is run again from its beginning comes by again."""

    def __init__(self) -> None:
        self.reached = 0  # how many runs have come to their wait
        self._reached: dict[str, bool] = {}
        self.slept_at: dict[str, float] = {}
        self.woke_at: dict[str, float] = {}
        self.labels: dict[str, Any] = {}  # what a peer calls the run, where it does not take our name
        self._file = -1

    def open(self, path: str) -> None:
        """From now on steps are noted there."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def step(self, run: str, number: int) -> int:
        """A step's body: one line, which a SIGKILL afterwards does not take away."""
        os.write(self._file, f"{run} {number}\n".encode())
        return number + 1

    def expect(self, runs: list[str]) -> None:
        """Make room for them now, so that noting them later takes no memory that would be taken for the peer's."""
        self._reached.update(dict.fromkeys(runs, False))

    def reaches(self, run: str) -> None:
        """The code comes to its wait."""
        if not self._reached.get(run):
            self._reached[run] = True
            self.reached += 1

    def sleeps(self, run: str) -> None:
        """The code is about to sleep."""
        self.slept_at.setdefault(run, time.monotonic())

    def wakes(self, run: str) -> None:
        """The code goes on after its sleep."""
        self.woke_at.setdefault(run, time.monotonic())


NOTES = Notes()
