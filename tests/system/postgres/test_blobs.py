"""Large payloads in the database, while the database is away or busy: no run pays for it."""

from __future__ import annotations

import threading
import time

import psycopg
from psycopg import sql

from stepwell import Context, Engine, WorkerSettings, workflow
from stepwell.environment import system_environment
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.texts import functions_schema
from tests.servers.postgres import PostgresServer
from tests.system.postgres.crew import SECONDS_MAX, until

LARGE = 200_000  # offloaded
AWAY_SECONDS = 1.0


async def test_a_run_whose_payloads_are_out_of_reach_for_a_while_goes_on_by_itself(server: PostgresServer) -> None:
    replays: list[float] = []

    def go_away() -> None:
        """Between the load of a history and the first read of what is kept apart."""
        server.kill()
        threading.Timer(AWAY_SECONDS, server.start).start()

    async def large() -> str:
        return "x" * LARGE

    @workflow
    async def reader(ctx: Context) -> int:
        if ctx.is_replaying and not replays:
            go_away()
        if ctx.is_replaying:
            replays.append(time.monotonic())
        text = await ctx.step(large)
        await ctx.receive("go")
        return len(text)

    settings = WorkerSettings(mode="yield", lease="30s")
    async with Engine(server.create_database(), workflows=[reader], settings=settings, offload="database") as engine:
        handle = await engine.start(reader)

        async def is_waiting() -> bool:
            return (await handle.status()).status == "waiting"

        await until(is_waiting)
        await engine.signal(handle.run_id, "go")

        assert await handle.result(timeout=SECONDS_MAX) == LARGE
    assert len(replays) >= 2


async def test_a_payload_whose_reading_met_another_transaction_is_read_again(postgres_url: str) -> None:
    store = PostgresStore(system_environment(), postgres_url)
    await store.open()
    name = store.blobs.put(b"x" * LARGE)
    await store.runs.rescue(stalls_max=5)  # any transition: what is put is durable before it
    schema = sql.Identifier(functions_schema("stepwell"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create sequence lots")
        connection.execute(
            sql.SQL("""
            alter function {schema}.read_blob rename to read_blob_in_peace;
            create function {schema}.read_blob(bigint, bigint, text) returns text language plpgsql as $$
            begin
                if nextval('lots') % 3 <> 0 then
                    raise exception using errcode = '40001', message = 'could not serialize access';
                end if;
                return {schema}.read_blob_in_peace($1, $2, $3);
            end $$
            """).format(schema=schema)
        )

    assert [len(store.blobs.get(name)) for _ in range(4)] == [LARGE] * 4
    await store.close()
