"""Stores by their URL, for commands: without the engine, which takes longer to import than most of them to answer.

Only what is plain is known here. `wiring` is asked for all else: it says what a URL means, and what is wrong with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from stepwell.environment import Environment
    from stepwell.stores.base.store import Store

_SQLITE, _POSTGRES = "sqlite:///", "postgresql://"


def open_store(url: str, environment: Environment, *, may_create: bool) -> Store:
    """`wiring.open_store`. Raises what it does."""
    file = _plain_file(url)
    if file is not None:
        from stepwell.stores.sqlite.store import SqliteStore

        return SqliteStore(environment, file)
    if url.startswith(_POSTGRES):
        try:
            from stepwell.stores.postgres.store import PostgresStore
        except ImportError:
            pass  # the driver is missing: there are words for it below
        else:
            return PostgresStore(environment, url, may_create=may_create)
    from stepwell.wiring import open_store

    return open_store(url, environment, may_create=may_create)


def file_of(url: str) -> Path | None:
    """The file behind a SQLite URL; None for everything else that names a store. Raises `InvalidOptionError`."""
    file = _plain_file(url)
    if file is not None or url.startswith(_POSTGRES):
        return file
    from stepwell.wiring import sqlite_file, store_kind

    return sqlite_file(url) if store_kind(url) == "sqlite" else None


def _plain_file(url: str) -> Path | None:
    if not url.startswith(_SQLITE):
        return None
    file = Path(unquote(urlsplit(url).path[1:]))
    return file if file.name else None
