"""Making the database ready: the schema, the tables, and this release's functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg
from psycopg.rows import TupleRow

from stepwell.errors import ForeignFileError, StoreNotWritableError
from stepwell.ids import random_bytes
from stepwell.stores.postgres.texts import FUNCTIONS, MIGRATIONS, functions_schema, quoted, render
from stepwell.stores.sql.migrations import pending_migrations

Connection = psycopg.Connection[TupleRow]

_LOCK = 1398034253  # among all advisory locks: migrations of stepwell
_NEEDED = 160000


class Found(NamedTuple):
    """What is in the database now."""

    version: int  # of the tables; 0: none yet
    has_functions: bool
    identity: int  # of the database, as long as it exists


def look(connection: Connection, schema: str, where: str) -> Found:
    """Read what there is. Raises `ForeignFileError` for tables that are not ours."""
    row = connection.execute(
        "select to_regnamespace(%s) is not null, to_regclass(%s) is not null, to_regnamespace(%s) is not null,"
        " (select count(*) from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where n.nspname = %s)",
        (quoted(schema), f"{quoted(schema)}.meta", quoted(functions_schema(schema)), schema),
    ).fetchone()
    assert row is not None
    has_schema, has_meta, has_functions, objects = row
    if not has_schema or (not has_meta and objects == 0):
        return Found(0, False, 0)
    if not has_meta:
        raise _foreign(schema, where, "it has tables, and none of them is stepwell's")
    try:
        values: dict[Any, Any] = dict(
            connection.execute(f"select name, value from {quoted(schema)}.meta".encode()).fetchall()
        )
        return Found(int(values["schema"]), bool(has_functions), int(values["identity"]))
    except psycopg.errors.InsufficientPrivilege:
        raise
    except (psycopg.errors.ProgrammingError, KeyError, TypeError, ValueError) as error:
        raise _foreign(schema, where, f"its table meta is another one ({type(error).__name__})") from None


def prepare(connection: Connection, schema: str, where: str) -> Found:
    """Create or migrate what is missing, once: whoever comes at the same moment waits for the first."""
    found = look(connection, schema, where)
    pending = pending_migrations(MIGRATIONS, found.version, where=where)
    if not pending and found.has_functions:
        return found
    try:
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, schema))
            found = look(connection, schema, where)
            _migrate(connection, schema, found, where)
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreNotWritableError(
            f"this role may not create what stepwell needs in {where}",
            where=where,
            why=f"PostgreSQL says: {error.diag.message_primary}",
            fix="run `stepwell migrate` once with a role that may create schemas, then grant this one what "
            "docs/postgres.md lists",
        ) from None
    return look(connection, schema, where)


def _migrate(connection: Connection, schema: str, found: Found, where: str) -> None:
    if found.version == 0:
        connection.execute(f"create schema if not exists {quoted(schema)}".encode())
    for migration in pending_migrations(MIGRATIONS, found.version, where=where):
        connection.execute(render(migration.text, schema).encode())
    if found.version == 0:
        identity = int.from_bytes(random_bytes(7), "big")
        insert = f"insert into {quoted(schema)}.meta (name, value) values ('schema', 0), ('identity', %s)"
        connection.execute(insert.encode(), (identity,))
    connection.execute(
        f"update {quoted(schema)}.meta set value = %s where name = 'schema'".encode(),
        (MIGRATIONS[-1].number,),
    )
    if not found.has_functions:
        connection.execute(f"create schema {quoted(functions_schema(schema))}".encode())
        connection.execute(render(FUNCTIONS, schema).encode())


def check_server(connection: Connection, where: str) -> None:
    """Refuse a server that is too old, or one that does not keep what it is told."""
    if connection.info.server_version < _NEEDED:
        major = connection.info.server_version // 10_000
        raise StoreNotWritableError(
            f"{where} is PostgreSQL {major}",
            where=where,
            why="stepwell needs PostgreSQL 16 or newer",
            fix="upgrade the server, or use another one",
        )


def _foreign(schema: str, where: str, why: str) -> ForeignFileError:
    return ForeignFileError(
        f"schema {schema!r} of {where} is not stepwell's",
        where=where,
        why=why,
        fix="name another schema: add ?schema=NAME to the URL; nothing was changed",
    )
