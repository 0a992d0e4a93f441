"""A server that refuses every call for a while, shorter than the lease: all goes on afterwards, by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from stepwell import Context, Engine, Transaction, WorkerSettings, step, workflow
from tests.servers.databases import DatabaseServer

REFUSALS: dict[str, tuple[LiteralString, LiteralString]] = {
    "the schema is renamed": (
        "alter schema stepwell rename to away",
        "alter schema away rename to stepwell",
    ),
    "the rights are revoked": (
        "revoke usage on schema stepwell from {role}; revoke all on all tables in schema stepwell from {role}",
        "grant usage on schema stepwell to {role}; grant all on all tables in schema stepwell to {role}",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_runs_complete_after_a_refusal_and_no_body_ran_twice(
    postgres: DatabaseServer, postgres_url: str, refusal: str
) -> None:
    bodies: Counter[str] = Counter()

    @step
    async def work(place: str) -> None:
        bodies[place] += 1
        await asyncio.sleep(0.02)

    @step(transaction=True)
    def enter(tx: Transaction, number: int) -> None:
        tx.execute("insert into mine values (?)", (number,))

    @workflow
    async def flow(ctx: Context, number: int) -> int:
        for place in range(15):
            await ctx.step(f"work {place}", work, f"{number}: {place}")
        await ctx.step("enter", enter, number)
        await ctx.sleep("pause", "200ms")
        await ctx.step("last", work, f"{number}: last")
        return number

    name = f"weak_{postgres_url.rpartition('/')[2].partition('?')[0]}"
    role = sql.Identifier(name)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login").format(role))
        try:
            admin.execute("create table mine (number int)")
            async with Engine(postgres_url, workflows=[flow]):
                pass  # creates the tables
            [digest] = admin.execute("select nspname from pg_namespace where nspname like 'stepwell\\_%'").fetchall()
            grants = "grant usage on schema {0} to {1}; grant execute on all functions in schema {0} to {1}"
            admin.execute(sql.SQL(grants).format(sql.Identifier(digest[0]), role))
            for schema in ("public", "stepwell"):
                grants = (
                    "grant usage on schema {0} to {1}; grant all on all tables in schema {0} to {1};"
                    "grant all on all sequences in schema {0} to {1}"
                )
                admin.execute(sql.SQL(grants).format(sql.Identifier(schema), role))
            url = postgres_url.replace("//postgres@", f"//{name}@")
            settings = WorkerSettings(lease="6s")
            async with Engine(url, workflows=[flow], settings=settings) as engine:
                runs = [await engine.start(flow, number) for number in range(20)]
                await asyncio.sleep(0.1)
                begin, end = (sql.SQL(part).format(role=role) for part in REFUSALS[refusal])
                admin.execute(begin)
                waiting = [asyncio.ensure_future(run.result(timeout="60s")) for run in runs]
                await asyncio.sleep(1)
                assert not all(each.done() for each in waiting)
                admin.execute(end)
                assert await asyncio.gather(*waiting) == list(range(20))
            assert set(bodies.values()) == {1}
            [count] = admin.execute("select count(*), count(distinct number) from mine").fetchall()
            assert count == (20, 20)
        finally:
            admin.execute(sql.SQL("drop owned by {}; drop role {}").format(role, role))
