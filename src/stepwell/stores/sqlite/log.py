"""The write-ahead log: how long it may become, and why it is that long early."""

from __future__ import annotations

from pathlib import Path

import apsw

from stepwell.stores.sqlite.connections import PAGE_BYTES
from stepwell.stores.sqlite.texts import SQL

# The log is written over again and again, because syncing a file that grows costs half as much again. Writing it back
# takes most of a millisecond, however few pages were changed.
CHECKPOINT_PAGES = 600
LENGTHEN_AFTER_COMMITS = 16  # who writes less would gain less than this takes, which is two milliseconds
_FRAME_BYTES = PAGE_BYTES + 24
_PAGES = CHECKPOINT_PAGES + 50  # the commit that reaches the limit goes beyond it
_CACHE_PAGES = 8


def lengthen(connection: apsw.Connection, path: str) -> None:
    """Make the log as long as it will be, at once. For that a transaction writes more than its cache can hold, and is
    undone: the file stays as long as it became.

    Raises the driver's errors; nothing has changed then.
    """
    if Path(f"{path}-wal").stat().st_size >= CHECKPOINT_PAGES * _FRAME_BYTES:
        return
    kept = connection.pragma("cache_size")
    connection.pragma("cache_size", _CACHE_PAGES)
    try:
        connection.execute(SQL["transactions.begin"])
        try:
            connection.execute(SQL["log.fill"], (_PAGES * PAGE_BYTES,))
        finally:
            if connection.in_transaction:
                connection.execute(SQL["transactions.rollback"])
    finally:
        connection.pragma("cache_size", kept)
