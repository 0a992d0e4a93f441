"""The write-ahead log: how long it may become, and why it gets that length early."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from stepwell.stores.sqlite.connections import PAGE_BYTES
from stepwell.stores.sqlite.texts import SQL

# The log is overwritten again and again, because syncing a growing file costs half as much again. Writing it back takes
# most of a millisecond, even if only few pages changed.
CHECKPOINT_PAGES = 600
# A longer log was written back, but another process wrote to it before it could start over. It is then written back
# again while no process may write, so that the next writer starts at its beginning.
RESTART_PAGES = 2 * CHECKPOINT_PAGES
_WAIT_SECONDS = 0.1  # for other writers, and for readers that still need the log
# From here on the log must become shorter: it should stay below 16 MB, which is 4,000 pages.
_LONG_PAGES, _LONG_WAIT_SECONDS = 3_000, 0.5
_PAUSE_SECONDS = 0.000_5  # other processes hold their locks for less time

LENGTHEN_AFTER_COMMITS = 16  # lengthening takes two milliseconds; fewer commits would not gain that
_FRAME_BYTES = PAGE_BYTES + 24
_PAGES = CHECKPOINT_PAGES + 50  # the commit that reaches the limit exceeds it
_CACHE_PAGES = 8


def restart(connection: apsw.Connection, pages: int) -> None:
    """Write the whole log back, so that the next writer starts it over. Gives up if other connections need it for too
    long.

    Raises the driver's errors; nothing is lost then.
    """
    seconds = _WAIT_SECONDS if pages < _LONG_PAGES else _LONG_WAIT_SECONDS

    def wait(calls: int) -> bool:
        time.sleep(_PAUSE_SECONDS)
        return calls * _PAUSE_SECONDS < seconds

    connection.set_busy_handler(wait)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    finally:
        connection.set_busy_handler(None)


def lengthen(connection: apsw.Connection, path: str) -> None:
    """Extend the log to its full length at once. A transaction writes more than its cache can hold and is rolled back;
    the file keeps its length.

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
