"""Refusals: why a server gives no connection, in our words."""

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
from stepwell.stores.postgres.faults import in_words, unavailable


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
        "end idle connections, lower connections in the URL, or raise max_connections of the server",
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
            fix="correct it in the URL; libpq's documentation lists the values",
        )
    return in_words(error, where) if isinstance(error, psycopg.Error) else unavailable(where, words)
