"""Engines whose store is watched: what it asked of the database, and what the database spent on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, Protocol

import apsw
import psycopg

from bench.workflows import WORKFLOWS
from stepwell import Engine, WorkerSettings
from stepwell.environment import Environment, system_environment
from stepwell.sinks.base import Sink
from stepwell.stores.base.store import Store
from stepwell.stores.postgres.calls import Call, Value
from stepwell.stores.postgres.pool import ConnectionPool
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import Address, parse_address
from stepwell.stores.sqlite.connections import PAGE_BYTES
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.stores.sqlite.writer import Writer

# Nothing happens by itself for an hour, so that counts are exact.
QUIET: dict[str, Any] = {"sweep_every": "1h", "lease": "1h"}

Asked = Counter[str]  # how often, by name


class Spent(NamedTuple):
    """What a database has spent so far; only differences mean anything."""

    commits: int  # transactions that wrote rows
    log_bytes: int  # written ahead

    def since(self, before: Spent) -> Spent:
        """What was spent between two moments."""
        return Spent(self.commits - before.commits, self.log_bytes - before.log_bytes)


class Probe(Protocol):
    """A store, and what can be known of it from the outside."""

    store: Store

    async def settle(self) -> None:
        """Return when a worker of this store has done all that one does only once."""
        ...

    def asked(self) -> Asked:
        """What this process has asked for so far: round trips where there are any, else commits."""
        ...

    async def spent(self) -> Spent:
        """What was spent so far: by this process on SQLite, by the whole server on PostgreSQL."""
        ...

    def count(self, status: str) -> int:
        """How many runs have this status, asked on a connection of its own."""
        ...

    def watch(self) -> Callable[[], tuple[Asked, int | None]]:
        """From now until the call of what is returned: what was asked, and rows that were stepped over without an
        index, if that is known.
        """
        ...

    def close(self) -> None:
        """Watch no more."""
        ...


_FRAME_BYTES = 24  # before each page in the log


class SqliteProbe:
    """Counts commits of this process, and the pages that they write."""

    def __init__(self, url: str, environment: Environment) -> None:
        self._path = path_of(url)
        self._database = SqliteDatabase(str(self._path))
        self.store: Store = SqliteStore(environment, self._path, runner=Writer(self._database))

    async def settle(self) -> None:
        """It does nothing beside everything else."""

    def asked(self) -> Asked:
        return Counter(commit=self._database.commits)

    async def spent(self) -> Spent:
        while True:
            try:
                pages, _ = self._database.connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
            except apsw.ThreadingViolationError:
                await asyncio.sleep(0.001)  # the writer's thread writes the log back just now
            else:
                return Spent(self._database.commits, pages * (PAGE_BYTES + _FRAME_BYTES))

    def count(self, status: str) -> int:
        reader = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            row = reader.execute("select count(*) from stepwell_runs where status = ?", (status,)).fetchone()
            return 0 if row is None else int(row[0])
        finally:
            reader.close()

    def watch(self) -> Callable[[], tuple[Asked, int | None]]:
        seen: list[dict[str, Any]] = []
        self._database.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, seen.append)

        def end() -> tuple[Asked, int | None]:
            self._database.connection.trace_v2(0, None)
            scanned = sum(one["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"] for one in seen)
            return Counter(statement=len(seen)), scanned

        return end

    def close(self) -> None:
        """Nothing is held open."""


class CountedPool(ConnectionPool):
    """Counts every call by the function's name: one call is one round trip."""

    def __init__(self, address: Address, environment: Environment) -> None:
        super().__init__(address, environment)
        self.asked: Asked = Counter()
        self.under_way = 0

    async def call(self, call: Call[Any], values: list[Value], **options: bool) -> bytes:
        self.asked[call.name] += 1
        self.under_way += 1
        try:
            return await super().call(call, values, **options)
        finally:
            self.under_way -= 1

    def call_now(self, call: Call[Any], values: list[Value]) -> bytes:
        self.asked[call.name] += 1
        return super().call_now(call, values)


class PostgresProbe:
    """Counts round trips of this process, and asks the server on a connection of its own what it has written."""

    def __init__(self, url: str, environment: Environment) -> None:
        self._url = url
        self._pool = CountedPool(parse_address(url), environment)
        self._store = PostgresStore(environment, url, pool=self._pool)
        self.store: Store = self._store
        self._connection: psycopg.Connection[Any] | None = None

    async def settle(self) -> None:
        # Who begins to listen says so to all, in a transaction that is nobody's call.
        while not self._store.wakeups.is_listening:  # noqa: ASYNC110  nobody else waits for that
            await asyncio.sleep(0.001)

    def asked(self) -> Asked:
        return Counter(self._pool.asked)

    async def spent(self) -> Spent:
        while self._pool.under_way:  # noqa: ASYNC110  what is told to others goes out beside everything else
            await asyncio.sleep(0.001)
        # No function of the store begins a subtransaction: whoever was given a number wrote rows, or told others.
        numbers = self._ask("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        return Spent(
            numbers - self._pool.asked["notify"],
            self._ask("select (pg_current_wal_insert_lsn() - '0/0')::bigint"),
        )

    def count(self, status: str) -> int:
        return self._ask("select count(*) from stepwell.runs where status = %s", status)

    def watch(self) -> Callable[[], tuple[Asked, int | None]]:
        before = self.asked()
        return lambda: (self.asked() - before, None)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _ask(self, question: LiteralString, *parameters: str) -> int:
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True)
        row = self._connection.execute(question, parameters).fetchone()
        assert row is not None
        return int(row[0])


@dataclass(frozen=True)
class Bench:
    """An engine, and the probe under it."""

    engine: Engine
    probe: Probe

    async def until(self, status: str, count: int, *, every: float = 0.02) -> None:
        """Return when so many runs have this status; the engine is not asked."""
        while self.probe.count(status) < count:  # noqa: ASYNC110  only the database knows
            await asyncio.sleep(every)


@asynccontextmanager
async def opened(url: str, *, serves: bool = True, sinks: Iterable[Sink] = (), **settings: Any) -> AsyncIterator[Bench]:
    """An engine on a database; with a worker, unless it only asks."""
    environment = system_environment()
    probe = SqliteProbe(url, environment) if url.startswith("sqlite:") else PostgresProbe(url, environment)
    told = WorkerSettings(**settings)
    try:
        async with Engine(
            probe.store, workflows=WORKFLOWS, worker=serves, environment=environment, settings=told, sinks=sinks
        ) as engine:
            if serves:
                await probe.settle()
            yield Bench(engine, probe)
    finally:
        probe.close()


def path_of(url: str) -> Path:
    """The file of a SQLite URL."""
    return Path(url.removeprefix("sqlite:///"))


def in_words(asked: Asked, each: float = 1) -> str:
    """Counts by name, the most frequent first."""
    each_of = [(name, count / each) for name, count in asked.most_common()]
    return ", ".join(f"{name} {one:,.0f}" if one == int(one) else f"{name} {one:.2f}" for name, one in each_of)
