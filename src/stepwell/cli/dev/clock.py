"""A clock that can skip time. The skipped time is kept beside the database, so that all processes agree."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from stepwell.clock import Instant, Span, SystemClock
from stepwell.environment import Environment, system_environment
from stepwell.ids import SystemIds

OWNER_ONLY: Final = 0o600
_DIGITS_MAX: Final = 18


class SkippedClock:
    """The machine's clock plus the skipped time. It never goes back: a store never shows an earlier instant."""

    def __init__(self, skipped: Span) -> None:
        self._machine = SystemClock()
        self._skipped = skipped

    @property
    def skipped(self) -> Span:
        """How far it is ahead of the machine's clock."""
        return self._skipped

    def now(self) -> Instant:
        return Instant(self._machine.now() + self._skipped)

    def monotonic(self) -> float:
        return self._machine.monotonic()

    def uptime(self) -> int:
        return self._machine.uptime()

    @property
    def boot(self) -> str:
        return self._machine.boot

    def skip_to(self, skipped: Span) -> None:
        """Be this far ahead of the machine's clock from now on, unless it already is further ahead."""
        self._skipped = max(self._skipped, skipped)


def clock_file(database: Path) -> Path:
    """The file with the skipped time of a database."""
    return database.with_name(f"{database.name}.clock")


def read_skipped(database: Path | None) -> Span:
    """How much time was skipped in a database; zero for a server, and without a readable file."""
    if database is None:
        return Span(0)
    try:
        text = clock_file(database).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return Span(0)
    return Span(int(text)) if text.isdigit() and len(text) <= _DIGITS_MAX else Span(0)


def write_skipped(database: Path, skipped: Span) -> None:
    """Store the skipped time. A reader sees the old value or the new one, never a part of it."""
    file = clock_file(database)
    fresh = file.with_name(f"{file.name}.new")
    with open_private(fresh, "w") as text:
        text.write(f"{skipped}\n")
    fresh.replace(file)


def open_private(path: Path, mode: str) -> IO[str]:
    """Open a text file; a file that this creates is readable for its owner only, whatever the umask is."""
    return open(path, mode, encoding="utf-8", opener=_open_private)


def _open_private(name: str, flags: int) -> int:
    descriptor = os.open(name, flags, OWNER_ONLY)
    if os.name == "posix":
        os.fchmod(descriptor, OWNER_ONLY)
    return descriptor


def skipping_environment(clock: SkippedClock, *, threads_max: int = 32) -> Environment:
    """The real machine with another clock."""
    return replace(system_environment(threads_max=threads_max), clock=clock, ids=SystemIds(clock))


def environment_of(url: str, *, threads_max: int = 32) -> Environment:
    """The real machine, with the clock of a database in which time was skipped."""
    from stepwell.addresses import file_of

    skipped = read_skipped(file_of(url))
    if not skipped:
        return system_environment(threads_max=threads_max)
    return skipping_environment(SkippedClock(skipped), threads_max=threads_max)
