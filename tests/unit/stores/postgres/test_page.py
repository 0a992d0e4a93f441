"""docs/postgres.md is right: its statements work, and its roles can do what they should and nothing else."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from stepwell import Context, Engine, WaitTimeout, errors, step, workflow
from stepwell.environment import system_environment
from stepwell.model.states import WaitKind
from stepwell.stores.base.diagnosis import Finding, Verdict
from stepwell.stores.postgres import texts, urls
from stepwell.stores.postgres.diagnosis import PostgresDiagnosis
from stepwell.stores.postgres.migrator import migrate
from stepwell.stores.postgres.texts import functions_schema
from tests.http.desk import open_desk
from tests.servers.postgres import PostgresServer
from tests.servers.urls import as_user

PAGE = (Path(__file__).parents[4] / "docs" / "postgres.md").read_text(encoding="utf-8")
[ROLES] = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@step
async def add(number: int) -> int:
    return number + 1


@workflow
async def count(ctx: Context, number: int) -> int:
    number = await ctx.step(add, number)
    await ctx.sleep("a moment", "10ms")
    try:
        await ctx.topic("news", timeout="10ms")  # waits for events are numbered by a sequence
    except WaitTimeout:
        pass
    message = await ctx.receive("go")
    return number + message.payload


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    """The database of the page, with its roles, before the first migration."""
    server.execute("create database shop")
    url = server.url("shop")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ROLES.encode())
    yield url
    server.drop_database(url)
    for role in ("stepwell_runtime", "stepwell_migrator"):
        server.execute(psycopg.sql.SQL("drop role {}").format(psycopg.sql.Identifier(role)))


@pytest.fixture
def migrator(url: str) -> str:
    return as_user(url, "stepwell_migrator", "one secret")


@pytest.fixture
def runtime(url: str) -> str:
    return as_user(url, "stepwell_runtime", "another secret")


async def use(url: str) -> None:
    """A worker, a client, and a run that needs both."""
    async with Engine(url, workflows=[count]), Engine(url, workflows=[count], worker=False) as client:
        run = await client.start(count, 1, key="one")
        await client.signal("one", "go", 40)
        assert await run.result(timeout="60s") == 42
        assert [found.run_id for found in await client.runs.list()] == [run.run_id]


def rights(url: str) -> Finding:
    [found] = [
        finding for finding in PostgresDiagnosis(system_environment(), url).examine() if finding.check == "rights"
    ]
    return found


async def test_the_runtime_role_runs_workflows_with_what_the_page_grants(migrator: str, runtime: str) -> None:
    with pytest.raises(errors.StoreNotWritableError, match="stepwell migrate"):
        await use(runtime)

    assert migrate(migrator, is_plan=False).is_change
    await use(runtime)

    assert rights(runtime).verdict is Verdict.OK


async def test_a_server_keeps_keys_and_audit_with_what_the_page_grants(migrator: str, runtime: str) -> None:
    migrate(migrator, is_plan=False)

    async with open_desk(runtime) as desk:
        body, key = {"workflow": "approval"}, {"idempotency-key": "one"}
        answers = [await desk.post("/api/runs", body, headers=key) for _ in range(2)]
        acts = (await desk.get("/api/audit")).json()["acts"]

    assert [answer.status_code for answer in answers] == [201, 200]
    assert [act["outcome"] for act in acts] == ["200", "asked", "201", "asked"]


@pytest.mark.parametrize(
    "statement",
    [
        "create table stepwell.mine (n int)",
        "create schema mine",
        "create function stepwell.mine() returns int language sql return 1",
        "drop table stepwell.runs",
        "drop schema stepwell cascade",
        "truncate stepwell.runs",
        "alter table stepwell.runs add column mine int",
        "create index mine on stepwell.runs (reason)",
        "create trigger mine before insert on stepwell.runs execute function suppress_redundant_updates_trigger()",
        "alter sequence stepwell.armed restart",
    ],
)
def test_the_runtime_role_can_change_no_table(migrator: str, runtime: str, statement: LiteralString) -> None:
    migrate(migrator, is_plan=False)

    with psycopg.connect(runtime, autocommit=True) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


def test_the_runtime_role_can_change_no_function(migrator: str, runtime: str) -> None:
    migrate(migrator, is_plan=False)
    name = f"{functions_schema('stepwell')}.b64(bytea)"

    with psycopg.connect(runtime, autocommit=True) as connection:
        for statement in (
            f"drop function {name}",
            f"alter function {name} volatile",
            f"drop schema {name[:19]} cascade",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


async def test_a_later_release_needs_no_other_grants(
    migrator: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(migrator, is_plan=False)
    monkeypatch.setattr(texts, "DIGEST", "0123456789")
    with pytest.raises(errors.StoreNotWritableError, match="functions of this release"):
        await use(runtime)

    assert migrate(migrator, is_plan=False).functions == "stepwell_0123456789"
    await use(runtime)


async def test_tables_that_were_there_before_are_granted_as_the_doctor_says(
    server: PostgresServer, url: str, runtime: str
) -> None:
    migrate(url, is_plan=False)  # by another role
    found = rights(runtime)
    assert found.verdict is Verdict.FAIL

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(found.fix.encode())

    await use(runtime)


def run_program(server: PostgresServer, name: str, *words: str, given: bytes = b"") -> bytes:
    return subprocess.run([server.programs.path(name), *words], input=given, capture_output=True, check=True).stdout


async def test_a_restored_dump_continues_where_it_was_taken(server: PostgresServer) -> None:
    url = server.create_database()
    async with Engine(url, workflows=[count]) as engine:
        await engine.start(count, 1, key="one")
        while not any(wait.kind is WaitKind.SIGNAL for wait in (await engine.runs.detail("one")).history.waits):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    dump = run_program(server, "pg_dump", "--schema=stepwell", "--schema=stepwell_*", f"--dbname={url}")
    async with Engine(url, workflows=[count]) as engine:
        await engine.cancel("one", reason="after the backup")
    restored = server.create_database()
    run_program(server, "psql", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={restored}", given=dump)

    async with Engine(restored, workflows=[count]) as engine:
        await engine.signal("one", "go", 40)
        assert await engine.result("one", timeout="60s") == 42


def test_the_page_names_every_option_and_only_codes_that_exist() -> None:
    table = PAGE.partition("| option |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(urls._OURS)

    codes = {member.code for member in vars(errors).values() if isinstance(member, type) and hasattr(member, "code")}
    assert set(re.findall(r"SW\d{3}", PAGE)) <= codes
