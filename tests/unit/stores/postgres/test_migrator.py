"""Preparing a database: once, completely or not at all, next to other releases, and never in foreign tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from stepwell import Context, Engine, step, workflow
from stepwell.clock import SECOND
from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.errors import (
    ForeignFileError,
    SchemaMismatchError,
    SchemaMissingError,
    StepwellError,
    StoreAccessError,
    StoreError,
    StoreNotWritableError,
)
from stepwell.ids import Incarnation
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.base.views import RunFilter
from stepwell.stores.postgres import migrator, texts
from stepwell.stores.postgres.migrator import SchemaState, inspect, prepare
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.texts import MIGRATIONS, functions_schema
from stepwell.stores.postgres.urls import parse_address
from stepwell.stores.sql.migrations import Migration
from tests.servers.postgres import PostgresServer
from tests.servers.urls import as_user
from tests.unit.stores.postgres.conftest import Opened

NEWEST = MIGRATIONS[-1].number
RACERS = 8


@step
async def say(name: str) -> str:
    return f"hello {name}"


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(say, name)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server of our own, because the tests create roles; it accepts all users."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(admin: psycopg.Connection[Any], postgres_url: str) -> Iterator[str]:
    """The URL of the same database for a role that may only connect."""
    admin.execute("create role weak login")
    yield as_user(postgres_url, "weak")
    admin.execute("drop owned by weak")
    admin.execute("drop role weak")


def ready(url: str) -> SchemaState:
    address = parse_address(url)
    with open_connection(address) as connection:
        return prepare(connection, address.schema, address.where)


def objects(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """Everything in the database except the server's own objects."""
    return connection.execute(
        "select n.nspname, c.relname, c.relkind"
        " from pg_namespace as n left join pg_class as c on c.relnamespace = n.oid"
        " where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' order by 1, 2"
    ).fetchall()


async def refusal(url: str, *, may_create: bool = True) -> StepwellError:
    store = PostgresStore(system_environment(), url, may_create=may_create)
    with pytest.raises(StepwellError) as refused:
        await store.open()
    await store.close()
    assert refused.value.where
    assert refused.value.why
    assert refused.value.fix
    return refused.value


# --- once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_of_racing_migrators_one_applies_and_all_succeed(
    postgres_url: str, admin: psycopg.Connection[Any], isolation: LiteralString, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = admin.info.dbname
    admin.execute(
        sql.SQL("alter database {} set default_transaction_isolation = {}").format(sql.Identifier(name), isolation)
    )
    applied: list[int] = []
    began = threading.Barrier(RACERS)
    real = migrator._inspect

    def slow(*arguments: Any) -> SchemaState:
        found = real(*arguments)
        if threading.get_ident() not in applied:  # all have found an empty database before the first one begins
            applied.append(threading.get_ident())
            began.wait(30)
        return found

    monkeypatch.setattr(migrator, "_inspect", slow)
    with ThreadPoolExecutor(RACERS) as pool:
        found = list(pool.map(ready, [postgres_url] * RACERS))

    assert len(applied) == RACERS
    assert {one.version for one in found} == {NEWEST}
    assert len({one.identity for one in found}) == 1
    assert all(one.has_functions for one in found)
    assert admin.execute("select count(*) from stepwell.meta where name = 'schema'").fetchone() == (1,)


