"""The stores that can be compared, by name. All are compared with the first one."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg

from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from stepwell.model.runs import Created, NewRun
from stepwell.stores.base.store import Store
from stepwell.stores.postgres.pool import InlinePool
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from stepwell.stores.sqlite.database import SqliteDatabase
from stepwell.stores.sqlite.runners import InlineRunner
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url

Enqueue = Callable[[Sequence[NewRun]], Awaitable[list[Created]]]

_THREADS_EVERY = 40  # seeds: a writer or many connections, and their threads, cost several times as much as one


class Place(NamedTuple):
    """Where a new store is created."""

    clock: ManualClock
    folder: Path  # empty, and deleted afterwards
    seed: int
    is_second: bool = False  # for what another store of this kind and seed may hold

    @property
    def environment(self) -> Environment:
        """The environment, with a manual clock."""
        return Environment(self.clock, SystemIds(self.clock), random.Random(self.seed), SystemExecutor())


class Opened(NamedTuple):
    """A store, opened and empty.

    `enqueue` starts runs inside a caller's transaction and commits that; it is None if no caller can have a connection.
    `unsound` lists runs and records for which hidden state of the store is wrong.
    """

    name: str
    store: Store
    enqueue: Enqueue | None = None
    unsound: Callable[[], list[str]] = list


Open = Callable[[Place], AbstractAsyncContextManager[Opened]]


@asynccontextmanager
async def open_memory(place: Place) -> AsyncIterator[Opened]:
    """SQLite in memory, without threads."""
    store = SqliteStore(place.environment, ":memory:")
    await store.open()
    try:
        yield Opened("memory", store)
    finally:  # also after a divergence
        await store.close()


@asynccontextmanager
async def open_sqlite(place: Place) -> AsyncIterator[Opened]:
    """SQLite in a file: mostly without threads, and for some seeds as in production."""
    path = place.folder / "runs.db"
    inline = InlineRunner(SqliteDatabase(str(path), synchronous="NORMAL"))
    runner = None if place.seed % _THREADS_EVERY == 0 else inline
    store = SqliteStore(place.environment, path, synchronous="NORMAL", runner=runner)
    await store.open()

    async def enqueue(runs: Sequence[NewRun]) -> list[Created]:
        connection = apsw.Connection(str(path))
        try:
            connection.execute("begin immediate")
            try:
                created = store.transactions.enqueue(connection, runs)
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")
            return created
        finally:
            connection.close()

    try:
        yield Opened("sqlite", store, enqueue)
    finally:
        await store.close()


@asynccontextmanager
async def open_postgres(place: Place) -> AsyncIterator[Opened]:
    """A real PostgreSQL: mostly over one connection without an event loop, and for some seeds as in production."""
    url = cleared_url(None, "connections=3" if place.is_second else "")  # another query is another database
    pool = None if place.seed % _THREADS_EVERY == 0 else InlinePool(parse_address(url))
    store = PostgresStore(place.environment, url, test_clock=place.clock, pool=pool)
    await store.open()

    async def enqueue(runs: Sequence[NewRun]) -> list[Created]:
        with psycopg.connect(store.address.conninfo) as connection:
            connection.execute("select 1")
            return store.transactions.enqueue(connection, runs)

    try:
        with psycopg.connect(store.address.conninfo, autocommit=True) as looking:
            yield Opened("postgres", store, enqueue, lambda: [*_wrongly_fenced(looking), *_wrongly_labelled(looking)])
    finally:
        await store.close()


def _wrongly_fenced(connection: psycopg.Connection[Any]) -> list[str]:
    """The runs whose fence would admit plain commits although it must not."""
    rows = connection.execute("""
        select r.run_id
        from stepwell.heads as h
        join stepwell.runs as r on r.id = h.run
        where h.fence is not null and (
            r.hold is not null or r.status not in ('running', 'compensating')
            or r.owner is null or h.fence <> r.epoch
        )
    """)
    return [run_id for (run_id,) in rows]


def _wrongly_labelled(connection: psycopg.Connection[Any]) -> list[str]:
    """The records whose rows of labels differ from the record."""
    rows = connection.execute("""
        select distinct coalesce(r.number, l.number)
        from (select r.*, label from stepwell.records as r cross join unnest(labels) as label) as r
        full join stepwell.record_labels as l
            on (l.kind, l.label, l.is_open, l.number, l.state, coalesce(l.due_at, -1))
                = (r.kind, r.label, r.is_open, r.number, r.state, coalesce(r.due_at, -1))
        where r.number is null or l.number is null
    """)
    return [f"record {number}" for (number,) in rows]


# A new store gets a function above and a line here. The function gives a fresh, empty, opened store that reads the
# clock of the place, and ends it afterwards.
STORES: dict[str, Open] = {
    "memory": open_memory,
    "sqlite": open_sqlite,
    "postgres": open_postgres,
}
