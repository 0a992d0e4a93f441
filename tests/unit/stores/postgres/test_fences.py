"""A restored database: a worker that used it before can no longer write to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio

from stepwell.clock import span
from stepwell.conformance.scene import FLOW, Turn, new_run, place, step
from stepwell.environment import system_environment
from stepwell.ids import Incarnation
from stepwell.model.commits import Verdict
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.base.backups import NUMBERS_SKIPPED
from stepwell.stores.postgres.fences import fence
from stepwell.stores.postgres.store import PostgresStore
from tests.servers.cleared import cleared_url

_WORKER = Incarnation("w1")


@pytest.fixture
def url() -> str:
    return cleared_url()


@pytest_asyncio.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(system_environment(), url)
    await store.open()
    await store.workers.register(NewWorker(_WORKER, _WORKER, span("60s"), (FLOW,)))
    yield store
    await store.close()


async def begin(store: PostgresStore, run_id: str) -> Turn:
    [created] = await store.runs.create([new_run(run_id)], Claimant(_WORKER, 1, (FLOW,)))
    assert created.claimed is not None
    return Turn(store, created.claimed)


async def test_a_worker_between_two_steps_is_fenced(store: PostgresStore, url: str) -> None:
    turn = await begin(store, "r1")
    await turn.commit(names=("a", "b", "c"))
    for number in (1, 2):  # the second commit finds the run by its number
        applied = await turn.commit(entries=(step(number, place(number - 1)),))
        assert applied.verdict is Verdict.APPLIED

    fence(url)

    applied = await turn.commit(entries=(step(3, place(2)),))
    assert applied.verdict is Verdict.FENCED
    [history] = await store.runs.load([turn.run_id])
    assert len(history.entries) == 2


async def test_the_number_of_a_lost_run_is_not_used_again(store: PostgresStore, url: str) -> None:
    fence(url)
    await store.runs.create([new_run("r2")])

    with psycopg.connect(url) as connection:
        row = connection.execute("select min(id) from stepwell.runs").fetchone()
    assert row is not None
    assert row[0] > NUMBERS_SKIPPED
