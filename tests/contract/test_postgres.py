"""The PostgreSQL store passes the public store suite, on every version and at both levels of isolation."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from stepwell.conformance.suite import StoreSuite
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from stepwell.stores.base.store import Store
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url
from tests.servers.kept import KeptPool


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[(18, ""), (16, "isolation=serializable")], ids=["18", "16-serializable"])
def url(request: pytest.FixtureRequest) -> str:
    return cleared_url(*request.param)


async def _open(clock: ManualClock, url: str) -> PostgresStore:
    environment = Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor())
    store = PostgresStore(environment, url, test_clock=clock, pool=KeptPool(parse_address(url), environment))
    await store.open()
    environment.executor.close()  # its threads have prepared the database; the next use starts new threads
    return store


@pytest_asyncio.fixture
async def store(clock: ManualClock, url: str) -> AsyncIterator[Store]:
    store = await _open(clock, url)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def other(clock: ManualClock, store: PostgresStore, url: str) -> AsyncIterator[Store]:
    other = await _open(clock, url)
    yield other
    await other.close()


class TestPostgresStore(StoreSuite):
    forbidden = (
        "commit",
        "COMMIT;",
        " rollback;",
        "begin",
        "start transaction",
        "end",
        "abort",
        "prepare transaction 'x'",
        "savepoint stepwell_work;",
        "rollback to stepwell_work",
        "delete from stepwell.runs",
        'select * from "stepwell" . entries',
        "DROP TABLE Stepwell.Runs",
        "create table stepwell.mine (n int)",
    )
