"""Examines a PostgreSQL database: the connection, its durability, and its contents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import psycopg

from stepwell.clock import DAY, SECOND, Clock, Instant, Span
from stepwell.environment import Environment
from stepwell.errors import SchemaMissingError, StepwellError
from stepwell.ids import random_bytes
from stepwell.model.ledger import Act, ChainHead, verify
from stepwell.stores.base.diagnosis import (
    Finding,
    Remedy,
    failure,
    fine,
    from_error,
    ids_between,
    judge_audit,
    judge_backlog,
    judge_blobs,
    judge_errors,
    judge_orphans,
    judge_served,
    judge_size,
    judge_stranded,
    judge_workers,
    warning,
)
from stepwell.stores.base.transfers import Seal, SealKind, sealed
from stepwell.stores.postgres.faults import to_store_error
from stepwell.stores.postgres.migrator import check_ready, check_server
from stepwell.stores.postgres.sessions import is_pooled, open_connection
from stepwell.stores.postgres.texts import SQL, functions_schema, quoted, render
from stepwell.stores.postgres.urls import Address, parse_address

_ROUND_TRIPS = 5
_SLOW_MILLISECONDS = 20.0
_HEARD_WITHIN_SECONDS = 2.0
_CLOCK_MAX = Span(SECOND)
_IN_USE_MAX = 0.8
_DUE_MAX = 1_000
_RECENT_MAX = 100_000
_LEAKED_AFTER = 2 * DAY
_DEAD_ROWS_MIN = 100_000
_RIGHTS_NAMED_MAX = 3


@dataclass
class Target:
    """A server that answers, and settings that are read once."""

    address: Address
    connection: psycopg.Connection[Any]
    clock: Clock
    settings: dict[str, str] = field(default_factory=dict)

    def ask(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of one of our statements."""
        text = render(SQL[f"diagnosis.{statement}"], self.address.schema)
        try:
            return self.connection.execute(text.encode(), parameters or None).fetchall()
        except psycopg.Error as error:
            raise to_store_error(error, self.address.where) from error

    @cached_property
    def is_pooled(self) -> bool:
        """Whether a pooler is in between."""
        row = self.connection.execute("select pg_backend_pid()").fetchone()
        return row is not None and is_pooled(self.connection, row[0])


class PostgresDiagnosis:
    """`Diagnosis` of the database that a URL names."""

    def __init__(self, environment: Environment, url: str) -> None:
        self._address = parse_address(url)
        self._clock = environment.clock

    def examine(self, *, is_quick: bool = False) -> Iterator[Finding]:
        try:
            connection = open_connection(self._address)
        except StepwellError as error:
            yield from_error("connection", error)
            return
        with connection:
            target = Target(self._address, connection, self._clock)
            for check in _SERVER_CHECKS:
                yield _run_check(check, target)
            yield (schema := _run_check(check_schema, target))
            yield _run_check(check_rights, target)
            if schema.verdict == "ok":
                for check in _TABLE_CHECKS:
                    if not (is_quick and check in _SLOW_CHECKS):
                        yield _run_check(check, target)


def _run_check(check: Callable[[Target], Finding], target: Target) -> Finding:
    name = check.__name__.removeprefix("check_")

    def once() -> Finding:
        try:
            return check(target)
        except psycopg.Error as error:
            raise to_store_error(error, target.address.where) from error

    return judge_errors(name, once)


# --- the server ------------------------------------------------------------------------------------------------


def check_connection(target: Target) -> Finding:
    """Whether the server answers, and how fast."""
    spent = []
    for _ in range(_ROUND_TRIPS):
        began = target.clock.monotonic()
        target.connection.execute("select 1")
        spent.append((target.clock.monotonic() - began) * 1_000)
    found = f"{target.address.where} answers in {min(spent):.2f} ms"
    if min(spent) <= _SLOW_MILLISECONDS:
        return fine("connection", found)
    return warning(
        "connection",
        found,
        why="each step of a sequence needs one round trip, so none is faster than this",
        fix="run workers near the server; parallel steps share round trips",
    )


