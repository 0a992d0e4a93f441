"""Prepares the database: the schema, the tables, and this release's functions."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import TupleRow

from stepwell.errors import ForeignFileError, SchemaMissingError, StoreAccessError, StoreNotWritableError
from stepwell.ids import random_bytes
from stepwell.stores.base.migrations import Migrated
from stepwell.stores.postgres.faults import to_store_error
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.texts import FUNCTIONS, MIGRATIONS, SQL, USE_LOCK, functions_schema, quoted, render
from stepwell.stores.postgres.urls import parse_address
from stepwell.stores.sql.migrations import pending_migrations

DriverConnection = psycopg.Connection[TupleRow]

_LOCK = 1398034253  # the advisory lock of stepwell's migrations
_NEEDED = 160000
_INSPECT = """
select to_regnamespace(%s) is not null, to_regclass(%s) is not null, to_regnamespace(%s) is not null,
    (select count(*) from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where n.nspname = %s)
"""


class SchemaState(NamedTuple):
    """What the database contains now."""

    version: int  # of the tables; 0: none yet
    has_functions: bool
    identity: int  # of the database; it never changes


def inspect(connection: DriverConnection, schema: str, where: str) -> SchemaState:
    """Read what the database contains; change nothing.

    Raises `ForeignFileError` for tables that are not ours, `StoreNotWritableError` if the role may not read them.
    """
    try:
        return _inspect(connection, schema, where)
    except psycopg.Error as error:
        raise to_store_error(error, where) from error


def check_ready(connection: DriverConnection, schema: str, where: str) -> SchemaState:
    """Read what the database contains. Raises `SchemaMissingError` unless this release can use it; changes nothing."""
    found = inspect(connection, schema, where)
    missing = describe_missing(found, where)
    if missing:
        raise SchemaMissingError(
            f"{where} {missing}",
            where=f"schema {schema}",
            why="a worker or the first start creates what is missing; other commands change nothing",
            fix="stepwell migrate --db URL, with a role that may create schemas",
        )
    return found


def describe_missing(found: SchemaState, where: str) -> str:
    """What the database lacks for this release; empty if nothing is missing. Raises `SchemaMismatchError`."""
    pending = pending_migrations(MIGRATIONS, found.version, where=where)
    if found.version == 0:
        return "has no stepwell tables yet"
    if pending:
        return f"has schema {found.version}, and this stepwell needs {MIGRATIONS[-1].number}"
    return "" if found.has_functions else "lacks the functions of this release of stepwell"


def is_newest(version: int) -> bool:
    """Whether this is the version of the tables that this release needs."""
    return version == MIGRATIONS[-1].number


def prepare(connection: DriverConnection, schema: str, where: str) -> SchemaState:
    """Create or migrate what is missing, once: concurrent callers wait for the first.

    All or nothing. Raises what `inspect` raises, `SchemaMismatchError`, and `StoreNotWritableError` if the role lacks
    rights.
    """
    found = inspect(connection, schema, where)
    missing = describe_missing(found, where)
    if not missing:
        return found
    try:
        with connection.transaction():
            # Independent of the default: this must see what another process has just committed.
            connection.execute("set transaction isolation level read committed")
            connection.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, schema))
            _migrate(connection, schema, _inspect(connection, schema, where), where)
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreNotWritableError(
            f"{where} {missing}, and this role may not create what is missing",
            where=f"schema {schema}",
            why=f"PostgreSQL says: {error.diag.message_primary}",
            fix="run `stepwell migrate` once with the role that owns the schema, or may create it; docs/postgres.md "
            "has the grants for this one",
        ) from None
    except psycopg.Error as error:
        raise to_store_error(error, where) from error
    return inspect(connection, schema, where)


def migrate(url: str, *, is_plan: bool) -> Migrated:
    """`prepare` the database of a URL, or only report what that would do."""
    address = parse_address(url)
    with open_connection(address) as connection:
        check_server(connection, address.where)
        found = inspect(connection, address.schema, address.where)
        describe_missing(found, address.where)  # raises for a newer schema
        dropped: tuple[str, ...] = ()
        if not is_plan:
            prepare(connection, address.schema, address.where)
            dropped = drop_unused(connection, address.schema, address.where)
    functions = "" if found.has_functions else functions_schema(address.schema)
    return Migrated(address.where, found.version, MIGRATIONS[-1].number, functions, dropped)


def drop_unused(connection: DriverConnection, schema: str, where: str) -> tuple[str, ...]:
    """Drop functions that were installed before those of this release, and that no live worker and no session uses;
    returns the names of their schemas.

    What belongs to another role stays. Behind a pooler, only workers show which release they use.
    """
    named = {"own": functions_schema(schema), "pattern": f"^{re.escape(schema)}_[0-9a-f]{{10}}$"}
    dropped: list[str] = []
    try:
        for name, is_used in connection.execute(
            render(SQL["upkeep.other_releases"], schema).encode(), named
        ).fetchall():
            if not is_used and _drop(connection, name):
                dropped.append(name)
    except psycopg.Error as error:
        raise to_store_error(error, where) from error
    return tuple(dropped)


def _drop(connection: DriverConnection, name: str) -> bool:
    try:
        with connection.transaction():
            row = connection.execute("select pg_try_advisory_xact_lock(%s, hashtext(%s))", (USE_LOCK, name)).fetchone()
            if row is None or not row[0]:
                return False  # a session uses it
            connection.execute(f"drop schema {quoted(name)} cascade".encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName):
        return False
    return True


def check_server(connection: DriverConnection, where: str) -> None:
    """Raise `StoreAccessError` for a server that is too old."""
    if connection.info.server_version < _NEEDED:
        raise StoreAccessError(
            f"{where} is PostgreSQL {connection.info.server_version // 10_000}",
            where=where,
            why=f"stepwell needs PostgreSQL {_NEEDED // 10_000} or newer",
            fix="upgrade the server, or use another one",
        )


def _inspect(connection: DriverConnection, schema: str, where: str) -> SchemaState:
    names = (quoted(schema), f"{quoted(schema)}.meta", quoted(functions_schema(schema)), schema)
    row = connection.execute(_INSPECT, names).fetchone()
    assert row is not None
    has_schema, has_meta, has_functions, objects = row
    if not has_schema or (not has_meta and objects == 0):
        return SchemaState(0, False, 0)
    if not has_meta:
        raise _foreign(schema, where, "it has tables, but none of stepwell")
    try:
        values: dict[Any, Any] = dict(
            connection.execute(f"select name, value from {quoted(schema)}.meta".encode()).fetchall()
        )
        return SchemaState(int(values["schema"]), bool(has_functions), int(values["identity"]))
    except psycopg.errors.InsufficientPrivilege:
        raise
    except (psycopg.errors.ProgrammingError, KeyError, TypeError, ValueError) as error:
        raise _foreign(schema, where, f"its table meta is not stepwell's ({type(error).__name__})") from None


def _migrate(connection: DriverConnection, schema: str, found: SchemaState, where: str) -> None:
    if found.version == 0:
        connection.execute(f"create schema if not exists {quoted(schema)}".encode())
    for migration in pending_migrations(MIGRATIONS, found.version, where=where):
        connection.execute(render(migration.text, schema).encode())
    if found.version == 0:
        identity = int.from_bytes(random_bytes(7), "big")
        insert = f"insert into {quoted(schema)}.meta (name, value) values ('schema', 0), ('identity', %s)"
        connection.execute(insert.encode(), (identity,))
    if found.version < MIGRATIONS[-1].number:
        connection.execute(
            f"update {quoted(schema)}.meta set value = %s where name = 'schema'".encode(),
            (MIGRATIONS[-1].number,),
        )
    if not found.has_functions:
        connection.execute(f"create schema {quoted(functions_schema(schema))}".encode())
        connection.execute(render(FUNCTIONS, schema).encode())
        # When they were installed. Only older ones are dropped: workers of newer ones may be about to start.
        row = connection.execute("select (extract(epoch from clock_timestamp()) * 1000000)::bigint").fetchone()
        assert row is not None
        connection.execute(f"comment on schema {quoted(functions_schema(schema))} is '{row[0]:d}'".encode())


def _foreign(schema: str, where: str, why: str) -> ForeignFileError:
    return ForeignFileError(
        f"schema {schema!r} of {where} is not stepwell's",
        where=f"schema {schema}",
        why=why,
        fix="name another schema: add ?schema=NAME to the URL; nothing was changed",
    )
