"""Where a storm happens: a SQLite file, or two PostgreSQL servers that take turns."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, LiteralString, Protocol

import apsw
import psycopg
from psycopg import sql

from tests.servers.databases import database_name
from tests.servers.postgres import PostgresServer, multi_host_url
from tests.system.fleet import sqlite_url

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.02

# A standby that finds no primary looks again this soon: commits wait for it, and the storm is long enough.
_EAGER = {"wal_retrieve_retry_interval": "200ms"}
TWICE = "select count(*) from (select 1 from {} group by run, seq having count(*) > 1) as twice"


class Ground(Protocol):
    """A database that outlives its users."""

    name: str
    # Whether a process that is stopped in the middle of a write keeps everybody from writing.
    is_held_up: bool

    @property
    def url(self) -> str:
        """How to reach it; the same for the whole storm."""
        ...

    def open(self) -> None:
        """Make it."""
        ...

    def describe(self) -> str:
        """What it is, for people."""
        ...

    def check(self) -> list[str]:
        """Its own opinion of itself, once everybody has left."""
        ...

    def close(self) -> None:
        """Remove what would go on without us."""
        ...


class SqliteGround:
    """One SQLite file."""

    name = "sqlite"
    is_held_up = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = sqlite_url(folder)

    def open(self) -> None:
        """The first user makes the file."""

    def describe(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"

    def check(self) -> list[str]:
        connection = apsw.Connection(self.url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            answers = [str(row[0]) for row in connection.execute("pragma integrity_check")]
            twice = connection.execute(TWICE.format("stepwell_entries")).fetchone()
        finally:
            connection.close()
        problems = [] if answers == ["ok"] else [f"integrity check: {answer}" for answer in answers]
        return problems + used_twice(twice)

    def close(self) -> None:
        """A file needs nothing."""


class PostgresGround:
    """A primary and its synchronous standby. They take turns, and each keeps its port: one URL leads to both.

    Every method blocks, and only one of them may run at a time.
    """

    name = "postgres"
    is_held_up = False

    def __init__(self, version: int) -> None:
        self._servers = (PostgresServer(version, settings=_EAGER), PostgresServer(version, settings=_EAGER))
        self.primary, self.standby = self._servers
        self._database = ""

    @property
    def url(self) -> str:
        return multi_host_url(*self._servers, database=self._database)

    def open(self) -> None:
        self.primary.start()
        self._database = database_name(self.primary.create_database())
        with self._connect() as connection:
            connection.execute("create table storm_probe (at timestamptz not null default now())")
        self.standby.follow(self.primary)

    def describe(self) -> str:
        [(version, commit, sync)] = self.primary.execute(
            "select current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')"
        )
        return f"PostgreSQL {version} with a synchronous standby, synchronous_commit {commit}, fsync {sync}"

    def kill_server(self, down: float) -> None:
        """SIGKILL for every process of the primary; some seconds later it is started again, on what is on its disk.

        Returns when it takes writes.
        """
        self.primary.kill()
        time.sleep(down)
        self.primary.start()
        self._await_writes()

    def fail_over(self) -> None:
        """SIGKILL for every process of the primary, for good, and promote the standby; returns when it takes writes.

        Of what a commit has waited for the standby has everything. But a primary that was killed and started again
        shows commits that nobody was told of, and that its standby has yet to get: only one that has caught up since is
        promoted, as whoever is in charge of real servers does.
        """
        self._await(self.primary, "select 1 from pg_stat_replication where state = 'streaming' and sync_state = 'sync'")
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self._await_writes()

    def rebuild_standby(self) -> None:
        """After a promotion: the killed primary forgets everything, and follows its successor."""
        self.standby.follow(self.primary)

    def check(self) -> list[str]:
        with self._connect() as connection:
            problems = used_twice(connection.execute(TWICE.format("stepwell.entries")).fetchone())
            end = connection.execute("select pg_current_wal_flush_lsn()::text").fetchone()
            assert end is not None
        self._await(self.standby, "select 1 where pg_last_wal_replay_lsn() >= %s::pg_lsn", end[0])
        ours, theirs = (self._contents(server) for server in (self.primary, self.standby))
        return problems + [
            f"table {name} differs on the standby" for name in sorted(ours) if ours[name] != theirs.get(name)
        ]

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url, autocommit=True, connect_timeout=2)

    def _await_writes(self) -> None:
        """Return when a commit is acknowledged by both servers, or by the only one."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                with self._connect() as connection:
                    connection.execute("insert into storm_probe default values")
                    return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    def _await(self, server: PostgresServer, question: LiteralString, *parameters: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not server.execute(question, parameters):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer to {question}")
            time.sleep(_POLL_SECONDS)

    def _contents(self, server: PostgresServer) -> dict[str, tuple[Any, ...]]:
        """Of every table, the number of rows and a hash of all of them."""
        with psycopg.connect(server.url(self._database), autocommit=True) as connection:
            names = connection.execute(
                "select schemaname, tablename from pg_tables where schemaname in ('stepwell', 'public')"
            ).fetchall()
            count = sql.SQL("select count(*), md5(string_agg(md5(t::text), '' order by t::text)) from {} as t")
            found: dict[str, tuple[Any, ...]] = {}
            for name in names:
                row = connection.execute(count.format(sql.Identifier(*name))).fetchone()
                assert row is not None
                found[".".join(name)] = row
            return found


def used_twice(row: tuple[Any, ...] | None) -> list[str]:
    """What a count of entries that share a number says."""
    return [] if row is not None and row[0] == 0 else [f"{row and row[0]} numbers in histories are used twice"]