def check_server_version(target: Target) -> Finding:
    """Whether the server is new enough."""
    check_server(target.connection, target.address.where)
    version = target.connection.info.server_version
    return fine("server_version", f"PostgreSQL {version // 10_000}.{version % 10_000}")


def check_pooler(target: Target) -> Finding:
    """Whether there is a pooler in front of the server."""
    if not target.is_pooled:
        return fine("pooler", "none: this is the server itself")
    # The next check finds out whether this has a cost.
    return fine(
        "pooler",
        "a pooler is in front of the server: statements are not prepared, and sessions are not configured",
    )


def check_notifications(target: Target) -> Finding:
    """Whether processes notify each other at once."""
    address = target.address
    is_direct = address.listen_conninfo != address.conninfo
    channel = f"stepwell_doctor_{random_bytes(8).hex()}"
    with open_connection(address, address.listen_conninfo) as listener:
        listener.execute(f"listen {channel}".encode())
        target.connection.execute("select pg_notify(%s, '')", (channel,))
        heard = any(listener.notifies(timeout=_HEARD_WITHIN_SECONDS, stop_after=1))
        listener.execute(f"unlisten {channel}".encode())
    if heard:
        return fine("notifications", "LISTEN and NOTIFY work" + (" (over listen=)" if is_direct else ""))
    fix = "let listen= name the same database, but not through a transaction pooler"
    if not is_direct:
        fix = "add listen=URL to the URL, percent-encoded: the server itself, not the pooler"
    return warning(
        "notifications",
        f"LISTEN and NOTIFY do not work: nothing was heard within {_HEARD_WITHIN_SECONDS:g} s",
        why="changes of other processes are found by polling: all of them, but later; a transaction pooler does not "
        "keep the listening session",
        fix=fix,
    )


def check_durability(target: Target) -> Finding:
    """Whether acknowledged commits survive a crash of the server."""
    settings = _settings(target)
    lost = [name for name in ("fsync", "synchronous_commit") if settings[name] == "off"]
    if lost:
        return failure(
            "durability",
            " and ".join(f"{name} is off" for name in lost),
            why="acknowledged starts, signals and results are lost if the server crashes"
            + ("; without fsync the whole database can be" if "fsync" in lost else ""),
            fix="; ".join(f"alter system set {name} = on" for name in lost) + "; select pg_reload_conf()",
        )
    if settings["full_page_writes"] == "off":
        return warning(
            "durability",
            "full_page_writes is off",
            why="a page that is half written in a power failure cannot be repaired; some file systems prevent that",
            fix="alter system set full_page_writes = on; select pg_reload_conf()",
        )
    if settings["synchronous_standby_names"] and settings["synchronous_commit"] in ("local", "remote_write"):
        return warning(
            "durability",
            f"synchronous_commit is {settings['synchronous_commit']}",
            why="there are synchronous standbys, but a commit does not wait until one of them has it on disk",
            fix="alter system set synchronous_commit = on; select pg_reload_conf()",
        )
    standbys = ", and on a standby" if settings["synchronous_standby_names"] else ""
    return fine("durability", f"a commit is acknowledged when it is on disk{standbys}")


def check_clock(target: Target) -> Finding:
    """How far this machine's clock differs from the server's, which is the store's time."""
    before = target.clock.now()
    [(there,)] = target.ask("clock")
    difference = there - (before + target.clock.now()) // 2
    found = f"this machine's clock and the server's differ by {abs(difference) / 1_000:.0f} ms"
    if abs(difference) <= _CLOCK_MAX:
        return fine("clock", found)
    return warning(
        "clock",
        found,
        why="the server's clock counts, so nothing breaks; but log times of this machine do not match times of runs",
        fix="synchronise both machines with the same time server",
    )


