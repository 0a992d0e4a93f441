"""Opening connections, and saying in our words why one cannot be opened."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from stepwell.errors import StoreError, StoreNotWritableError, StoreUnavailableError
from stepwell.stores.postgres.faults import unavailable
from stepwell.stores.postgres.lines import Line
from stepwell.stores.postgres.texts import functions_schema, quoted
from stepwell.stores.postgres.urls import Address

# How long a transition waits for another one that has a row: longer than any of them takes.
_LOCK_TIMEOUT = "10s"
# The server's own side: by default it holds the locks of a machine that lost its power for two hours.
_KEEPALIVES = "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3"


async def connect(address: Address) -> Line:
    """A line on the running event loop."""
    try:
        connection = await psycopg.AsyncConnection.connect(address.conninfo, autocommit=True)
        try:
            settings = _settings(address, is_pooled=await _is_pooled(connection))
            if settings is not None:
                await connection.execute(settings)
        except BaseException:
            await connection.close()
            raise
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error
    line = _line(connection, address, is_pooled=settings is None)
    line.attach(asyncio.get_running_loop())
    return line


def connect_now(address: Address) -> Line:
    """A line for callers that cannot wait."""
    connection = open_connection(address)
    try:
        row = connection.execute("select pg_backend_pid()").fetchone()
        is_pooled = row is not None and row[0] != connection.pgconn.backend_pid
        settings = _settings(address, is_pooled=is_pooled)
        if settings is not None:
            connection.execute(settings)
    except psycopg.Error as error:
        connection.close()
        raise refused(error, address.where) from error
    return _line(connection, address, is_pooled=is_pooled)


def connect_again(address: Address) -> Line:
    """`connect_now`, for who was let in before. Raises `StoreUnavailableError` only."""
    try:
        return connect_now(address)
    except StoreNotWritableError as error:
        raise outage(error, address.where) from error


def outage(error: StoreError, where: str) -> StoreUnavailableError:
    """What it means not to be let in any more: people are at work on the server, and will let us in again.

    Taken for a refusal, it would be blamed on the run whose commit met it.
    """
    return error if isinstance(error, StoreUnavailableError) else unavailable(where, error.why or error.title)


def open_connection(address: Address) -> psycopg.Connection[Any]:
    """A plain connection of the driver's, in autocommit."""
    try:
        return psycopg.Connection.connect(address.conninfo, autocommit=True)
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error


async def _is_pooled(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether somebody stands between us and the server: a pooler gives another process number than the server does."""
    row = await (await connection.execute("select pg_backend_pid()")).fetchone()
    return row is not None and row[0] != connection.pgconn.backend_pid


def _settings(address: Address, *, is_pooled: bool) -> sql.SQL | None:
    """What every session is set to. Behind a pooler nothing: it would be set for whoever has the session next."""
    if is_pooled:
        return None
    text = f"set lock_timeout = '{_LOCK_TIMEOUT}'; set jit = off; {_KEEPALIVES}"
    if address.isolation is not None:
        text += f"; set default_transaction_isolation = '{address.isolation}'"
    return sql.SQL(text)  # type: ignore[arg-type]


def _line(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], address: Address, *, is_pooled: bool
) -> Line:
    line = Line(connection, quoted(functions_schema(address.schema)), address.where)
    line.prepares = not is_pooled
    line.must_write = conninfo_to_dict(address.conninfo).get("target_session_attrs") in ("read-write", "primary")
    return line


def refused(error: Exception, where: str) -> StoreError:
    """Why no connection came about."""
    words = " ".join(str(error).split())
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith("28") or "authentication failed" in words or "no pg_hba.conf entry" in words:
        return StoreNotWritableError(
            f"{where} does not let this user in",
            where=where,
            why=words,
            fix="look at user and password in the URL, and at the server's pg_hba.conf",
        )
    if state == "3D000" or ("database" in words and "does not exist" in words):
        return StoreNotWritableError(
            f"there is no database {where}",
            where=where,
            why=words,
            fix="create it (createdb), or name another one in the URL",
        )
    if state == "42501" or "permission denied" in words:
        return StoreNotWritableError(
            f"this user may not connect to {where}", where=where, why=words, fix="grant connect on the database to it"
        )
    return unavailable(where, words)
