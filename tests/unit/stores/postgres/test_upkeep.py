"""Upkeep of a PostgreSQL schema: what it takes, what a vacuum does, and functions that no release uses any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from stepwell.clock import SECOND, Span
from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.errors import SchemaMissingError
from stepwell.ids import Incarnation
from stepwell.model.workers import NewWorker
from stepwell.stores.postgres import texts
from stepwell.stores.postgres.migrator import drop_unused, migrate, prepare
from stepwell.stores.postgres.texts import functions_schema
from stepwell.stores.postgres.upkeep import PostgresUpkeep
from tests.unit.stores.postgres.conftest import Opened

OLD = "stepwell_0123456789"


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@contextmanager
def old_release(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What this process does meanwhile, an older release does."""
    with monkeypatch.context() as other:
        other.setattr(texts, "DIGEST", OLD.removeprefix("stepwell_"))
        yield


def releases(admin: psycopg.Connection[Any]) -> set[str]:
    found = admin.execute("select nspname from pg_namespace where nspname ~ '^stepwell_'").fetchall()
    return {name for (name,) in found}


def upkeep(url: str) -> PostgresUpkeep:
    return PostgresUpkeep(system_environment(), url)


async def test_functions_of_an_old_release_stay_until_its_sessions_and_workers_are_gone(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    with old_release(monkeypatch):
        theirs = await opened(postgres_url)
        await theirs.workers.register(NewWorker(Incarnation("w1"), "w", Span(3_600 * SECOND), ("flow@1",)))
    assert migrate(postgres_url, is_plan=False).dropped == ()  # a session and a worker use them

    await theirs.close()
    assert upkeep(postgres_url).tidy() == ()  # the worker has lost its connection, and its lease is live
    assert releases(admin) == {OLD, functions_schema("stepwell")}

    admin.execute("update stepwell.workers set lease_until = 0")
    assert migrate(postgres_url, is_plan=True).dropped == ()
    done = migrate(postgres_url, is_plan=False)
    assert (done.dropped, done.is_change) == ((OLD,), True)
    assert releases(admin) == {functions_schema("stepwell")}
    assert migrate(postgres_url, is_plan=False).is_change is False


async def test_a_session_alone_keeps_the_functions_of_its_release(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    with old_release(monkeypatch):
        theirs = await opened(postgres_url)
    assert migrate(postgres_url, is_plan=False).dropped == ()

    with old_release(monkeypatch):
        await theirs.runs.create([new_run("r1")])
    await theirs.close()

    assert upkeep(postgres_url).tidy() == (OLD,)


def test_an_old_release_leaves_the_functions_of_one_whose_workers_are_about_to_start(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with old_release(monkeypatch):
        migrate(postgres_url, is_plan=False)
    assert migrate(postgres_url, is_plan=False).dropped == (OLD,)
    with old_release(monkeypatch), psycopg.connect(postgres_url, autocommit=True) as connection:
        prepare(connection, "stepwell", "there")  # installed again: it is the newest now

    assert upkeep(postgres_url).tidy() == ()
    assert releases(admin) == {OLD, functions_schema("stepwell")}


def test_a_schema_that_only_looks_alike_stays(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    migrate(postgres_url, is_plan=False)
    admin.execute(
        "create schema stepwell_aaaaaaaaaa; create schema stepwell_bbbbbbbbbb; create schema stepwellx0123456789"
    )
    admin.execute("create function stepwell_aaaaaaaaaa.mine() returns int language sql as 'select 1'")
    admin.execute("create table stepwell_bbbbbbbbbb.mine (n int)")
    admin.execute("create function stepwell_bbbbbbbbbb.begin_at() returns int language sql as 'select 1'")

    assert upkeep(postgres_url).tidy() == ()
    assert releases(admin) >= {"stepwell_aaaaaaaaaa", "stepwell_bbbbbbbbbb"}


def test_a_role_that_does_not_own_the_functions_leaves_them(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with old_release(monkeypatch):
        migrate(postgres_url, is_plan=False)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        prepare(connection, "stepwell", "there")  # without what `migrate` drops afterwards
    owner = "somebody_else"
    admin.execute(f"create role {owner}")
    admin.execute(f"alter schema {OLD} owner to {owner}")
    admin.execute("create role modest login")
    try:
        admin.execute(f"grant usage on schema stepwell, {functions_schema('stepwell')} to modest")
        admin.execute("grant select on all tables in schema stepwell to modest")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("set role modest")
            assert drop_unused(connection, "stepwell", "there") == ()
        assert OLD in releases(admin)
        assert upkeep(postgres_url).tidy() == (OLD,)  # the administrator may
    finally:
        admin.execute("drop owned by modest; drop role modest")
        admin.execute(f"drop schema if exists {OLD} cascade; drop role {owner}")


async def test_tables_and_workflows_are_measured_and_vacuumed(
    postgres_url: str, admin: psycopg.Connection[Any], opened: Opened
) -> None:
    store = await opened(postgres_url)
    await store.runs.create([new_run(f"r{n}") for n in range(20)])
    admin.execute("analyze stepwell.runs")

    space = upkeep(postgres_url).measure()

    assert {one.name for one in space.tables} >= {"runs", "payloads", "entries", "records"}
    runs = next(one for one in space.tables if one.name == "runs")
    assert runs.bytes > 0
    assert runs.index_bytes > 0
    assert space.total == sum(one.bytes + one.index_bytes for one in space.tables)
    [count] = space.workflows
    [weighed] = space.weighed
    assert (count.workflow, count.runs, weighed.workflow, weighed.runs) == ("flow", 20, "flow", 20)
    assert weighed.bytes > 20 * 400
    assert space.note.startswith("autovacuum ")

    admin.execute("insert into stepwell.names select n, 1, 'name' from generate_series(1, 20000) as n")
    admin.execute("delete from stepwell.names")
    done = upkeep(postgres_url).vacuum()
    assert done.after < done.before
    assert upkeep(postgres_url).measure().note.count("autovacuum") == 1


def test_an_empty_database_is_named(postgres_url: str) -> None:
    with pytest.raises(SchemaMissingError):
        upkeep(postgres_url).measure()
    with pytest.raises(SchemaMissingError):
        upkeep(postgres_url).vacuum()