def check_connections(target: Target) -> Finding:
    """Whether connections are left."""
    settings = _settings(target)
    reserved = int(settings["superuser_reserved_connections"]) + int(settings.get("reserved_connections", "0"))
    room = int(settings["max_connections"]) - reserved
    [(in_use,)] = target.ask("connections")
    found = f"{in_use} of {room} are in use; a stepwell process uses up to {target.address.connections_max + 3}"
    if in_use + target.address.connections_max + 3 <= room and in_use <= _IN_USE_MAX * room:
        return fine("connections", found)
    return warning(
        "connections",
        found,
        why="a process that gets no connection waits, and its lease may expire meanwhile",
        fix="lower connections= in the URL, end idle connections, use a pooler, or raise max_connections",
    )


def check_autovacuum(target: Target) -> Finding:
    """Whether the space of deleted rows is reused."""
    settings = _settings(target)
    off = [name for name in ("autovacuum", "track_counts") if settings[name] == "off"]
    if not off:
        return fine("autovacuum", "on")
    return warning(
        "autovacuum",
        " and ".join(f"{name} is off" for name in off),
        why="deleted rows keep their space permanently, and every look-up becomes slower",
        fix="; ".join(f"alter system set {name} = on" for name in off) + "; select pg_reload_conf()",
    )


# --- the tables ------------------------------------------------------------------------------------------------


def check_schema(target: Target) -> Finding:
    """Whether tables and functions match this release."""
    address = target.address
    try:
        found = check_ready(target.connection, address.schema, address.where)
    except SchemaMissingError as error:
        return from_error("schema", error)._replace(why="nothing can be stored without them", remedy=Remedy.MIGRATE)
    [(releases,)] = target.ask("released", pattern=f"^{address.schema}_[0-9a-f]{{10}}$")
    others = f"; functions of other releases: {releases - 1}" if releases > 1 else ""
    return fine("schema", f"{address.schema}: version {found.version}, with the functions of this release{others}")


def check_rights(target: Target) -> Finding:
    """Whether the role has the rights that a worker needs."""
    tables, functions = target.address.schema, functions_schema(target.address.schema)
    [(is_begun, may_create)] = target.ask("begun", tables=quoted(tables))
    if not is_begun:
        return _may_create(target, may_create=may_create)
    missing = [
        right
        for (right,) in target.ask(
            "rights", schemas=[tables, functions], tables=quoted(tables), functions=quoted(functions)
        )
    ]
    if not missing:
        return fine("rights", f"role {target.connection.info.user} has all rights that a worker needs")
    more = f" and {len(missing) - _RIGHTS_NAMED_MAX} more" if len(missing) > _RIGHTS_NAMED_MAX else ""
    return failure(
        "rights",
        f"role {target.connection.info.user} lacks {', '.join(missing[:_RIGHTS_NAMED_MAX])}{more}",
        why="starts, signals or workers of this role fail with SW613",
        fix="; ".join(f"grant {right} to {quoted(target.connection.info.user)}" for right in missing),
    )


def _may_create(target: Target, *, may_create: bool) -> Finding:
    user, database = target.connection.info.user, target.connection.info.dbname
    if may_create:
        return fine("rights", f"role {user} may create the schema")
    return failure(
        "rights",
        f"role {user} may not create the schema",
        why="the schema does not exist yet, and this role may not create schemas in this database",
        fix="run `stepwell migrate` with another role, or: "
        f"grant create on database {quoted(database)} to {quoted(user)}",
    )


def check_seal(target: Target) -> Finding:
    """Whether the database accepts writes; a moved database does not."""
    for transfer_id, kind, peer, at in target.ask("seal"):
        return from_error("seal", sealed(Seal(transfer_id, SealKind(kind), peer, Instant(at))))
    return fine("seal", "it is open for writes")


