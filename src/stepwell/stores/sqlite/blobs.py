"""Large payloads in the database itself: by their hash, in a table of their own."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

import apsw

from stepwell.clock import Instant
from stepwell.codec.blobs import DamagedBlobError
from stepwell.stores.sqlite.texts import SQL

LARGE: Final = 256 * 1024  # from this size on, writing is not for the loop's thread
_KNOWN_MAX: Final = 10_000

_STORE, _READ = SQL["blobs.store"], SQL["blobs.read"]


class NewBlobs:
    """What was put and is not durable yet. Every transaction begins with writing it, so a row that refers to a blob is
    never durable before the blob is.
    """

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._written: list[str] = []  # in the transaction that is on its way
        self._known: OrderedDict[str, None] = OrderedDict()  # durable ones, the latest

    def put(self, content: bytes) -> str:
        """Plan a blob; its name."""
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

    @property
    def is_large(self) -> bool:
        """Whether writing it takes its time."""
        return bool(self._contents) and sum(map(len, tuple(self._contents.values()))) >= LARGE

    @property
    def is_written(self) -> bool:
        """Whether the transaction that is on its way carries any."""
        return bool(self._written)

    def write(self, connection: apsw.Connection, now: Instant) -> None:
        """Write what is planned into the begun transaction. The same content is kept once."""
        for name, content in tuple(self._contents.items()):
            if name not in self._written:
                connection.execute(_STORE, (bytes.fromhex(name), content, now))
                self._written.append(name)

    def committed(self) -> None:
        """What was written is durable."""
        for name in self._written:
            self._contents.pop(name, None)
            self._known[name] = None
        self._written = []
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def rolled_back(self) -> None:
        """What was written is not: the next transaction writes it again."""
        self._written = []


def read_blob(connection: apsw.Connection, name: str) -> bytes:
    """The content of a stored blob; raises what `Blobs.get` does."""
    try:
        row = connection.execute(_READ, (bytes.fromhex(name),)).fetchone()
    except ValueError:
        raise LookupError(f"{name[:80]!r} is not the name of a blob") from None
    if row is None:
        raise LookupError(f"there is no blob {name}")
    content: bytes = row[0]
    if hashlib.sha256(content).hexdigest() != name:
        raise DamagedBlobError(f"blob {name} has another content than its name says")
    return content
