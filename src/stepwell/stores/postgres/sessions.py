"""Sessions: opens connections and sets them up."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stepwell.errors import InvalidOptionError, StepwellError, StoreUnavailableError
from stepwell.stores.postgres.connections import Connection, TimeoutConnection
from stepwell.stores.postgres.faults import unavailable
from stepwell.stores.postgres.refusals import refused
from stepwell.stores.postgres.texts import USE_LOCK, functions_schema
from stepwell.stores.postgres.urls import Address

# The settings of every session.
_SETTINGS = {
    "lock_timeout": "10s",  # another transition may lock a row; none takes this long
    "jit": "off",
    # The server's side: by default it keeps the locks of a machine that lost power for two hours.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_HOST_SECONDS_MIN = 2  # the driver's minimum
_SETUP_SECONDS = 1.0
_PREPARED_AFTER = 5  # prepare an author's statement after so many uses


async def connect(address: Address, timeout_seconds: float | None = None) -> Connection:
    """A connection on the running event loop, within about `timeout_seconds`."""
    conninfo, seconds = _with_timeout(address.conninfo, timeout_seconds)
    try:
        async with asyncio.timeout(seconds):
            driver = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
            try:
                row = await (await driver.execute(_setup_query(address, driver))).fetchone()
                connection = _connection(driver, address, row)
            except BaseException:
                await driver.close()
                raise
    except TimeoutError as error:
        raise unavailable(address.where, "could not connect in time") from error
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error
    connection.attach(asyncio.get_running_loop())
    return connection


def connect_now(address: Address, timeout_seconds: float | None = None) -> Connection:
    """A connection for callers that cannot await. Each of its answers may take `timeout_seconds`."""
    try:
        driver = TimeoutConnection.connect(
            _with_timeout(address.conninfo, timeout_seconds)[0], autocommit=True, prepare_threshold=None
        )
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error
    if timeout_seconds is not None:
        driver.answer_timeout.set(timeout_seconds)
    try:
        return _connection(driver, address, driver.execute(_setup_query(address, driver)).fetchone())
    except psycopg.Error as error:
        driver.close()
        raise refused(error, address.where) from error
    except BaseException:
        driver.close()
        raise


def _with_timeout(conninfo: str, timeout_seconds: float | None) -> tuple[str, float | None]:
    """The connection string with a time limit for each host, and the limit for all hosts together."""
    if timeout_seconds is None:
        return conninfo, None
    parts = conninfo_to_dict(conninfo)
    hosts = len(str(parts.get("host") or "").split(","))
    given = str(parts.get("connect_timeout") or "0")
    if not given.isdecimal():
        return conninfo, timeout_seconds  # the driver reports what is wrong with it
    limit = int(given) or timeout_seconds
    each = max(_HOST_SECONDS_MIN, int(min(limit, timeout_seconds) / hosts))
    return make_conninfo(conninfo, connect_timeout=each), max(timeout_seconds, each * hosts + _SETUP_SECONDS)


def connecting_seconds(address: Address, timeout_seconds: float) -> float:
    """How long connecting may take, if a call may take `timeout_seconds`."""
    return _with_timeout(address.conninfo, timeout_seconds)[1] or timeout_seconds


def reconnect_now(address: Address, timeout_seconds: float | None = None) -> Connection:
    """`connect_now` for a process that was connected before. Raises only `StoreUnavailableError`."""
    try:
        return connect_now(address, timeout_seconds)
    except StepwellError as error:
        raise outage(error, address.where) from error


def outage(error: StepwellError, where: str) -> StoreUnavailableError:
    """The error of a process that is refused after it had access: an operator is changing the server and will let it in
    again.

    If this counted as a rejected request, the run whose commit met it would be blamed.
    """
    return error if isinstance(error, StoreUnavailableError) else unavailable(where, error.why or error.title)


def open_connection(address: Address, conninfo: str | None = None) -> psycopg.Connection[Any]:
    """A plain driver connection in autocommit; `conninfo` replaces the address's own."""
    try:
        # No prepared statements: behind a pooler, the next statement may run in another session.
        return psycopg.Connection.connect(conninfo or address.conninfo, autocommit=True, prepare_threshold=None)
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error


def is_pooled(driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], backend_pid: int) -> bool:
    """Whether there is a pooler in front of the server: its process number differs from the server's."""
    return backend_pid != driver.pgconn.backend_pid


def _setup_query(address: Address, driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bytes:
    """Ask for the process number and default isolation of the server, and configure the session, in one round trip.

    The session also shows, by a lock that nothing waits for, that it uses the functions of this release. Behind a
    pooler nothing is configured: it would affect the next user of the session.
    """
    isolation = {} if address.isolation is None else {"default_transaction_isolation": address.isolation}
    settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in (_SETTINGS | isolation).items())
    use = f"pg_advisory_lock_shared({USE_LOCK}, hashtext('{functions_schema(address.schema)}'))"
    return (
        "select pg_backend_pid(), current_setting('default_transaction_isolation'),"
        f" case when pg_backend_pid() = {driver.pgconn.backend_pid} then concat({settings}, {use}) end"
    ).encode()


def _connection(
    driver: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], address: Address, answer: Any
) -> Connection:
    backend_pid, isolation, _ = answer
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
        f"isolation={address.isolation.replace(' ', '-')} is not possible through the pooler at {address.where}",
        where="url",
        why=f"a pooler shares sessions, so stepwell does not configure them; the server's default is {isolation}",
        fix=f"alter role … set default_transaction_isolation = '{address.isolation}', or leave out isolation=",
    )
