"""Large payloads in the database itself: by their hash, in a table of their own."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from stepwell.codec.blobs import DamagedBlobError
from stepwell.stores.postgres.calls import READ_BLOB

if TYPE_CHECKING:
    from stepwell.stores.postgres.database import PostgresDatabase

_KNOWN_MAX: Final = 10_000


class NewBlobs:
    """What was put and is not durable yet. It is stored before every transition, so no row that refers to a blob is
    durable before the blob is.
    """

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
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
        """Whether there is nothing to store."""
        return not self._contents

    def take(self) -> tuple[list[str], list[tuple[str, bytes]]]:
        """What is planned now: names, and rows to store."""
        rows = list(self._contents.items())
        return [name for name, _ in rows], rows

    def stored(self, names: list[str]) -> None:
        """These are durable."""
        for name in names:
            self._contents.pop(name, None)
            self._known[name] = None
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)


class PostgresBlobs:
    """`Blobs` in the database. A blob is stored before the next transition of this store."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def put(self, content: bytes) -> str:
        """See `Blobs.put`; it is durable before any row is that refers to it."""
        return self._database.blobs.put(content)

    def get(self, name: str) -> bytes:
        """See `Blobs.get`."""
        planned = self._database.blobs.find(name)
        if planned is not None:
            return planned
        try:
            bytes.fromhex(name)
        except ValueError:
            raise LookupError(f"{name[:80]!r} is not the name of a blob") from None
        content = self._database.look(READ_BLOB, name)
        if content is None:
            raise LookupError(f"there is no blob {name}")
        if hashlib.sha256(content).hexdigest() != name:
            raise DamagedBlobError(f"blob {name} has another content than its name says")
        return content

    def __repr__(self) -> str:
        return f"the database {self._database.where!r}"
