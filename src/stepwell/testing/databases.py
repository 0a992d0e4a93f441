"""The stores that a test can run on: an empty database each."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stepwell.errors import InvalidOptionError
from stepwell.ids import random_bytes
from stepwell.virtual.databases import Database, InlinePostgres, InlineSqlite

StoreKind = Literal["memory", "sqlite", "postgres"]
STORE_KINDS: tuple[StoreKind, ...] = ("memory", "sqlite", "postgres")


def open_database(kind: StoreKind, *, folder: Path | None, postgres: str | None) -> Database:
    """An empty database. Raises `InvalidOptionError` for a kind that there is not, or without a server to use."""
    match kind:
        case "memory":
            return InlineSqlite()
        case "sqlite":
            return InlineSqlite(None if folder is None else folder / "stepwell-test.db")
        case "postgres":
            if postgres is None:
                raise InvalidOptionError(
                    "no PostgreSQL server is named for tests",
                    where="stores",
                    fix="set STEPWELL_TEST_POSTGRES to the URL of a database that tests may use",
                )
            return InlinePostgres(_cleared(postgres))
        case _:
            raise InvalidOptionError(
                f"there is no store {kind!r} for tests", where="stores", fix='"memory", "sqlite" or "postgres"'
            )


_ready: dict[str, str] = {}  # the URL of a database, and of the schema in it that is this process' own


def _cleared(url: str) -> str:
    """The URL of this process' own schema in that database, with nothing in its tables."""
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
    """The statement that leaves nothing in the tables of a schema."""
    text = Path(__file__).with_name("clear.sql").read_text(encoding="utf-8")
    return text.replace("{schema}", schema).encode()


def drop_schemas() -> None:
    """Remove what this process made in databases of others."""
    while _ready:
        _, own = _ready.popitem()
        from stepwell.stores.postgres.sessions import open_connection
        from stepwell.stores.postgres.texts import functions_schema, quoted
        from stepwell.stores.postgres.urls import parse_address

        address = parse_address(own)
        with open_connection(address) as connection:
            for schema in (address.schema, functions_schema(address.schema)):
                connection.execute(f"drop schema if exists {quoted(schema)} cascade".encode())
