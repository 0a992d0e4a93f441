"""Identifiers and their injectable source."""

from __future__ import annotations

import hashlib
import secrets
from typing import NewType, Protocol

from stepwell.clock import Clock

RunId = NewType("RunId", str)
Incarnation = NewType("Incarnation", str)
SignalId = NewType("SignalId", str)
EventId = NewType("EventId", str)


class Ids(Protocol):
    """The source of new identifiers; a simulation has its own."""

    def uuid(self) -> str:
        """A new time-sorted, unique identifier (RFC 9562, version 7)."""
        ...


class SystemIds:
    """Version 7 UUIDs from the clock and the system's randomness. Ids of one process sort in the order in which
    they were made, to the microsecond.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def uuid(self) -> str:
        millis, micros = divmod(self._clock.now(), 1_000)
        # The 12 bits after the milliseconds are a fraction of a millisecond (RFC 9562, section 6.2, method 3).
        return format_uuid7(millis, (micros << 12) // 1_000 << 62 | secrets.randbits(62))


def random_bytes(count: int) -> bytes:
    """Unpredictable bytes from the system, for nonces and names that must not collide."""
    return secrets.token_bytes(count)


def format_uuid7(millis: int, entropy: int) -> str:
    """Lay out 48 bits of milliseconds and 74 bits of entropy as a version 7 UUID."""
    value = (
        (millis & (1 << 48) - 1) << 80
        | 0x7 << 76
        | (entropy >> 62 & 0xFFF) << 64
        | 0b10 << 62
        | entropy & (1 << 62) - 1
    )
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def hashed(text: str) -> bytes:
    """32 bytes that stand for a text, the same in every process."""
    return hashlib.sha256(text.encode()).digest()


CONTINUED = "~continued"
"""The label of the run that continues another one."""
COMPENSATES = "~compensates"
"""The label of the run that undoes another one."""


def derived_run_id(parent: RunId, label: str) -> RunId:
    """The id of the run that `parent` starts at `label`: the same however often it is computed.

    It keeps the parent's time prefix, if it has one, so that families sort together.
    """
    digest = hashed(f"{parent}\x1f{label}")
    prefix = parent.replace("-", "")[:12]
    try:
        millis = int(prefix, 16) if len(prefix) == 12 else 0
    except ValueError:
        millis = 0
    return RunId(format_uuid7(millis, int.from_bytes(digest[:10], "big") & (1 << 74) - 1))
