"""Unexpected answers on a connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from stepwell.conformance.scene import new_run
from stepwell.environment import Environment, SystemExecutor, system_environment
from stepwell.errors import StepwellError
from stepwell.ids import SystemIds
from stepwell.stores.postgres.calls import OPENING
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.pool import ConnectionPool, InlinePool
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url

# Fails when the transaction commits, after the rows of the statement were sent to the client.
_LATE = """
create table public.late (n int);
create function public.refuse_late() returns trigger language plpgsql as $$
begin
    raise exception 'too late' using errcode = '40001';
end $$;
create constraint trigger late after insert on stepwell.runs deferrable initially deferred
for each row execute function public.refuse_late();
"""


@pytest.fixture
def url() -> str:
    return cleared_url()


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    clock = ManualClock()
    store = PostgresStore(
        Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor()), url, test_clock=clock
    )
    await store.open()
    yield store
    await store.close()


async def test_a_commit_that_fails_after_its_rows_is_not_acknowledged(store: PostgresStore, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_LATE)
        try:
            with pytest.raises(StepwellError, match="conflicted again and again"):
                await store.runs.create([new_run("r1")])
        finally:
            connection.execute("drop function public.refuse_late cascade")

    assert await store.views.find("r1") is None
    assert [created.is_new for created in await store.runs.create([new_run("r1")])] == [True]


async def test_after_a_cancelled_call_no_caller_gets_a_foreign_answer(store: PostgresStore) -> None:
    for n in range(20):
        asked = asyncio.ensure_future(store.runs.create([new_run(f"a{n}")]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked.cancel()
        [created] = await store.runs.create([new_run(f"b{n}")])
        assert created.run_id == f"b{n}"


async def test_payloads_larger_than_a_socket_takes_at_once(store: PostgresStore) -> None:
    large = bytes(range(256)) * 40_000

    await store.runs.create([new_run("r1", input=large)])

    run = await store.views.find("r1")
    assert run is not None
    assert run.input == large


@pytest.mark.parametrize("is_inline", [True, False], ids=["inline", "pool"])
async def test_a_broken_connection_is_closed_before_another_takes_its_place(url: str, is_inline: bool) -> None:
    environment, address = system_environment(), parse_address(url)
    pool = InlinePool(address) if is_inline else ConnectionPool(address, environment)
    store = PostgresStore(environment, url, pool=pool)
    await store.open()
    store._database.read_now(OPENING)
    [first] = [one for one in vars(pool).values() if isinstance(one, Connection)]

    first.is_broken = True
    store._database.read_now(OPENING)

    assert first.driver.closed
    await store.close()
