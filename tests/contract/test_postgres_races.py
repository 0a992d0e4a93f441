"""Transitions of a PostgreSQL store that meet: one has not committed yet when the other begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from stepwell.clock import Instant
from stepwell.conformance.scene import Scene, Turn, new_signal, place, step, wait_signal
from stepwell.environment import system_environment
from stepwell.model.commits import Commit, Park, Verdict
from stepwell.stores.postgres import calls
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.sessions import connect_now
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from stepwell.virtual.clock import ManualClock
from tests.servers.cleared import cleared_url


@pytest.fixture(params=["", "isolation=serializable"], ids=["read committed", "serializable"])
def url(request: pytest.FixtureRequest) -> str:
    return cleared_url(None, request.param)


@pytest_asyncio.fixture
async def scene(url: str) -> AsyncIterator[Scene]:
    store = PostgresStore(system_environment(), url)
    await store.open()
    scene = Scene(store, ManualClock())
    await scene.register()
    yield scene
    await store.close()


@pytest.fixture
def connection(url: str, scene: Scene) -> Iterator[Connection]:
    """A connection of another process, in a transaction."""
    connection = connect_now(parse_address(url))
    connection.execute_now("begin")
    yield connection
    connection.finish()


def _call(connection: Connection, call: calls.Call[Any], *arguments: Any) -> None:
    connection.call_now(call, call.values(None, Instant(0), arguments))


async def _until_a_lock_is_awaited(url: str) -> None:
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        asked = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        while connection.execute(asked).fetchone() is None:  # noqa: ASYNC110  only the server knows
            await asyncio.sleep(0.01)


async def _meet(url: str, connection: Connection, act: Awaitable[Any]) -> Any:
    """Begin an act, which has to wait for the transaction of the connection. Then commit that; return the answer."""
    waiting = asyncio.ensure_future(act)
    await _until_a_lock_is_awaited(url)
    connection.execute_now("commit")
    return await waiting


def _step(turn: Turn) -> Commit:
    return turn.next(names=("a",), entries=(step(1, place(0)),))


async def test_a_run_that_parks_beside_a_step_of_another_gets_a_signal_that_is_just_delivered(
    url: str, scene: Scene, connection: Connection
) -> None:
    parking, other = await scene.begin("r1"), await scene.begin("r2")
    _call(connection, calls.DELIVER, [new_signal("s1", "r1", "go")], None)

    batch = [_step(other), parking.next(waits=(wait_signal("go"),), move=Park(None))]
    answers = await _meet(url, connection, scene.store.runs.apply(batch))

    assert [one.verdict for one in answers] == [Verdict.APPLIED] * 2
    assert answers[1].is_awake
    assert (await scene.run("r1")).wake_at is not None
