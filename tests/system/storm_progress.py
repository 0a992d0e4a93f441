"""How far a storm is: a bar that is written over and over on a terminal, and a line now and then without one."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

_WIDTH = 30
_EVERY_SECONDS, _EVERY_SECONDS_LINES = 0.2, 10.0


class Progress:
    """Counts faults; what comes before and after them is named."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began_at = time.monotonic()
        self._told_at = 0.0
        self._is_terminal = sys.stdout.isatty()
        self._longest = 0

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began_at

    def show(self, phase: str, done: Mapping[str, int], *, at_once: bool = False) -> None:
        """Say how far it is, unless that was said a moment ago."""
        now = time.monotonic()
        if now - self._told_at < (_EVERY_SECONDS if self._is_terminal else _EVERY_SECONDS_LINES) and not at_once:
            return
        self._told_at = now
        faults = sum(done.values())
        share = faults / max(self._count, 1)
        acts = ", ".join(f"{count} {act}s" for act, count in done.items() if count)
        line = f"[{'#' * int(_WIDTH * share):<{_WIDTH}}] {faults}/{self._count}  {self.seconds:3.0f} s  {phase}"
        line += f"  {acts}" if acts else ""
        self._longest = max(self._longest, len(line))
        if self._is_terminal:
            print(f"\r{line:<{self._longest}}", end="", flush=True)
        else:
            print(line, flush=True)

    def end(self) -> None:
        """Leave the line of the bar."""
        if self._is_terminal:
            print(flush=True)
