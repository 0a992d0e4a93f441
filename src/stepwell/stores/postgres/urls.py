"""Parses the URL of a database: where the server is, and how stepwell uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stepwell.errors import InvalidOptionError
from stepwell.nearest import nearest
from stepwell.urls import Parts, split_url

Isolation = Literal["read committed", "serializable"]

_ISOLATIONS: dict[str, Isolation] = {"read-committed": "read committed", "serializable": "serializable"}
_CONNECTIONS_MAX = 100
# A peer that is gone is noticed within seconds, even by a connection that only listens.
_DEFAULTS = {
    "application_name": "stepwell",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_OURS = ("schema", "isolation", "connections", "listen")
# The schema becomes a part of names and texts in functions.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[^\]]*)?\]|[^:\[\]]*)(?::[0-9]*)?")
_LISTEN = "listen in the url"
_OPTION = re.compile(r"[a-z_]{1,40}")
_FORM = 'write "postgresql://user:password@host:5432/database"; in a password write %40 for @, %2F for /, %23 for #'


class Address(NamedTuple):
    """A database, and the schema in it."""

    conninfo: str
    listen_conninfo: str  # where to listen; may be another way to the same database
    where: str  # for messages: without the password
    schema: str = "stepwell"
    isolation: Isolation | None = None  # None: the database's own default
    connections_max: int = 4

    def __repr__(self) -> str:
        return f"Address({self.where!r}, schema={self.schema!r})"


def parse_address(url: str) -> Address:
    """Read `postgresql://user@host/database?schema=stepwell&isolation=serializable&connections=4&listen=...`.

    All other options in the query are libpq's. If several hosts are named, the server that accepts writes is used.
    `listen` is a URL of the same database that avoids a pooler. Raises `InvalidOptionError`, which never quotes
    anything that could be a password.
    """
    parts = _split(url, "url")
    ours: dict[str, str] = {}
    theirs: list[str] = []
    for name, value, pair in _options(parts.query):
        if name in ours or any(other.startswith(f"{name}=") for other in theirs):
            raise InvalidOptionError(f"{name} is given twice", where="url", fix="give it once")
        if name in _OURS:
            ours[name] = value
        else:
            theirs.append(pair)
    conninfo = listen = _conninfo(parts, "&".join(theirs), "url")
    if "listen" in ours:
        direct = _split(ours["listen"], _LISTEN)
        listen = _conninfo(direct, direct.query, _LISTEN)
    return Address(
        conninfo,
        listen,
        _spell(conninfo),
        _schema(ours.get("schema", "stepwell")),
        _isolation(ours.get("isolation")),
        _connections(ours.get("connections", "4")),
    )


def _split(url: str, where: str) -> Parts:
    """The parts of a URL. Raises if a part may contain characters of another one, such as a password."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("postgresql", "postgres"):
        raise _unreadable(where, "it does not begin with postgresql://")
    if parts.fragment is not None:
        raise _unreadable(where, "it contains a #")
    user, _, hosts = parts.authority.rpartition("@")
    if "@" in user or "@" in parts.path:
        raise _unreadable(where, "it contains too many @")
    if "[" in user or "]" in user:
        raise _unreadable(where, "a bracket is outside a host")
    if not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        raise _unreadable(where, "a port is not a number, or a host is invalid")
    return parts


def _options(query: str) -> Iterator[tuple[str, str, str]]:
    """Each option: its name, its value, and its original text. A + is not a space, neither for libpq nor here."""
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}.union(_OURS)
    for pair in filter(None, query.split("&")):
        name, mark, value = pair.partition("=")
        if name not in known or not mark:
            raise _unknown(name, sorted(known))
        yield name, unquote(value), pair


def _unknown(name: str, known: list[str]) -> InvalidOptionError:
    # A text that does not look like a name may be the rest of a password, so it is not quoted.
    shown = f"unknown option {name!r}" if _OPTION.fullmatch(name) else "the text after the ? is not name=value"
    near = nearest(name, known)
    return InvalidOptionError(
        f"the URL of the database cannot be read: {f'{name} has no value' if name in known else shown}",
        where="url",
        why=f"stepwell's options are {', '.join(_OURS)}; the others are libpq's, for example sslmode",
        fix=f"did you mean {' or '.join(near)}?" if near and name not in known else _FORM,
    )


def _unreadable(where: str, why: str) -> InvalidOptionError:
    return InvalidOptionError("the URL of the database cannot be read", where=where, why=why, fix=_FORM)


def _schema(name: str) -> str:
    if not _NAME.fullmatch(name) or name.startswith("pg_") or name == "information_schema":
        raise InvalidOptionError(
            f"schema is {name!r}",
            where="url",
            fix="up to 50 letters (a to z), digits and underscores, and none of PostgreSQL's own names",
        )
    return name


def _isolation(name: str | None) -> Isolation | None:
    if name is None:
        return None
    if name not in _ISOLATIONS:
        raise InvalidOptionError(f"isolation is {name!r}", where="url", fix=" or ".join(_ISOLATIONS))
    return _ISOLATIONS[name]


def _connections(number: str) -> int:
    if not (number.isascii() and number.isdecimal()) or not 1 <= int(number) <= _CONNECTIONS_MAX:
        raise InvalidOptionError(
            f"connections is {number!r}", where="url", fix=f"a number of connections from 1 to {_CONNECTIONS_MAX}"
        )
    return int(number)


def _conninfo(parts: Parts, query: str, where: str) -> str:
    url = f"postgresql://{parts.authority}{parts.path}" + (f"?{query}" if query else "")
    try:
        given: dict[str, Any] = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        # The driver's message quotes the part that it could not read, which may be a password.
        raise _unreadable(where, "a part of it cannot be decoded") from None
    if "," in str(given.get("host", "")):
        given.setdefault("target_session_attrs", "read-write")
    return make_conninfo("", **{**_DEFAULTS, **given})


def _spell(conninfo: str) -> str:
    given = {
        option.keyword.decode(): option.val.decode()
        for option in pq.Conninfo.get_defaults()
        if option.val is not None and option.keyword in (b"host", b"port", b"dbname", b"user")
    } | conninfo_to_dict(conninfo)
    hosts, ports = str(given.get("host") or "localhost").split(","), str(given.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    hosts = [f"[{host}]" if ":" in host else host for host in hosts]
    spelled = ",".join(f"{host}:{port or 5432}" for host, port in zip(hosts, ports, strict=False))
    return f"postgresql://{spelled}/{given.get('dbname') or given.get('user') or ''}"
