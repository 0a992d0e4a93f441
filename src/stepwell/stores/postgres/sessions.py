"""Sessions: connections that are opened, introduced and set up."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stepwell.errors import InvalidOptionError, StepwellError, StoreUnavailableError
from stepwell.stores.postgres.connections import Connection, TimelyConnection
from stepwell.stores.postgres.faults import unavailable
from stepwell.stores.postgres.refusals import refused
from stepwell.stores.postgres.urls import Address

# What every session is set to.
_SETTINGS = {
    "lock_timeout": "10s",  # for another transition that has a row: longer than any of them takes
    "jit": "off",
    # The server's own side: by default it keeps the locks of a machine that lost its power for two hours.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_HOST_SECONDS_MIN = 2  # the driver counts no shorter
_INTRODUCTION_SECONDS = 1.0
_PREPARED_AFTER = 5  # an author's own statement, when it was used so often


async def connect(address: Address, patience: float | None = None) -> Connection:
    """A connection on the running event loop, within about so many seconds."""
    conninfo, seconds = _soon(address.conninfo, patience)
    try:
        async with asyncio.timeout(seconds):
            driver = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
            try:
                row = await (await driver.execute(_introduction(address, driver))).fetchone()
                connection = _connection(driver, address, row)
            except BaseException:
                await driver.close()
                raise
    except TimeoutError as error:
        raise unavailable(address.where, "no connection came about in time") from error
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error
    connection.attach(asyncio.get_running_loop())
    return connection


def connect_now(address: Address, patience: float | None = None) -> Connection:
    """A connection for callers that cannot wait. Each of its answers may take so many seconds."""
    try:
        driver = TimelyConnection.connect(_soon(address.conninfo, patience)[0], autocommit=True, prepare_threshold=None)
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error
    if patience is not None:
        driver.answer_timeout.set(patience)
    try:
        return _connection(driver, address, driver.execute(_introduction(address, driver)).fetchone())
    except psycopg.Error as error:
        driver.close()
        raise refused(error, address.where) from error
    except BaseException:
        driver.close()
        raise


def _soon(conninfo: str, patience: float | None) -> tuple[str, float | None]:
    """The way to a server with a limit for each of its hosts, and how long all of them may take together."""
    if patience is None:
        return conninfo, None
    parts = conninfo_to_dict(conninfo)
    hosts = len(str(parts.get("host") or "").split(","))
    given = str(parts.get("connect_timeout") or "0")
    if not given.isdecimal():
        return conninfo, patience  # the driver says what is wrong with it
    limit = int(given) or patience
    each = max(_HOST_SECONDS_MIN, int(min(limit, patience) / hosts))
    return make_conninfo(conninfo, connect_timeout=each), max(patience, each * hosts + _INTRODUCTION_SECONDS)


def connecting_seconds(address: Address, patience: float) -> float:
    """How long it may take to connect, if a call may take so long."""
    return _soon(address.conninfo, patience)[1] or patience


def connect_again(address: Address, patience: float | None = None) -> Connection:
    """`connect_now`, for who was let in before. Raises `StoreUnavailableError` only."""
    try:
        return connect_now(address, patience)
    except StepwellError as error:
        raise outage(error, address.where) from error


def outage(error: StepwellError, where: str) -> StoreUnavailableError:
    """What it means not to be let in any more: people are at work on the server, and will let us in again.

    Taken for a refusal, it would be blamed on the run whose commit met it.
    """
    return error if isinstance(error, StoreUnavailableError) else unavailable(where, error.why or error.title)


def open_connection(address: Address, conninfo: str | None = None) -> psycopg.Connection[Any]:
    """A plain connection of the driver's, in autocommit; by another way than the usual one if that is given."""
    try:
        # No statement is kept in the session: behind a pooler the next one may be another.
        return psycopg.Connection.connect(conninfo or address.conninfo, autocommit=True, prepare_threshold=None)
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error


def is_pooled(driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], backend_pid: int) -> bool:
    """Whether somebody stands between us and the server: a pooler gives another process number than the server does."""
    return backend_pid != driver.pgconn.backend_pid


def _introduction(address: Address, driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bytes:
    """Ask who answers and how it keeps transactions apart by itself; and set the session, in the same round trip.

    Behind a pooler nothing is set: it would be for whoever has the session next.
    """
    isolation = {} if address.isolation is None else {"default_transaction_isolation": address.isolation}
    settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in (_SETTINGS | isolation).items())
    return (
        "select pg_backend_pid(), current_setting('default_transaction_isolation'),"
        f" case when pg_backend_pid() = {driver.pgconn.backend_pid} then concat({settings}) end"
    ).encode()


def _connection(
    driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], address: Address, introduced: Any
) -> Connection:
    backend_pid, isolation, _ = introduced
    connection = Connection(driver, address.schema, address.where)
    connection.prepares = not is_pooled(driver, backend_pid)
    if not connection.prepares and address.isolation not in (None, isolation):
        raise _not_isolated(address, isolation)
    connection.must_write = conninfo_to_dict(address.conninfo).get("target_session_attrs") in ("read-write", "primary")
    driver.prepare_threshold = _PREPARED_AFTER if connection.prepares else None
    return connection


def _not_isolated(address: Address, isolation: str) -> InvalidOptionError:
    assert address.isolation is not None
    return InvalidOptionError(
        f"isolation={address.isolation.replace(' ', '-')} cannot be had through the pooler at {address.where}",
        where="url",
        why=f"a pooler gives sessions to others, so none is set to anything; the server's own default is {isolation}",
        fix=f"alter role … set default_transaction_isolation = '{address.isolation}', or leave out isolation=",
    )
