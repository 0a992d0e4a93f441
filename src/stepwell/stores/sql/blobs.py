"""Large payloads that were put but are not durable yet."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from stepwell.clock import SECOND, Instant, Span
from stepwell.codec.blobs import DamagedBlobError

_KNOWN_MAX: Final = 10_000
# A payload that was last written longer ago is written again when it is put, so that its row says that it is in use.
RENEWED: Final = Span(6 * 3_600 * SECOND)


class PlannedBlobs:
    """Payloads that were put but are not durable yet. Each store has its own way to write them."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._known: OrderedDict[str, Instant] = OrderedDict()  # the latest durable ones, and when they were written

    def put(self, content: bytes, now: Instant) -> str:
        """Plan to write a blob, unless it was written lately. Returns its name."""
        name = hashlib.sha256(content).hexdigest()
        written = self._known.get(name)
        if written is None or now - written > RENEWED:
            self._contents[name] = content
        return name

    def find(self, name: str) -> bytes | None:
        """The content of a blob that is not durable yet."""
        return self._contents.get(name)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self._contents

    def stored(self, names: list[str], now: Instant) -> None:
        """Note that these blobs are durable."""
        for name in names:
            self._contents.pop(name, None)
            self._known[name] = now
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)


def digest_of(name: str) -> bytes:
    """The hash that a blob's name spells. Raises `LookupError` for any other text."""
    try:
        return bytes.fromhex(name)
    except ValueError:
        raise LookupError(f"{name[:80]!r} is not the name of a blob") from None


def checked(name: str, content: bytes | None) -> bytes:
    """The content that was read for a name. Raises `LookupError` for None, `DamagedBlobError` for wrong content."""
    if content is None:
        raise LookupError(f"there is no blob {name}")
    if hashlib.sha256(content).hexdigest() != name:
        raise DamagedBlobError(f"blob {name} does not match its name")
    return content
