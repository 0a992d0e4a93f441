"""Time: the only module that reads a clock.

An *instant* is an integer count of microseconds since the Unix epoch, UTC; a *span* is a count of
microseconds. Integers compare exactly, cost eight bytes, and mean the same on every store.
"""

from __future__ import annotations

import platform
import re
import time
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NewType, Protocol

from stepwell.errors import InvalidOptionError

Instant = NewType("Instant", int)
Span = NewType("Span", int)

Duration = str | int | float | timedelta

SECOND = Span(1_000_000)
DAY = Span(86_400 * SECOND)
SPAN_MAX = Span(36_500 * DAY)  # the longest wait, so that every resulting instant is within the calendar
_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


class Clock(Protocol):
    """Wall time for stored instants, monotonic time for leases, and the time since the machine was booted."""

    def now(self) -> Instant:
        """Wall time. May jump either way."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    def uptime(self) -> int:
        """Microseconds that never go back, by a clock that all processes of this boot share."""
        ...

    @property
    def boot(self) -> str:
        """Which boot of which machine `uptime` counts from; never empty."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000)

    monotonic = staticmethod(time.monotonic)

    def uptime(self) -> int:
        return time.monotonic_ns() // 1_000

    @property
    def boot(self) -> str:
        return _boot()


@cache
def _boot() -> str:
    """The id of this boot. A time namespace has a clock of its own, so it counts as another boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        # On other systems, an uptime below a stored one shows that the machine was booted since.
        return f"{platform.system()} {platform.node()}"
    try:
        return f"{boot} {Path('/proc/self/ns/time').readlink()}"
    except OSError:
        return boot


def span(duration: Duration, *, what: str = "duration") -> Span:
    """Read a duration: "1h30m", "100ms", seconds as a number, or a timedelta. Never negative; at most 36,500 days.

    A longer duration is shortened. Raises `InvalidOptionError`.
    """
    micros: float
    if isinstance(duration, timedelta):
        micros = duration / timedelta(microseconds=1)
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        micros = duration * 1_000_000
    elif isinstance(duration, str):
        micros = _parse(duration, what)
    else:
        raise InvalidOptionError(
            f"{what}: a duration cannot be a {type(duration).__name__}", fix='write "30s" or timedelta(...)'
        )
    if micros != micros:
        raise InvalidOptionError(f"{what}: {duration!r} is not a number", fix='write "30s" or timedelta(...)')
    bounded = round(max(-1, min(micros, SPAN_MAX)))
    if bounded < 0:
        raise InvalidOptionError(f"{what}: {duration!r} is negative", fix="use 0 or more")
    return Span(bounded)


@lru_cache(maxsize=256)
def _parse(text: str, what: str) -> float:
    total, end = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != end:
            break
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    if end == 0 or text[end:].strip():
        raise InvalidOptionError(
            f"{what}: cannot read the duration {text!r}", fix='write "100ms", "30s", "1h30m" or "3d", for example'
        )
    return total


def to_datetime(instant: Instant) -> datetime:
    """The instant as an aware datetime in UTC; the last day of year 9999 if it is after that."""
    return _EPOCH + timedelta(microseconds=instant if instant < _LAST else _LAST)


def to_instant(when: datetime, *, what: str = "when") -> Instant:
    """An aware datetime as an instant. A naive datetime is rejected, because its time zone is unknown."""
    if when.tzinfo is None:
        raise InvalidOptionError(
            f"{what}: {when!r} has no time zone", fix="use datetime.now(UTC) or .replace(tzinfo=...)"
        )
    return Instant((when - _EPOCH) // timedelta(microseconds=1))


def to_timedelta(micros: Span) -> timedelta:
    """The span as a timedelta."""
    return timedelta(microseconds=micros)
