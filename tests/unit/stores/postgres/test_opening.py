"""A server that goes away while a store is being opened."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from stepwell.environment import system_environment
from stepwell.errors import StoreUnavailableError
from stepwell.stores.postgres.store import PostgresStore
from tests.servers.cleared import cleared_url

_END = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()
"""


async def test_a_connection_that_is_lost_while_a_store_opens_is_told_in_our_words() -> None:
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
