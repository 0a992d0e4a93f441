"""A request that is carried out after its worker has retired: no process waits for its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from stepwell.clock import Instant, span
from stepwell.conformance.scene import FLOW, Turn, new_run
from stepwell.environment import system_environment
from stepwell.ids import EventId, Incarnation
from stepwell.model.commits import Release
from stepwell.model.outbox import Emit
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.texts import functions_schema
from tests.servers.cleared import cleared_url

_FIRST, _SECOND = Incarnation("w1"), Incarnation("w2")


@pytest.fixture
def url() -> str:
    return cleared_url()


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    # The server's own clock: a test clock is a row that every call writes, which would block all others.
    store = PostgresStore(system_environment(), url)
    await store.open()
    for worker in (_FIRST, _SECOND):
        await store.workers.register(NewWorker(worker, worker, span("60s"), (FLOW,)))
    yield store
    await store.close()


async def test_a_batch_taken_for_a_retired_worker_is_due_again(store: PostgresStore, url: str) -> None:
    [created] = await store.runs.create([new_run("r1")], Claimant(_FIRST, 1, (FLOW,)))
    assert created.claimed is not None
    event = Emit(EventId("e1"), "paid", "pay", b"\x00e1", Instant(7), ("s",))
    await Turn(store, created.claimed).commit(emits=(event,), move=Release())
    statement = sql.SQL("select {}.take(null, 0, %s, 's', 9, 3, '[]')").format(
        sql.Identifier(functions_schema("stepwell"))
    )

    with psycopg.connect(url) as late:
        late.execute(statement, [_FIRST])
        await store.workers.retire(_FIRST)
        late.commit()

    assert await store.views.has_stranded()
    await store.runs.rescue(stalls_max=5)
    assert not await store.views.has_stranded()
    [[owed]] = await store.outbox.take(_SECOND, "s", limit=9, batch_max=3)
    assert owed.event_id == "e1"


async def test_a_run_claimed_for_a_retired_worker_is_freed(store: PostgresStore, url: str) -> None:
    await store.runs.create([new_run("r1")])
    statement = sql.SQL("select {}.claim(null, 0, %s::jsonb)").format(sql.Identifier(functions_schema("stepwell")))

    with psycopg.connect(url) as late:
        late.execute(statement, [f'["{_FIRST}", 9, ["{FLOW}"]]'])
        await store.workers.retire(_FIRST)
        late.commit()

    assert await store.views.has_stranded()
    assert await store.runs.rescue(stalls_max=5) == ["r1"]
    assert not await store.views.has_stranded()
