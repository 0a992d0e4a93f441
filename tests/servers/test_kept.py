"""Connections that outlive a store are used by the next one, whatever became of them meanwhile."""

from __future__ import annotations

import asyncio

import psycopg

from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from tests.servers.kept import KeptPool

_SESSIONS = """
select pid from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


def _start(url: str, run_id: str) -> bool:
    """Open a store on an event loop of its own, start a run, and close it."""

    async def start() -> bool:
        environment = system_environment()
        store = PostgresStore(environment, url, pool=KeptPool(parse_address(url), environment))
        await store.open()
        created = await store.runs.create([new_run(run_id)])
        await store.close()
        environment.executor.close()
        return created[0].is_new

    return asyncio.run(start())


def test_the_next_store_goes_on_with_the_session_of_the_last(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as watcher:
        first = _start(postgres_url, "r1"), watcher.execute(_SESSIONS).fetchall()
        second = _start(postgres_url, "r2"), watcher.execute(_SESSIONS).fetchall()

    assert first == second
    assert (first[0], len(first[1])) == (True, 1)


def test_a_session_that_was_ended_meanwhile_is_not_used(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as watcher:
        _start(postgres_url, "r1")
        (pid,) = watcher.execute(_SESSIONS).fetchone() or (0,)
        assert watcher.execute("select pg_terminate_backend(%s, 10000)", (pid,)).fetchone() == (True,)

        assert _start(postgres_url, "r2")
        assert (pid,) not in watcher.execute(_SESSIONS).fetchall()
