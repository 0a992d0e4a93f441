"""A synchronous standby takes over: nothing that was acknowledged is lost, and all follow it by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell import Engine
from tests.servers.databases import database_name
from tests.servers.guard import processes_in
from tests.servers.postgres import PostgresServer, multi_host_url
from tests.system.postgres.crew import SECONDS_MAX, Crew, until
from tests.system.postgres.load import Load


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def pair(primary: PostgresServer, tmp_path: Path) -> Iterator[tuple[Crew, PostgresServer]]:
    """No workers yet, with a URL that names a primary and its standby; and the standby."""
    database = database_name(primary.create_database())
    standby = primary.standby()
    try:
        with Crew(tmp_path, multi_host_url(primary, standby, database=database)) as crew:
            yield crew, standby
    finally:
        standby.close()


async def test_workers_follow_when_the_primary_dies_and_the_standby_is_promoted(
    primary: PostgresServer, pair: tuple[Crew, PostgresServer]
) -> None:
    crew, standby = pair
    await asyncio.gather(crew.enlist("first"), crew.enlist("second", mode="yield"))
    async with Load(crew) as load:
        load.begin()
        await load.goes_on()
        await asyncio.to_thread(primary.kill)
        await asyncio.to_thread(standby.promote)
        await load.goes_on(10)

        await load.check(await load.settle())


async def test_workers_and_clients_leave_a_primary_that_takes_no_writes_any_more(
    primary: PostgresServer, pair: tuple[Crew, PostgresServer]
) -> None:
    crew, standby = pair
    await asyncio.gather(crew.enlist("first"), crew.enlist("second", mode="yield"))
    async with Load(crew) as load:
        load.begin()
        await load.goes_on()
        # Switched over with care: no more writes, all that was written is on the other side, and then the other one
        # begins. The old one stays there and answers whoever reads.
        await asyncio.to_thread(primary.configure, {"default_transaction_read_only": "on"})
        await until(lambda: writers(primary) == 0)
        await asyncio.to_thread(standby.promote)
        await load.goes_on(10)
        await load.check(await load.settle())
        assert primary.running


def writers(server: PostgresServer) -> int:
    """How many transactions of stepwell have written something and are not over."""
    question = "select 1 from pg_stat_activity where application_name = 'stepwell' and backend_xid is not null"
    return len(server.execute(question))


async def test_calls_to_a_primary_that_is_frozen_end_and_are_answered_by_the_new_one(
    primary: PostgresServer, pair: tuple[Crew, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.stores.postgres.pool.ANSWER_SECONDS_MAX", 0.5)
    crew, standby = pair
    async with Engine(crew.url) as engine:
        before = await engine.runs.start_by_name("work", 1, key="before")
        frozen = processes_in(primary.folder)
        for process in frozen:
            process.suspend()
        try:
            # It is asked while nobody answers at all, and again until somebody does.
            call = asyncio.ensure_future(engine.runs.start_by_name("work", 1, key="after"))
            await asyncio.to_thread(standby.promote)
            after = await asyncio.wait_for(call, SECONDS_MAX)
            found = [await engine.status(handle.run_id) for handle in (before, after)]
        finally:
            for process in frozen:
                process.resume()

    assert [view and view.key for view in found] == ["before", "after"]
