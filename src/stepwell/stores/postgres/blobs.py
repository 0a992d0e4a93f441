"""Large payloads in the database itself, by hash, in a table of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.stores.postgres.calls import READ_BLOB
from stepwell.stores.sql.blobs import PlannedBlobs, checked, digest_of

if TYPE_CHECKING:
    from stepwell.stores.postgres.database import PostgresDatabase


class NewBlobs(PlannedBlobs):
    """Payloads that were put but are not durable yet. They are stored before every transition, so a row that refers to
    a payload is never durable before the payload.
    """

    def take(self) -> tuple[list[str], list[tuple[str, bytes]]]:
        """The planned payloads: their names, and the rows to store."""
        rows = list(self._contents.items())
        return [name for name, _ in rows], rows


class PostgresBlobs:
    """`Blobs` in the database. A blob is stored before the next transition of this store."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def put(self, content: bytes) -> str:
        """See `Blobs.put`. A blob is durable before any row that refers to it."""
        return self._database.blobs.put(content, self._database.now())

    def get(self, name: str) -> bytes:
        """See `Blobs.get`."""
        planned = self._database.blobs.find(name)
        if planned is not None:
            return planned
        digest_of(name)  # raises for a text that the database could not read
        return checked(name, self._database.read_now(READ_BLOB, name))

    def __repr__(self) -> str:
        return f"the database {self._database.where!r}"
