"""The stores for tests. Each test gets an empty database."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stepwell.errors import InvalidOptionError
from stepwell.ids import random_bytes
from stepwell.virtual.databases import Database, InlinePostgres, InlineSqlite

StoreKind = Literal["memory", "sqlite", "postgres"]
STORE_KINDS: tuple[StoreKind, ...] = ("memory", "sqlite", "postgres")


def open_database(kind: StoreKind, *, folder: Path | None, postgres: str | None) -> Database:
    """An empty database. Raises `InvalidOptionError` for an unknown kind, and for PostgreSQL without a server."""
    match kind:
        case "memory":
            return InlineSqlite()
        case "sqlite":
            return InlineSqlite(None if folder is None else folder / "stepwell-test.db")
        case "postgres":
            if postgres is None:
                raise InvalidOptionError(
                    "no PostgreSQL server is configured for tests",
                    where="stores",
                    fix="set STEPWELL_TEST_POSTGRES to the URL of a database for tests",
                )
            return InlinePostgres(_cleared(postgres))
        case _:
            raise InvalidOptionError(
                f"unknown store {kind!r}", where="stores", fix='write "memory", "sqlite" or "postgres"'
            )


_ready: dict[str, str] = {}  # the URL of a database → the URL of this process' own schema in it


def _cleared(url: str) -> str:
    """The URL of this process' own schema in that database, with empty tables."""
    from stepwell.stores.postgres.migrator import prepare
    from stepwell.stores.postgres.sessions import open_connection
    from stepwell.stores.postgres.urls import parse_address

    own = _ready.get(url)
    if own is None:
        own = _ready[url] = f"{url}{'&' if '?' in url else '?'}schema=stepwell_test_{random_bytes(6).hex()}"
        address = parse_address(own)
        with open_connection(address) as connection:
            prepare(connection, address.schema, address.where)
        return own
    address = parse_address(own)
    with open_connection(address) as connection:
        connection.execute(clearing(address.schema))
    return own


def clearing(schema: str) -> bytes:
    """The statement that empties the tables of a schema."""
    text = Path(__file__).with_name("clear.sql").read_text(encoding="utf-8")
    return text.replace("{schema}", schema).encode()


def drop_schemas() -> None:
    """Drop the schemas that this process created."""
    while _ready:
        _, own = _ready.popitem()
        from stepwell.stores.postgres.sessions import open_connection
        from stepwell.stores.postgres.texts import functions_schema, quoted
        from stepwell.stores.postgres.urls import parse_address

        address = parse_address(own)
        with open_connection(address) as connection:
            for schema in (address.schema, functions_schema(address.schema)):
                connection.execute(f"drop schema if exists {quoted(schema)} cascade".encode())
