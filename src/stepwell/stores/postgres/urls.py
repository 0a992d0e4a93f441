"""What the URL of a database says: where the server is, and how stepwell uses it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stepwell.errors import InvalidOptionError

Isolation = Literal["read committed", "serializable"]

_ISOLATIONS: dict[str, Isolation] = {"read-committed": "read committed", "serializable": "serializable"}
_NAME_MAX = 50
# A peer that is gone without a word is noticed within seconds, also by a connection that only listens.
_DEFAULTS = {
    "application_name": "stepwell",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class Address(NamedTuple):
    """A database, and the schema in it."""

    conninfo: str
    listen_conninfo: str  # where to listen, if that is another way to the same database
    where: str  # as people may read it: without the password
    schema: str = "stepwell"
    isolation: Isolation | None = None  # None: the database's own default
    lines_max: int = 4


def parse_address(url: str) -> Address:
    """Read `postgresql://user@host/database?schema=stepwell&isolation=serializable&lines=4&listen=...`.

    Everything else in the query is libpq's. Several hosts may be named: the one that takes writes is used. `listen`
    is a URL of the same database that leads past a pooler. Raises `InvalidOptionError`.
    """
    parts = urlsplit(url)
    ours = {"schema", "isolation", "lines", "listen"}
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    options = {name: value for name, value in pairs if name in ours}
    rest = urlencode([(name, value) for name, value in pairs if name not in ours])
    conninfo = _conninfo(urlunsplit(parts._replace(query=rest)))
    listen = _conninfo(options["listen"]) if "listen" in options else conninfo
    schema = options.get("schema", "stepwell")
    if not schema or len(schema.encode()) > _NAME_MAX or "\x00" in schema or schema.startswith("pg_"):
        raise InvalidOptionError(f"schema is {schema!r}", where="url", fix=f"a name of 1 to {_NAME_MAX} bytes")
    isolation = options.get("isolation")
    if isolation is not None and isolation not in _ISOLATIONS:
        raise InvalidOptionError(f"isolation is {isolation!r}", where="url", fix=" or ".join(_ISOLATIONS))
    lines = options.get("lines", "4")
    if not lines.isdecimal() or not 1 <= int(lines) <= 100:
        raise InvalidOptionError(f"lines is {lines!r}", where="url", fix="a number of connections from 1 to 100")
    return Address(
        conninfo, listen, _spell(conninfo), schema, None if isolation is None else _ISOLATIONS[isolation], int(lines)
    )


def _conninfo(url: str) -> str:
    try:
        given: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise InvalidOptionError(
            "the URL of the database cannot be read",
            where="url",
            why=str(error).strip(),
            fix='write "postgresql://user:password@host:5432/database"; a password is percent-encoded',
        ) from None
    if "," in str(given.get("host", "")):
        given.setdefault("target_session_attrs", "read-write")
    return make_conninfo("", **{**_DEFAULTS, **given})


def _spell(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo)
    hosts, ports = str(given.get("host", "localhost")).split(","), str(given.get("port", "5432")).split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    spelled = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))
    return f"postgresql://{spelled}/{given.get('dbname') or given.get('user') or ''}"
