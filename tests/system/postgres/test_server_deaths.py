"""The server dies, hangs up or is away: what was acknowledged is there afterwards, and work goes on by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg import sql

from stepwell import Context, Engine, WorkerSettings, workflow
from stepwell.stores.postgres.texts import functions_schema
from tests.servers.databases import database_name
from tests.servers.postgres import PostgresServer
from tests.system.postgres.crew import SECONDS_MAX, Crew, until
from tests.system.postgres.load import Load

KILLS = 3
HANGUPS = 10
# Longer than a lease, and longer than anybody waits for one connection: a whole minute would show nothing else.
AWAY_SECONDS = 8.0
LEASE_SECONDS = 2.0


def hang_up(server: PostgresServer, url: str) -> int:
    """End every connection to a database at the same moment; how many."""
    [(ended,)] = server.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = %s and backend_type = 'client backend'",
        [database_name(url)],
    )
    return int(ended)


async def test_kill_9_of_the_server_loses_nothing_that_was_acknowledged(server: PostgresServer, crew: Crew) -> None:
    await asyncio.gather(crew.enlist("first"), crew.enlist("second", mode="yield"))
    async with Load(crew) as load:
        load.begin()
        for _ in range(KILLS):
            await load.goes_on()
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await load.goes_on()

        await load.check(await load.settle())


async def test_connections_that_are_ended_again_and_again_lose_nothing(server: PostgresServer, crew: Crew) -> None:
    await asyncio.gather(crew.enlist("first"), crew.enlist("second"))
    ended = 0
    async with Load(crew) as load:
        load.begin()
        for _ in range(HANGUPS):
            await load.goes_on(1)
            ended += await asyncio.to_thread(hang_up, server, crew.url)
        await load.goes_on()

        await load.check(await load.settle())

    assert ended > HANGUPS


async def test_workers_come_back_from_an_outage_longer_than_their_leases(server: PostgresServer, crew: Crew) -> None:
    hands = await asyncio.gather(*(crew.enlist(name, lease=LEASE_SECONDS) for name in ("first", "second")))
    async with Load(crew) as load:
        load.begin()
        await load.goes_on()
        before = await incarnations(load)
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(AWAY_SECONDS)
        await asyncio.to_thread(server.start)
        await load.goes_on(10)
        after = await incarnations(load)

        await load.check(await load.settle(), may_repeat=True)

    assert all(hand.is_alive for hand in hands)
    assert sorted(before.values()) == sorted(after.values()) == ["first", "second"]
    assert not before.keys() & after.keys()


async def test_workers_that_are_not_let_in_for_a_while_come_back(server: PostgresServer, crew: Crew) -> None:
    hands = await asyncio.gather(*(crew.enlist(name, lease=1.0) for name in ("first", "second")))
    doors = server.data / "pg_hba.conf"
    rules = doors.read_text()
    async with Load(crew) as load:
        load.begin()
        await load.goes_on()
        with psycopg.connect(crew.url, autocommit=True) as witness:
            try:
                doors.write_text("host postgres all 127.0.0.1/32 trust\n")
                server.configure({})
                await until(lambda: not put_out(witness) and not live_leases(witness))
            finally:
                doors.write_text(rules)
                server.configure({})
        await load.goes_on(10)

        await load.check(await load.settle(), may_repeat=True)

    assert all(hand.is_alive for hand in hands)


def put_out(witness: psycopg.Connection[tuple[Any, ...]]) -> int:
    """End the connections of workers, and tell how many there were. One that was being made has no name yet, and is
    met by the next call.
    """
    mine = "from pg_stat_activity where application_name = 'stepwell'"
    return len(witness.execute(f"select pg_terminate_backend(pid) {mine}").fetchall())


def live_leases(witness: psycopg.Connection[tuple[Any, ...]]) -> int:
    """How many workers have a lease, by the server's clock."""
    now = "extract(epoch from clock_timestamp()) * 1000000"
    return len(witness.execute(f"select 1 from stepwell.workers where lease_until > {now}").fetchall())


async def incarnations(load: Load) -> dict[str, str]:
    """The workers that are registered, with their names."""
    return {worker.incarnation: worker.name for worker in await load.store.views.list_workers()}


async def test_a_worker_that_cannot_register_again_goes_on_trying(postgres_url: str) -> None:
    @workflow
    async def greet(ctx: Context) -> str:
        return "hello"

    mine = sql.Identifier(functions_schema("stepwell"))
    async with Engine(postgres_url, workflows=[greet], settings=WorkerSettings(lease="1s")) as engine:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            # As if rights were taken away by mistake: what it asks for is refused, and not by an outage.
            connection.execute(sql.SQL("alter function {}.register rename to hidden").format(mine))
            connection.execute("update stepwell.workers set lease_until = 0")
            await until(lambda: refusals(connection) > 1)
            connection.execute(sql.SQL("alter function {}.hidden rename to register").format(mine))
        handle = await engine.start(greet)

        assert await handle.result(timeout=SECONDS_MAX) == "hello"


def refusals(witness: psycopg.Connection[tuple[Any, ...]]) -> int:
    """How many transactions of this database were undone."""
    witness.execute("select pg_stat_clear_snapshot()")
    found = witness.execute("select xact_rollback from pg_stat_database where datname = current_database()").fetchall()
    return int(found[0][0])