def check_audit(target: Target) -> Finding:
    """Whether the audit is unchanged."""
    connection, schema = target.connection, target.address.schema
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        [(number, chain)] = target.ask("audit_head")
        with connection.cursor(name="stepwell_audit") as lines:
            lines.execute(render(SQL["diagnosis.audit"], schema).encode())
            return judge_audit(verify(ChainHead(number, chain), map(Act._make, lines)))


def check_workers(target: Target) -> Finding:
    """Whether a worker is alive."""
    rows = target.ask("workers")
    [(has_unfinished,)] = target.ask("has_unfinished")
    alive = [name for name, is_alive, _ in rows if is_alive]
    dead = [(name, lease_until) for name, is_alive, lease_until in rows if not is_alive]
    return judge_workers(alive, dead, has_unfinished=has_unfinished)


def check_stranded(target: Target) -> Finding:
    """Whether a worker that is gone still owns runs."""
    [(runs,)] = target.ask("stranded")
    return judge_stranded(runs)


def check_orphans(target: Target) -> Finding:
    """Whether runs have no cause of progress."""
    [(runs,)] = target.ask("orphans")
    return judge_orphans(json.loads(runs))


def check_backlog(target: Target) -> Finding:
    """Whether runs wait for a worker."""
    [(due, oldest)] = target.ask("backlog", limit=_DUE_MAX + 1)
    return judge_backlog(due, _DUE_MAX, oldest)


def check_dead_rows(target: Target) -> Finding:
    """Whether dead rows fill the tables."""
    rows = target.ask("dead_rows", schema=target.address.schema, floor=_DEAD_ROWS_MIN)
    if not rows:
        return fine("dead_rows", "no table has more dead rows than live ones")
    names = ", ".join(f"{name} ({dead} dead, {live} live)" for name, live, dead in rows)
    return warning(
        "dead_rows",
        f"more dead rows than live ones: {names}",
        why="vacuum cannot keep up, or an old transaction or replication slot prevents it from removing them",
        fix="check pg_stat_activity for old transactions, and pg_replication_slots; then: vacuum "
        + ", ".join(f"{quoted(target.address.schema)}.{quoted(name)}" for name, _, _ in rows),
    )


def check_size(target: Target) -> Finding:
    """How large the database is, and how fast it grows."""
    [(size, runs)] = target.ask("size", tables=quoted(target.address.schema))
    [(now,)] = target.ask("clock")
    since, until = ids_between(Instant(now - DAY), Instant(now + DAY))
    [(recent,)] = target.ask("count_recent", since=since, until=until, limit=_RECENT_MAX + 1)
    # Only the server's own machine knows the free space of its disk.
    return judge_size(size, max(runs, recent), recent, _RECENT_MAX, None)


def check_blobs(target: Target) -> Finding:
    """Whether large payloads are left that nothing refers to."""
    [(now,)] = target.ask("clock")
    [(found,)] = target.ask("unused_blobs", before=now - _LEAKED_AFTER)
    return judge_blobs(len(json.loads(found)))


def check_served(target: Target) -> Finding:
    """Whether live workers serve the due runs."""
    [(unserved, has_workers)] = target.ask("unserved")
    return judge_served(unserved, has_workers=has_workers)


def _settings(target: Target) -> dict[str, str]:
    if not target.settings:
        target.settings.update(target.ask("settings"))
    return target.settings


_SERVER_CHECKS = (
    check_connection,
    check_server_version,
    check_pooler,
    # First this one: check_notifications opens a second connection, which still counts for a while after it is closed.
    check_connections,
    check_notifications,
    check_durability,
    check_clock,
    check_autovacuum,
)
_TABLE_CHECKS = (
    check_seal,
    check_audit,
    check_workers,
    check_stranded,
    check_orphans,
    check_backlog,
    check_served,
    check_dead_rows,
    check_size,
    check_blobs,
)
_SLOW_CHECKS = (check_audit, check_blobs)  # they read the whole audit, and all values