def test_a_second_preparation_changes_nothing(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    first = ready(postgres_url)
    before = admin.execute("select xmin, name, value from stepwell.meta order by name").fetchall()

    assert ready(postgres_url) == first
    assert admin.execute("select xmin, name, value from stepwell.meta order by name").fetchall() == before


def test_an_existing_empty_schema_is_used(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("create schema stepwell")

    assert ready(postgres_url).version == NEWEST


@pytest.mark.parametrize("schema", ["flows", "Flows_2", "select", "x" * 50])
async def test_any_schema_may_hold_the_tables(postgres_url: str, schema: str) -> None:
    async with Engine(f"{postgres_url}?schema={schema}", workflows=[greet]) as engine:
        assert await (await engine.start(greet, "ann")).result() == "hello ann"


# --- completely or not at all ----------------------------------------------------------------------------


def test_a_migration_that_fails_leaves_nothing(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Migration(NEWEST + 1, "broken", "create table {t}.half (n int); select 1 / 0")
    monkeypatch.setattr(migrator, "MIGRATIONS", (*MIGRATIONS, broken))
    before = objects(admin)

    with pytest.raises(StoreError, match="division by zero") as refused:
        ready(postgres_url)

    assert refused.value.fix
    assert objects(admin) == before


def test_a_migration_that_fails_keeps_the_old_schema(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ready(postgres_url)
    before = objects(admin)
    fine = Migration(NEWEST + 1, "fine", "create table {t}.more (n int)")
    broken = Migration(NEWEST + 2, "broken", "create table {t}.half (n nonsense)")
    monkeypatch.setattr(migrator, "MIGRATIONS", (*MIGRATIONS, fine, broken))

    with pytest.raises(StoreError):
        ready(postgres_url)

    assert objects(admin) == before
    monkeypatch.setattr(migrator, "MIGRATIONS", MIGRATIONS)
    assert ready(postgres_url) == first
    monkeypatch.setattr(migrator, "MIGRATIONS", (*MIGRATIONS, fine))
    assert ready(postgres_url) == first._replace(version=NEWEST + 1)


# --- next to other releases --------------------------------------------------------------------------


async def test_the_functions_of_two_releases_work_side_by_side(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    # A visible difference: a reader of the other release finds no workers.
    old = "from {t}.workers\n$$;"
    assert texts.FUNCTIONS.count(old) == 1

    @contextmanager
    def another_release() -> Iterator[None]:
        with monkeypatch.context() as other:
            other.setattr(texts, "DIGEST", "0123456789")
            other.setattr(migrator, "FUNCTIONS", texts.FUNCTIONS.replace(old, "from {t}.workers where false\n$$;"))
            yield

    ours = await opened(postgres_url)
    with another_release():
        theirs = await opened(postgres_url)
    found = admin.execute("select nspname from pg_namespace where nspname ~ '^stepwell_[0-9a-f]{10}$'").fetchall()
    assert {name for (name,) in found} == {functions_schema("stepwell"), "stepwell_0123456789"}

    await ours.runs.create([new_run("r1")])
    with another_release():
        await theirs.runs.create([new_run("r2")])
        worker = await theirs.workers.register(NewWorker(Incarnation("w1"), "w", SECOND, ("flow@1",)))
    claimant = Claimant(worker.incarnation, 10, ("flow@1",))
    assert [claimed.run.run_id for claimed in await ours.runs.claim(claimant)] == ["r1", "r2"]
    assert len(await ours.views.list_workers()) == 1
    with another_release():
        assert [run.run_id for run in await theirs.views.list_runs(RunFilter(), limit=9)] == ["r2", "r1"]
        assert await theirs.views.list_workers() == []
    await ours.close()
    await theirs.close()


async def test_a_release_does_not_change_the_functions_of_another(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def bodies(schema: str) -> list[tuple[Any, ...]]:
        return admin.execute(
            "select p.oid, p.proname, md5(pg_get_functiondef(p.oid)) from pg_proc as p"
            " where p.pronamespace = %s::regnamespace order by p.oid",
            [schema],
        ).fetchall()

    ready(postgres_url)
    mine = functions_schema("stepwell")
    before = bodies(mine)
    assert before

    monkeypatch.setattr(texts, "DIGEST", "0123456789")
    ready(postgres_url)

    assert bodies(mine) == before
    assert len(bodies("stepwell_0123456789")) == len(before)


# --- absent, older, newer ---------------------------------------------------------------------------


async def test_reading_an_empty_database_creates_nothing(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    before = objects(admin)

    error = await refusal(postgres_url, may_create=False)

    assert isinstance(error, SchemaMissingError)
    assert "no stepwell tables" in error.title
    assert "stepwell migrate" in error.fix
    assert objects(admin) == before


async def test_reading_an_older_schema_migrates_nothing(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(postgres_url)
    before = objects(admin)
    monkeypatch.setattr(
        migrator, "MIGRATIONS", (*MIGRATIONS, Migration(NEWEST + 1, "more", "create table {t}.more (n int)"))
    )

    error = await refusal(postgres_url, may_create=False)

    assert isinstance(error, SchemaMissingError)
    assert f"has schema {NEWEST}, and this stepwell needs {NEWEST + 1}" in error.title
    assert objects(admin) == before


async def test_reading_a_database_of_another_release_installs_nothing(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(postgres_url)
    before = objects(admin)
    monkeypatch.setattr(texts, "DIGEST", "0123456789")

    error = await refusal(postgres_url, may_create=False)

    assert isinstance(error, SchemaMissingError)
    assert "functions of this release" in error.title
    assert objects(admin) == before


async def test_a_newer_schema_is_rejected_with_both_versions(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    ready(postgres_url)
    admin.execute("update stepwell.meta set value = 999 where name = 'schema'")
    before = objects(admin)

    for may_create in (True, False):
        error = await refusal(postgres_url, may_create=may_create)

        assert isinstance(error, SchemaMismatchError)
        assert "999" in error.title
        assert str(NEWEST) in error.title
    assert objects(admin) == before


# --- foreign schemas --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        "create table stepwell.cats (name text)",
        "create table stepwell.meta (cat text)",
        "create table stepwell.meta (name text, value text); insert into stepwell.meta values ('schema', 'cats')",
        "create table stepwell.meta (name text, value bigint)",
        "create view stepwell.meta as select 'schema' as name, 1::bigint as value",
        "create sequence stepwell.cats",
    ],
)
async def test_a_foreign_schema_is_rejected_and_not_changed(
    postgres_url: str, admin: psycopg.Connection[Any], made: LiteralString
) -> None:
    admin.execute("create schema stepwell")
    admin.execute(made)
    before = objects(admin)

    for may_create in (True, False):
        error = await refusal(postgres_url, may_create=may_create)

        assert isinstance(error, ForeignFileError)
        assert "'stepwell'" in error.title
        assert "?schema=" in error.fix
    assert objects(admin) == before


# --- rights -----------------------------------------------------------------------------------------


async def test_the_error_of_a_role_that_may_not_create_has_a_fix(
    role: str, postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    before = objects(admin)

    error = await refusal(role)

    assert isinstance(error, StoreNotWritableError)
    assert "no stepwell tables" in error.title
    assert "permission denied for database" in error.why
    assert "stepwell migrate" in error.fix
    assert objects(admin) == before


Grant = Callable[[psycopg.Connection[Any]], object]


def _usage(schema: str) -> Grant:
    statement = sql.SQL("grant usage on schema {} to weak").format(sql.Identifier(schema))
    return lambda connection: connection.execute(statement)


def _tables(rights: LiteralString) -> Grant:
    statement = sql.SQL("grant {} on all tables in schema stepwell to weak").format(sql.SQL(rights))
    return lambda connection: connection.execute(statement)


@pytest.mark.parametrize(
    ("grants", "words"),
    [
        ((), "permission denied for schema stepwell"),
        ((_usage("stepwell"),), "permission denied for table meta"),
        ((_usage("stepwell"), _tables("select")), "permission denied for schema stepwell_"),
    ],
)
@pytest.mark.parametrize("may_create", [True, False])
async def test_each_right_that_is_missing_is_named(
    role: str,
    postgres_url: str,
    admin: psycopg.Connection[Any],
    grants: tuple[Grant, ...],
    words: str,
    may_create: bool,
) -> None:
    ready(postgres_url)
    for grant in grants:
        grant(admin)
    before = objects(admin)

    error = await refusal(role, may_create=may_create)

    assert isinstance(error, StoreNotWritableError)
    assert words in error.why
    assert "docs/postgres.md" in error.fix
    assert objects(admin) == before


async def test_a_right_that_is_missing_later_is_named_when_it_is_needed(
    role: str, postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    ready(postgres_url)
    for grant in (_usage("stepwell"), _usage(functions_schema("stepwell")), _tables("select")):
        grant(admin)

    async with Engine(role, workflows=[greet], worker=False) as engine:
        assert await engine.runs.list() == []
        with pytest.raises(StoreNotWritableError) as refused:
            await engine.start(greet, "ann")

    assert "permission denied for table" in refused.value.why


async def test_the_error_of_a_role_that_may_not_install_functions_has_a_fix(
    role: str, postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(postgres_url)
    for grant in (_usage("stepwell"), _tables("select, insert, update, delete")):
        grant(admin)
    before = objects(admin)
    monkeypatch.setattr(texts, "DIGEST", "0123456789")

    error = await refusal(role)

    assert isinstance(error, StoreNotWritableError)
    assert "functions of this release" in error.title
    assert "stepwell migrate" in error.fix
    assert objects(admin) == before


async def test_the_error_of_a_role_that_may_not_migrate_has_a_fix(
    role: str, postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(postgres_url)
    for grant in (_usage("stepwell"), _usage(functions_schema("stepwell")), _tables("select, insert, update, delete")):
        grant(admin)
    before = objects(admin)
    monkeypatch.setattr(
        migrator, "MIGRATIONS", (*MIGRATIONS, Migration(NEWEST + 1, "more", "create table {t}.more (n int)"))
    )

    error = await refusal(role)

    assert isinstance(error, StoreNotWritableError)
    assert f"needs {NEWEST + 1}" in error.title
    assert "stepwell migrate" in error.fix
    assert objects(admin) == before


# --- the server -------------------------------------------------------------------------------------


async def test_an_old_server_is_rejected_and_not_changed(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = objects(admin)
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda _: 150_004))

    error = await refusal(postgres_url)

    assert isinstance(error, StoreAccessError)
    assert "PostgreSQL 15" in error.title
    assert "16 or newer" in error.why
    assert objects(admin) == before


def test_inspecting_changes_nothing(every_postgres_url: str) -> None:
    address = parse_address(every_postgres_url)
    with open_connection(address) as connection:
        before = objects(connection)

        assert inspect(connection, address.schema, address.where) == SchemaState(0, False, 0)
        assert objects(connection) == before
