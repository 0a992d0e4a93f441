"""Opening connections, and saying in our words why one cannot be opened."""

from __future__ import annotations

import asyncio
import re
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stepwell.errors import (
    InvalidOptionError,
    StepwellError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from stepwell.stores.postgres.faults import in_words, unavailable
from stepwell.stores.postgres.lines import Line, TimelyConnection
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


async def connect(address: Address, patience: float | None = None) -> Line:
    """A line on the running event loop, within about so many seconds."""
    conninfo, seconds = _soon(address.conninfo, patience)
    try:
        async with asyncio.timeout(seconds):
            connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
            try:
                row = await (await connection.execute(_introduction(address, connection))).fetchone()
                line = _line(connection, address, row)
            except BaseException:
                await connection.close()
                raise
    except TimeoutError as error:
        raise unavailable(address.where, "no connection came about in time") from error
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error
    line.attach(asyncio.get_running_loop())
    return line


def connect_now(address: Address, patience: float | None = None) -> Line:
    """A line for callers that cannot wait. Each of its answers may take so many seconds."""
    try:
        connection = TimelyConnection.connect(
            _soon(address.conninfo, patience)[0], autocommit=True, prepare_threshold=None
        )
    except (psycopg.Error, OSError) as error:
        raise refused(error, address.where) from error
    if patience is not None:
        connection.silence.lasts(patience)
    try:
        return _line(connection, address, connection.execute(_introduction(address, connection)).fetchone())
    except psycopg.Error as error:
        connection.close()
        raise refused(error, address.where) from error
    except BaseException:
        connection.close()
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


def connect_again(address: Address, patience: float | None = None) -> Line:
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


def is_pooled(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], backend_pid: int) -> bool:
    """Whether somebody stands between us and the server: a pooler gives another process number than the server does."""
    return backend_pid != connection.pgconn.backend_pid


def _introduction(address: Address, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bytes:
    """Ask who answers and how it keeps transactions apart by itself; and set the session, in the same round trip.

    Behind a pooler nothing is set: it would be for whoever has the session next.
    """
    isolation = {} if address.isolation is None else {"default_transaction_isolation": address.isolation}
    settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in (_SETTINGS | isolation).items())
    return (
        "select pg_backend_pid(), current_setting('default_transaction_isolation'),"
        f" case when pg_backend_pid() = {connection.pgconn.backend_pid} then concat({settings}) end"
    ).encode()


def _line(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], address: Address, introduced: Any
) -> Line:
    backend_pid, isolation, _ = introduced
    line = Line(connection, address.schema, address.where)
    line.prepares = not is_pooled(connection, backend_pid)
    if not line.prepares and address.isolation not in (None, isolation):
        raise _not_isolated(address, isolation)
    line.must_write = conninfo_to_dict(address.conninfo).get("target_session_attrs") in ("read-write", "primary")
    connection.prepare_threshold = _PREPARED_AFTER if line.prepares else None
    return line


def _not_isolated(address: Address, isolation: str) -> InvalidOptionError:
    assert address.isolation is not None
    return InvalidOptionError(
        f"isolation={address.isolation.replace(' ', '-')} cannot be had through the pooler at {address.where}",
        where="url",
        why=f"a pooler gives sessions to others, so none is set to anything; the server's own default is {isolation}",
        fix=f"alter role … set default_transaction_isolation = '{address.isolation}', or leave out isolation=",
    )


class _Refusal(NamedTuple):
    """How a server or the driver says that there will be no connection, and what that is in our words."""

    words: re.Pattern[str]
    kind: type[StoreError]
    title: str
    fix: str


# The driver gives no state for these. With several hosts its words have all that was said by any of them.
_REFUSALS = (
    _Refusal(
        re.compile(
            r"authentication failed|no pg_hba\.conf entry|role \".*\" (?:does not exist|is not permitted to log in)"
            r"|no password supplied|pg_hba\.conf rejects|no such user|not allowed to connect"
        ),
        StoreAccessError,
        "{where} does not let this user in",
        "look at user and password in the URL, and at the server's pg_hba.conf",
    ),
    _Refusal(
        re.compile(r"database \".*\" does not exist|no such database"),
        StoreAccessError,
        "there is no database {where}",
        "create it (createdb), or name another one in the URL",
    ),
    _Refusal(
        re.compile(r"permission denied for database"),
        StoreAccessError,
        "this user may not connect to {where}",
        "grant connect on the database to it",
    ),
    _Refusal(
        re.compile(r"\bSSL\b|certificate|channel binding"),
        StoreAccessError,
        "no encrypted connection to {where} comes about",
        "look at sslmode and sslrootcert in the URL, and at ssl of the server",
    ),
    _Refusal(
        re.compile(r"failed to resolve host|could not translate host name"),
        StoreUnavailableError,
        "{where} cannot be reached: there is no such host",
        "look at the host in the URL; if it is right, the name service is away and work goes on when it is back",
    ),
    _Refusal(
        re.compile(r"session is read-only|hot standby mode"),
        StoreUnavailableError,
        "no server at {where} takes writes",
        "promote a standby, or name the primary in the URL; work goes on by itself then",
    ),
    _Refusal(
        re.compile(r"too many clients|remaining connection slots|too many connections|no more connections allowed"),
        StoreUnavailableError,
        "{where} has no connection left",
        "end idle connections, lower lines in the URL, or raise max_connections of the server",
    ),
    _Refusal(
        re.compile(r"Connection refused|No such file or directory"),
        StoreUnavailableError,
        "nobody answers at {where}",
        "start the server, or look at host and port in the URL; work goes on by itself when it answers",
    ),
)
_WRONG_VALUE = re.compile(
    r"invalid (?:integer value|port number|\w+ value)|bad value for|invalid value for parameter"
    r"|unsupported startup parameter"
)


def refused(error: Exception, where: str) -> StepwellError:
    """Why no connection came about."""
    words = " ".join(str(error).split())
    for refusal in _REFUSALS:
        if refusal.words.search(words):
            return refusal.kind(refusal.title.format(where=where), where=where, why=words, fix=refusal.fix)
    if _WRONG_VALUE.search(words) or (isinstance(error, psycopg.ProgrammingError) and not error.sqlstate):
        return InvalidOptionError(
            "an option in the URL has a value that it cannot have",
            where="url",
            why=words,
            fix="mend it in the URL; libpq's documentation lists the values",
        )
    return in_words(error, where) if isinstance(error, psycopg.Error) else unavailable(where, words)
