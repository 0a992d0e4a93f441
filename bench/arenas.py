"""Where is measured: fresh databases of one kind, their raw limit, and what must be reached on them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from bench.probes import Bench, opened, path_of
from bench.raw import Limit, postgres_batches, postgres_limit, sqlite_batches, sqlite_limit
from tests.servers.postgres import PostgresServer


@dataclass(frozen=True)
class Targets:
    """What differs between the stores."""

    crowd: int  # steps/s of W2 in one process, or …
    crowd_factor: int  # … so many times W1, whichever is less
    run_commits: int  # of a 1-step run
    best_ratio: float | None = None  # of W1 to `Limit.best`
    step_bytes: int | None = None
    run_round_trips: float | None = None
    signal_ms: float | None = None
    late_ms: float | None = None
    idle_round_trips: float | None = None
    resume_seconds: float | None = None


class Arena(Protocol):
    """One kind of store."""

    name: str
    heading: str
    limit_words: tuple[str, str]  # how `Limit.limit` and `Limit.best` commit
    has_round_trips: bool
    targets: Targets

    def database(self) -> AbstractContextManager[str]:
        """The URL of a database that nobody has used; it is gone afterwards."""
        ...

    def limit(self, url: str, count: int) -> Limit:
        """Raw durable commits per second in that database."""
        ...

    def batch_limit(self, url: str, rows: int, count: int) -> float:
        """Raw rows per second, so many in each durable commit."""
        ...

    def size(self, url: str) -> int:
        """Bytes of everything that the store keeps there."""
        ...

    def tables(self, url: str) -> list[str]:
        """What the largest tables hold, in words; everybody has left the database."""
        ...


class SqliteArena:
    """Files in a folder."""

    name = "sqlite"
    heading = (
        "stepwell on SQLite, WAL, synchronous=FULL; one run on this machine, garbage collection as a worker sets it"
    )
    limit_words = ("SQLite's own checkpoints", "checkpoints as the store's")
    has_round_trips = False
    targets = Targets(
        crowd=10_000, crowd_factor=8, best_ratio=0.7, step_bytes=400, run_commits=2, signal_ms=5, resume_seconds=0.5
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def database(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            yield f"sqlite:///{folder}/bench.db"

    def limit(self, url: str, count: int) -> Limit:
        return sqlite_limit(path_of(url), count)

    def batch_limit(self, url: str, rows: int, count: int) -> float:
        return sqlite_batches(path_of(url), rows, count)

    def size(self, url: str) -> int:
        return path_of(url).stat().st_size

    def tables(self, url: str) -> list[str]:
        return []


class PostgresArena:
    """Databases of one durable server."""

    name = "postgres"
    limit_words = ("psycopg's execute", "libpq's own calls")
    has_round_trips = True
    targets = Targets(crowd=5_000, crowd_factor=5, run_commits=2, run_round_trips=3, late_ms=100, idle_round_trips=1)

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        named = ("server_version", "fsync", "synchronous_commit", "wal_sync_method")
        [values] = server.execute("select " + ", ".join(["current_setting(%s)"] * len(named)), named)
        version, *durable = (f"{name}={value}" for name, value in zip(named, values, strict=True))
        self.heading = (
            f"stepwell on PostgreSQL {version.partition('=')[2]}, {', '.join(durable)}; one run on this machine, "
            "garbage collection as a worker sets it"
        )

    @contextmanager
    def database(self) -> Iterator[str]:
        url = self._server.create_database()
        try:
            yield url
        finally:
            # The server would look after all that are left, while others are measured.
            self._server.drop_database(url)

    def limit(self, url: str, count: int) -> Limit:
        return postgres_limit(url, count)

    def batch_limit(self, url: str, rows: int, count: int) -> float:
        return postgres_batches(url, rows, count)

    def size(self, url: str) -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "select sum(pg_total_relation_size(c.oid)) from pg_class as c where c.relnamespace ="
                " 'stepwell'::regnamespace and c.relkind = 'r'"
            ).fetchone()
            return int(row[0]) if row else 0

    def tables(self, url: str) -> list[str]:
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "select relname, n_live_tup, pg_relation_size(relid) / 8192, pg_indexes_size(relid) / 8192,"
                " n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = 'stepwell'"
                " order by pg_total_relation_size(relid) desc limit 3"
            ).fetchall()
        return [
            f"{name}: {live:,} rows, {pages:,} pages, {indexes:,} of indexes; {updated:,} updates, {hot:,} of them HOT"
            for name, live, pages, indexes, updated, hot in rows
        ]


@asynccontextmanager
async def opened_anew(arena: Arena, **options: Any) -> AsyncIterator[Bench]:
    """`opened`, on a database that nobody has used."""
    with arena.database() as url:
        async with opened(url, **options) as bench:
            yield bench


@contextmanager
def open_arena(kind: str, *, is_calm: bool = False) -> Iterator[Arena]:
    """An arena of one kind; its server, if it needs one, is its own and gone afterwards.

    One that is calm does nothing by itself: the transactions of a vacuum would be counted among a few others.
    """
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as folder:
            yield SqliteArena(Path(folder))
    else:
        settings = {"synchronous_commit": "on", "fsync": "on", "autovacuum": "off" if is_calm else "on"}
        with PostgresServer(durable=True, settings=settings) as server:
            yield PostgresArena(server)
