"""Opening a store: in a few round trips if everything exists, else with a clear error."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.errors import ForeignFileError, SchemaMissingError, StoreUnavailableError
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.migrator import migrate
from stepwell.stores.postgres.pool import ConnectionPool
from stepwell.stores.postgres.sessions import connect_now
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from tests.servers.cleared import cleared_url

_END = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()
"""
_OTHERS = """
select count(*) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


def _show(connection: Connection, name: str) -> str:
    found = connection.driver.pgconn.exec_(f"show {name}".encode()).get_value(0, 0)
    return "" if found is None else found.decode()


async def test_a_connection_that_is_lost_while_a_store_opens_is_a_store_error() -> None:
    url = cleared_url()
    store = PostgresStore(system_environment(), url)
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as killer:
        holder.execute("lock table stepwell.meta in access exclusive mode")
        opening = asyncio.ensure_future(store.open())
        while not opening.done():
            await asyncio.sleep(0.02)
            killer.execute(_END)

        with pytest.raises(StoreUnavailableError):
            await opening


async def test_a_database_that_is_ready_is_opened_by_one_connection_and_one_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = cleared_url()
    pool = ConnectionPool(parse_address(url), system_environment())
    store = PostgresStore(system_environment(), url, pool=pool)
    opened: list[str] = []
    connect = psycopg.AsyncConnection.connect

    async def counted(conninfo: str, **how: Any) -> Any:
        opened.append(conninfo)
        return await connect(conninfo, **how)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", counted)
    monkeypatch.setattr(psycopg.Connection, "connect", opened.append)
    await store.open()
    calls = pool.calls
    created = await store.runs.create([new_run("r1")])
    await store.close()

    assert (len(opened), calls) == (1, 1)
    assert created[0].is_new


async def test_a_session_is_configured_in_the_first_round_trip() -> None:
    connection = connect_now(parse_address(f"{cleared_url()}?isolation=serializable"))
    names = ("lock_timeout", "jit", "tcp_keepalives_idle", "tcp_keepalives_count", "default_transaction_isolation")
    shown = [_show(connection, name) for name in names]
    connection.finish()

    assert shown == ["10s", "off", "10", "3", "serializable"]


async def test_a_store_that_could_not_be_opened_leaves_nothing_behind_and_may_be_opened_later(
    postgres_url: str,
) -> None:
    store = PostgresStore(system_environment(), postgres_url, may_create=False)
    with psycopg.connect(postgres_url, autocommit=True) as watcher:
        with pytest.raises(SchemaMissingError):
            await store.open()
        # The server may take a moment to notice that a client has left.
        while watcher.execute(_OTHERS).fetchone() != (0,):  # noqa: ASYNC110  only the server knows
            await asyncio.sleep(0.01)

        migrate(postgres_url, is_plan=False)
        await store.open()
        created = await store.runs.create([new_run("r1")])
        assert watcher.execute(_OTHERS).fetchone() == (1,)
        await store.close()

    assert created[0].is_new


@pytest.mark.parametrize(
    "damage",
    [
        "update stepwell.meta set value = value - 1 where name = 'schema'",
        "delete from stepwell.meta where name = 'identity'",
        "alter table stepwell.meta rename column value to number",
    ],
)
async def test_a_database_that_is_not_clearly_ready_is_inspected(postgres_url: str, damage: str) -> None:
    migrate(postgres_url, is_plan=False)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(damage.encode())

    with pytest.raises((SchemaMissingError, ForeignFileError)):
        await PostgresStore(system_environment(), postgres_url, may_create=False).open()
