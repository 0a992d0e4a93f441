"""Explains why a server refuses a connection."""

from __future__ import annotations

import re
from typing import NamedTuple

import psycopg

from stepwell.errors import (
    InvalidOptionError,
    StepwellError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from stepwell.stores.postgres.faults import to_store_error, unavailable


class _Refusal(NamedTuple):
    """The driver's words for a refused connection, and our error for it."""

    words: re.Pattern[str]
    kind: type[StoreError]
    title: str
    fix: str


# The driver gives no state for these errors. With several hosts, its message contains what each of them reported.
_REFUSALS = (
    _Refusal(
        re.compile(
            r"authentication failed|no pg_hba\.conf entry|role \".*\" (?:does not exist|is not permitted to log in)"
            r"|no password supplied|pg_hba\.conf rejects|no such user|not allowed to connect"
        ),
        StoreAccessError,
        "{where} does not let this user in",
        "check user and password in the URL, and at the server's pg_hba.conf",
    ),
    _Refusal(
        re.compile(r"database \".*\" does not exist|no such database"),
        StoreAccessError,
        "the database {where} does not exist",
        "create it (createdb), or name another one in the URL",
    ),
    _Refusal(
        re.compile(r"permission denied for database"),
        StoreAccessError,
        "this user may not connect to {where}",
        "grant it the right connect on the database",
    ),
    _Refusal(
        re.compile(r"\bSSL\b|certificate|channel binding"),
        StoreAccessError,
        "cannot make an encrypted connection to {where}",
        "check sslmode and sslrootcert in the URL, and the server's ssl setting",
    ),
    _Refusal(
        re.compile(r"failed to resolve host|could not translate host name"),
        StoreUnavailableError,
        "{where} cannot be reached: unknown host",
        "check the host in the URL; if it is right, name resolution is failing, and work continues when it is back",
    ),
    _Refusal(
        re.compile(r"session is read-only|hot standby mode"),
        StoreUnavailableError,
        "no server at {where} accepts writes",
        "promote a standby, or name the primary in the URL; then work continues by itself",
    ),
    _Refusal(
        re.compile(r"too many clients|remaining connection slots|too many connections|no more connections allowed"),
        StoreUnavailableError,
        "{where} has no connection left",
        "end idle connections, lower connections in the URL, or raise max_connections of the server",
    ),
    _Refusal(
        re.compile(r"Connection refused|No such file or directory"),
        StoreUnavailableError,
        "no server answers at {where}",
        "start the server, or check host and port in the URL; work continues by itself when it answers",
    ),
)
_WRONG_VALUE = re.compile(
    r"invalid (?:integer value|port number|\w+ value)|bad value for|invalid value for parameter"
    r"|unsupported startup parameter"
)


def refused(error: Exception, where: str) -> StepwellError:
    """The error for a failed connection attempt."""
    words = " ".join(str(error).split())
    for refusal in _REFUSALS:
        if refusal.words.search(words):
            return refusal.kind(refusal.title.format(where=where), where=where, why=words, fix=refusal.fix)
    if _WRONG_VALUE.search(words) or (isinstance(error, psycopg.ProgrammingError) and not error.sqlstate):
        return InvalidOptionError(
            "an option in the URL has an invalid value",
            where="url",
            why=words,
            fix="correct it in the URL; libpq's documentation lists the values",
        )
    return to_store_error(error, where) if isinstance(error, psycopg.Error) else unavailable(where, words)
