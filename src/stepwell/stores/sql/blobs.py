"""Large payloads that were put but are not durable yet."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

_KNOWN_MAX: Final = 10_000


class PlannedBlobs:
    """Payloads that were put but are not durable yet. Each store has its own way to write them."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._known: OrderedDict[str, None] = OrderedDict()  # the latest durable ones

    def put(self, content: bytes) -> str:
        """Plan to write a blob. Returns its name."""
        name = hashlib.sha256(content).hexdigest()
        if name not in self._known:
            self._contents[name] = content
        return name

    def find(self, name: str) -> bytes | None:
        """The content of a blob that is not durable yet."""
        return self._contents.get(name)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self._contents

    def stored(self, names: list[str]) -> None:
        """Note that these blobs are durable."""
        for name in names:
            self._contents.pop(name, None)
            self._known[name] = None
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
