"""Large payloads in the database itself, by hash, in a table of their own."""

from __future__ import annotations

from typing import Final

import apsw

from stepwell.clock import Instant
from stepwell.stores.sql.blobs import PlannedBlobs, checked, digest_of
from stepwell.stores.sqlite.texts import SQL

LARGE: Final = 256 * 1024  # payloads of this size are not written on the loop's thread

_STORE, _READ = SQL["blobs.store"], SQL["blobs.read"]


class NewBlobs(PlannedBlobs):
    """Payloads that were put but are not durable yet. Every transaction first writes them, so a row that refers to a
    payload is never durable before the payload.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written: list[str] = []  # in the current transaction
        self._at = Instant(0)  # its time

    @property
    def is_large(self) -> bool:
        """Whether writing them takes long."""
        return bool(self._contents) and sum(map(len, tuple(self._contents.values()))) >= LARGE

    @property
    def is_written(self) -> bool:
        """Whether the current transaction contains any."""
        return bool(self._written)

    def write(self, connection: apsw.Connection, now: Instant) -> None:
        """Write the planned payloads in the begun transaction. Equal contents are stored once."""
        self._at = now
        for name, content in tuple(self._contents.items()):
            if name not in self._written:
                connection.execute(_STORE, (bytes.fromhex(name), content, now))
                self._written.append(name)

    def committed(self) -> None:
        """Note that the written payloads are durable."""
        self.stored(self._written, self._at)
        self._written = []

    def rolled_back(self) -> None:
        """Note that they are not: the next transaction writes them again."""
        self._written = []


def read_blob(connection: apsw.Connection, name: str) -> bytes:
    """The content of a stored blob; raises what `Blobs.get` does."""
    row = connection.execute(_READ, (digest_of(name),)).fetchone()
    return checked(name, None if row is None else row[0])
