"""Opens, prepares, examines and shows the store of a URL. The only importer of concrete stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from stepwell.errors import InvalidOptionError

if TYPE_CHECKING:
    from stepwell.environment import Environment
    from stepwell.stores.base.backups import BackedUp, Fenced, Restored
    from stepwell.stores.base.diagnosis import Diagnosis
    from stepwell.stores.base.migrations import Migrated
    from stepwell.stores.base.store import Store
    from stepwell.stores.base.upkeep import Upkeep


def open_store(url: str, environment: Environment, *, may_create: bool = True) -> Store:
    """The store of a URL: `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://user@host/database`, or
    `memory:`, a SQLite database in memory that no other store shares. `sqlite:///app.db?shared=1` keeps runs beside the
    tables of an application. Without `may_create`, a store raises if it had to create or migrate tables on a server.
    """
    match store_kind(url):
        case "memory":
            from stepwell.stores.sqlite.store import SqliteStore

            return SqliteStore(environment, ":memory:")
        case "sqlite":
            from stepwell.stores.sqlite.store import SqliteStore

            return SqliteStore(environment, sqlite_file(url), is_shared=is_shared(url))
        case "postgres":
            with _driver():
                from stepwell.stores.postgres.store import PostgresStore
            return PostgresStore(environment, url, may_create=may_create)


def migrate(url: str, *, is_plan: bool = False) -> Migrated:
    """Create or migrate the tables of a store, or only plan it. Blocks."""
    match store_kind(url):
        case "memory":
            raise _without_life(url)
        case "sqlite":
            from stepwell.stores.sqlite.migrator import migrate as migrate_file

            return migrate_file(sqlite_file(url), is_plan=is_plan, is_shared=is_shared(url))
        case "postgres":
            with _driver():
                from stepwell.stores.postgres.migrator import migrate as migrate_database
            return migrate_database(url, is_plan=is_plan)


def diagnose(url: str, environment: Environment) -> Diagnosis:
    """An examination of the store of a URL."""
    match store_kind(url):
        case "memory":
            raise _without_life(url)
        case "sqlite":
            from stepwell.stores.sqlite.diagnosis import SqliteDiagnosis

            return SqliteDiagnosis(environment, sqlite_file(url), is_shared=is_shared(url))
        case "postgres":
            with _driver():
                from stepwell.stores.postgres.diagnosis import PostgresDiagnosis
            return PostgresDiagnosis(environment, url)


def upkeep(url: str, environment: Environment) -> Upkeep:
    """What measures and cleans the store of a URL."""
    match store_kind(url):
        case "memory":
            raise _without_life(url)
        case "sqlite":
            from stepwell.stores.sqlite.upkeep import SqliteUpkeep

            return SqliteUpkeep(environment, sqlite_file(url))
        case "postgres":
            with _driver():
                from stepwell.stores.postgres.upkeep import PostgresUpkeep
            return PostgresUpkeep(environment, url)


def back_up(url: str, target: Path) -> BackedUp:
    """Copy a database into a new file while it is used. Raises `InvalidOptionError` for a server."""
    match store_kind(url):
        case "memory":
            raise _without_life(url)
        case "sqlite":
            from stepwell.stores.sqlite.backups import back_up as copy_file

            return copy_file(sqlite_file(url), target)
        case "postgres":
            where = spell_url(url)
            raise InvalidOptionError(
                f"{where} is backed up by PostgreSQL itself",
                where="url",
                why="a server has its own tools, which copy everything as of one moment",
                fix=f"pg_dump --format=custom --file {target} --dbname ADDRESS, or pg_basebackup for the whole server; "
                "after pg_restore, and before any worker starts: stepwell restore --fence ADDRESS",
            )


def restore(copy: Path, url: str, environment: Environment, *, is_forced: bool = False) -> Restored:
    """Replace a database by a copy. Raises `InvalidOptionError` for a server."""
    match store_kind(url):
        case "memory":
            raise _without_life(url)
        case "sqlite":
            from stepwell.stores.sqlite.backups import restore as put_back

            return put_back(copy, sqlite_file(url), environment, is_forced=is_forced)
        case "postgres":
            raise InvalidOptionError(
                f"{spell_url(url)} is restored by PostgreSQL itself",
                where="url",
                why="a server has its own tools for that",
                fix=f"pg_restore --dbname ADDRESS {copy}, and before any worker starts: "
                "stepwell restore --fence ADDRESS",
            )


def fence(url: str, environment: Environment) -> Fenced:
    """Make a database safe that other tools have restored: no id or epoch that was visible outside is used again."""
    match store_kind(url):
        case "memory":
            raise _without_life(url)
        case "sqlite":
            from stepwell.stores.sqlite.backups import fence as fence_file

            return fence_file(sqlite_file(url), environment)
        case "postgres":
            with _driver():
                from stepwell.stores.postgres.fences import fence as fence_database
            return fence_database(url)


def _without_life(url: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"{url!r} has nothing to read",
        where="url",
        why="a store in memory exists only in the process that opens it",
        fix='name a database: "sqlite:///shop.db" or "postgresql://user@host/database"',
    )


def spell_url(url: str) -> str:
    """The URL of a store without its password. Raises `InvalidOptionError` if it is not a URL of a store."""
    if store_kind(url) != "postgres":
        return url
    with _driver():
        from stepwell.stores.postgres.urls import parse_address
    return parse_address(url).where


def store_kind(url: str) -> Literal["memory", "sqlite", "postgres"]:
    """The kind of store that a URL names. Raises `InvalidOptionError`, which never quotes a password."""
    scheme, mark, _ = url.partition(":")
    match scheme.lower():
        case "memory" if mark:
            return "memory"
        case "sqlite" if url.lower().startswith("sqlite:///") and sqlite_file(url).name:
            is_shared(url)  # raises for unknown options
            return "sqlite"
        case "postgresql" | "postgres" if mark:
            return "postgres"
        case _:
            shown = url if not {"@", "="}.intersection(url) else f"{scheme}:…" if scheme.isalnum() else "…"
            raise InvalidOptionError(
                f"cannot open a store at {shown!r}",
                where="url",
                fix='write "sqlite:///shop.db", "postgresql://user@host/database" or "memory:"',
            )


def file_of(url: str) -> Path | None:
    """The file of a SQLite URL; None for the URL of another store. Raises `InvalidOptionError`."""
    return sqlite_file(url) if store_kind(url) == "sqlite" else None


def is_shared(url: str) -> bool:
    """Whether the file of a SQLite URL may hold tables of an application. Raises `InvalidOptionError`."""
    options = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    for name, value in options:
        if name != "shared" or value not in ("0", "1"):
            raise InvalidOptionError(
                f"a SQLite URL has no option {name}={value}",
                where="url",
                why="the only option is shared=1, for a file that also holds tables of an application",
                fix='write "sqlite:///shop.db" or "sqlite:///app.db?shared=1"',
            )
    return ("shared", "1") in options


def sqlite_file(url: str) -> Path:
    """The file of a SQLite URL."""
    return Path(unquote(urlsplit(url).path[1:]))


@contextmanager
def _driver() -> Iterator[None]:
    """Translate a failed import of the PostgreSQL driver into an error with a fix."""
    try:
        yield
    except ImportError as error:
        # If psycopg finds no libpq, it raises an ImportError without a name.
        if error.name is not None and not error.name.startswith("psycopg"):
            raise
        raise InvalidOptionError(
            "the driver for PostgreSQL is not installed, or cannot find libpq",
            where="url",
            why=str(error).splitlines()[0],
            fix='pip install "stepwell[postgres]"',
        ) from None
