"""The stores that a test can run on: one database each, with any number of handles, and nothing in the background."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from stepwell.environment import Environment
from stepwell.errors import InvalidOptionError
from stepwell.ids import random_bytes
from stepwell.stores.base.store import Store

if TYPE_CHECKING:
    from stepwell.stores.postgres.pool import InlinePool
    from stepwell.stores.sqlite.database import SqliteDatabase

StoreKind = Literal["memory", "sqlite", "postgres"]
STORE_KINDS: tuple[StoreKind, ...] = ("memory", "sqlite", "postgres")


class Database(Protocol):
    """One database of one test."""

    def open(self, environment: Environment, told: Environment) -> Store:
        """A handle on it, as one process has it. `told` has the time that all processes agree on."""
        ...

    def close(self) -> None:
        """The test is over."""
        ...


class Sqlite:
    """A file, or a database in memory. Nothing waits for the disk: a test that ends is not a power cut."""

    def __init__(self, file: Path | None) -> None:
        from stepwell.stores.sqlite.database import SqliteDatabase

        self._path = ":memory:" if file is None else str(file)
        self._database: SqliteDatabase = SqliteDatabase(self._path, synchronous="NORMAL")

    def open(self, environment: Environment, told: Environment) -> Store:
        from stepwell.stores.sqlite.runners import InlineRunner
        from stepwell.stores.sqlite.store import SqliteStore

        return SqliteStore(environment, self._path, runner=InlineRunner(self._database))

    def close(self) -> None:
        self._database.handles.clear()
        self._database.close()


class PostgresSchema:
    """A schema of its own in a database that is there: made ready once for a process, and emptied for each test."""

    def __init__(self, url: str) -> None:
        from stepwell.stores.postgres.pool import InlinePool
        from stepwell.stores.postgres.urls import parse_address

        self._url = _cleared(url)
        self._pool: InlinePool = InlinePool(parse_address(self._url))

    def open(self, environment: Environment, told: Environment) -> Store:
        from stepwell.stores.postgres.store import PostgresStore

        return PostgresStore(environment, self._url, told=told.clock, pool=self._pool)

    def close(self) -> None:
        self._pool.end()


def open_database(kind: StoreKind, *, folder: Path | None, postgres: str | None) -> Database:
    """An empty database. Raises `InvalidOptionError` for a kind that there is not, or without a server to use."""
    match kind:
        case "memory":
            return Sqlite(None)
        case "sqlite":
            return Sqlite(None if folder is None else folder / "stepwell-test.db")
        case "postgres":
            if postgres is None:
                raise InvalidOptionError(
                    "no PostgreSQL server is named for tests",
                    where="stores",
                    fix="set STEPWELL_TEST_POSTGRES to the URL of a database that tests may use",
                )
            return PostgresSchema(postgres)
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
