"""A clock that can be put forward. How far is kept beside the database, so that every process there agrees."""

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
    """The machine's clock, put forward by what was skipped. Never back: a store never shows an earlier instant."""

    def __init__(self, skipped: Span) -> None:
        self._machine = SystemClock()
        self._skipped = skipped

    @property
    def skipped(self) -> Span:
        """How far it is ahead of the machine's."""
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
        """Be so far ahead of the machine's clock from now on, if it is not further."""
        self._skipped = max(self._skipped, skipped)


def clock_file(database: Path) -> Path:
    """Where it is kept how far the clock of a database is ahead."""
    return database.with_name(f"{database.name}.clock")


def read_skipped(database: Path | None) -> Span:
    """How much time was skipped in a database; none for one that is not a file, or has no such note."""
    if database is None:
        return Span(0)
    try:
        text = clock_file(database).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return Span(0)
    return Span(int(text)) if text.isdigit() and len(text) <= _DIGITS_MAX else Span(0)


def write_skipped(database: Path, skipped: Span) -> None:
    """Keep how much time was skipped. A reader sees the old figure or the new one, never half of it."""
    file = clock_file(database)
    fresh = file.with_name(f"{file.name}.new")
    with open_private(fresh, "w") as text:
        text.write(f"{skipped}\n")
    fresh.replace(file)


def open_private(path: Path, mode: str) -> IO[str]:
    """Open a text file that, if it is made here, only its owner may read, whatever the umask says."""
    return open(path, mode, encoding="utf-8", opener=_open_private)


def _open_private(name: str, flags: int) -> int:
    descriptor = os.open(name, flags, OWNER_ONLY)
    if os.name == "posix":
        os.fchmod(descriptor, OWNER_ONLY)
    return descriptor


def skipping_environment(clock: SkippedClock, *, threads_max: int = 32) -> Environment:
    """The real machine, but for its clock."""
    return replace(system_environment(threads_max=threads_max), clock=clock, ids=SystemIds(clock))


def environment_of(url: str, *, threads_max: int = 32) -> Environment:
    """The real machine, with the clock of a database in which time was skipped."""
    from stepwell.addresses import file_of

    skipped = read_skipped(file_of(url))
    if not skipped:
        return system_environment(threads_max=threads_max)
    return skipping_environment(SkippedClock(skipped), threads_max=threads_max)
