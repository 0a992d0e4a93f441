"""Examinations: a healthy server is fine, and each defect is found, with a fix that works."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from stepwell.clock import SECOND, Instant, Span, SystemClock
from stepwell.conformance.scene import new_run
from stepwell.environment import Environment, SystemExecutor, system_environment
from stepwell.ids import Incarnation, SystemIds
from stepwell.model.workers import Claimant, NewWorker
from stepwell.stores.base.diagnosis import Finding, Verdict, worst
from stepwell.stores.postgres import diagnosis, texts
from stepwell.stores.postgres.diagnosis import PostgresDiagnosis
from stepwell.stores.postgres.migrator import prepare
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.urls import parse_address
from tests.servers.postgres import PostgresServer
from tests.servers.urls import as_user
from tests.unit.stores.postgres.conftest import Opened

EVERYTHING = [
    "connection",
    "server_version",
    "pooler",
    "connections",
    "notifications",
    "durability",
    "clock",
    "autovacuum",
    "schema",
    "rights",
    "seal",
    "audit",
    "workers",
    "stranded",
    "orphans",
    "backlog",
    "served",
    "dead_rows",
    "size",
    "blobs",
]


class AheadClock(SystemClock):
    """A machine whose clock is ten seconds ahead."""

    def now(self) -> Instant:
        return Instant(super().now() + 10 * SECOND)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of our own, because the tests change its settings."""
    with PostgresServer(settings={"max_connections": "25", "autovacuum_naptime": "1h"}) as server:
        yield server


@pytest.fixture
def changed(server: PostgresServer) -> Iterator[Callable[..., None]]:
    before = dict(server._settings)

    def change(**settings: str) -> None:
        server.configure(settings)

    yield change
    if server._settings != before:
        server._settings = before
        server.configure({})


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    url = server.create_database()
    address = parse_address(url)
    with open_connection(address) as connection:
        prepare(connection, address.schema, address.where)
    yield url
    server.drop_database(url)


def examine(url: str, environment: Environment | None = None) -> dict[str, Finding]:
    found = list(PostgresDiagnosis(environment or system_environment(), url).examine())
    for finding in found:
        assert finding.found
        assert (finding.verdict is Verdict.OK) == (not finding.why and not finding.fix)
    assert len({finding.check for finding in found}) == len(found)
    return {finding.check: finding for finding in found}


def execute(url: str, statement: LiteralString | sql.Composed, *parameters: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


# --- the server ---


def test_a_healthy_server_is_fine(url: str) -> None:
    found = examine(url)

    assert list(found) == EVERYTHING
    assert worst(found.values()) is Verdict.OK


def test_an_examination_changes_nothing(url: str) -> None:
    # Every row with its place and its transaction: the server's own write counters are updated late.
    def state() -> list[list[tuple[Any, ...]]]:
        tables = execute(url, "select schemaname, relname from pg_stat_user_tables order by 1, 2")
        rows = sql.SQL("select xmin::text, ctid::text, each::text from {} as each order by ctid")
        assert tables
        return [
            execute(url, "select nspname from pg_namespace order by 1"),
            tables,
            *(execute(url, rows.format(sql.Identifier(*table))) for table in tables),
        ]

    before = state()
    examine(url)

    assert state() == before


def test_a_missing_database_is_one_finding(server: PostgresServer) -> None:
    [finding] = PostgresDiagnosis(system_environment(), server.url("nowhere")).examine()

    assert (finding.check, finding.verdict) == ("connection", Verdict.FAIL)
    assert finding.found == f"SW614 the database {parse_address(server.url('nowhere')).where} does not exist"
    assert "createdb" in finding.fix


def test_a_server_that_is_too_old_fails(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda _: 150_004))

    assert examine(url)["server_version"].verdict is Verdict.FAIL


def test_a_slow_connection_is_a_warning(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_SLOW_MILLISECONDS", 0.0)

    assert examine(url)["connection"].verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("settings", "verdict", "words"),
    [
        ({"fsync": "off"}, Verdict.FAIL, "fsync is off"),
        ({"synchronous_commit": "off"}, Verdict.FAIL, "synchronous_commit is off"),
        ({"fsync": "off", "synchronous_commit": "off"}, Verdict.FAIL, "fsync is off and synchronous_commit is off"),
        ({"full_page_writes": "off"}, Verdict.WARN, "full_page_writes is off"),
        ({"synchronous_commit": "local"}, Verdict.OK, "on disk"),
    ],
)
def test_settings_that_lose_acknowledged_work_are_reported(
    url: str, changed: Callable[..., None], settings: dict[str, str], verdict: Verdict, words: str
) -> None:
    changed(**settings)

    found = examine(url)["durability"]

    assert (found.verdict, words in found.found) == (verdict, True)
    if verdict is not Verdict.OK:
        assert all(f"alter system set {name} = on" in found.fix for name in settings)


def test_a_setting_of_the_role_counts_too(url: str) -> None:
    execute(url, "alter role postgres set synchronous_commit = off")
    try:
        assert examine(url)["durability"].verdict is Verdict.FAIL
    finally:
        execute(url, "alter role postgres reset synchronous_commit")


def test_a_commit_that_does_not_wait_for_its_standby_is_a_warning(url: str, changed: Callable[..., None]) -> None:
    execute(url, "alter role postgres set synchronous_commit = local")
    changed(synchronous_standby_names="nobody")
    try:
        found = examine(url)["durability"]
    finally:
        changed(synchronous_standby_names="")
        execute(url, "alter role postgres reset synchronous_commit")

    assert (found.verdict, found.found) == (Verdict.WARN, "synchronous_commit is local")


def test_a_clock_that_differs_is_a_warning(url: str) -> None:
    clock = AheadClock()
    found = examine(url, Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor()))["clock"]

    assert found.verdict is Verdict.WARN
    milliseconds = int(found.found.split()[-2])
    assert 9_000 < milliseconds < 11_000


def test_few_connections_left_are_a_warning(url: str) -> None:
    with contextlib.ExitStack() as held:
        connections = [held.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(18)]
        # A connection that was closed before is counted until its process has ended.
        in_use = "select count(*) from pg_stat_activity where datid is not null and usesysid is not null"
        while connections[0].execute(in_use).fetchone() != (18,):
            connections[0].execute("select pg_sleep(0.01)")
        found = examine(url)["connections"]

    assert found.verdict is Verdict.WARN
    assert found.found.startswith("19 of 22 are in use")


@pytest.mark.parametrize("setting", ["autovacuum", "track_counts"])
def test_a_vacuum_that_is_off_is_a_warning(url: str, changed: Callable[..., None], setting: str) -> None:
    changed(**{setting: "off"})

    found = examine(url)["autovacuum"]

    assert (found.verdict, found.found) == (Verdict.WARN, f"{setting} is off")


def test_a_table_full_of_dead_rows_is_a_warning(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_DEAD_ROWS_MIN", 100)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into stepwell.names select n, n, 'x' from generate_series(1, 1000) as n")
        connection.execute("delete from stepwell.names where run > 10")
        connection.execute("select pg_stat_force_next_flush()")
    found = examine(url)["dead_rows"]

    assert found.verdict is Verdict.WARN
    assert "names (990 dead, 10 live)" in found.found
    execute(url, "vacuum stepwell.names")
    assert examine(url)["dead_rows"].verdict is Verdict.OK


# --- the tables ---


def test_an_empty_database_fails_with_the_fix(server: PostgresServer) -> None:
    url = server.create_database()
    found = examine(url)

    assert list(found) == EVERYTHING[: EVERYTHING.index("seal")]
    assert found["schema"].verdict is Verdict.FAIL
    assert "stepwell migrate" in found["schema"].fix
    assert found["rights"].found == "role postgres may create the schema"
    assert execute(url, "select count(*) from pg_namespace where nspname ~ '^stepwell'") == [(0,)]
    server.drop_database(url)


def test_functions_of_another_release_are_not_enough(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "DIGEST", "0123456789")

    found = examine(url)["schema"]

    assert found.verdict is Verdict.FAIL
    assert "functions of this release" in found.found


def test_functions_of_other_releases_are_counted(url: str) -> None:
    execute(url, "create schema stepwell_0123456789")

    assert "; functions of other releases: 1" in examine(url)["schema"].found


def test_a_newer_schema_fails(url: str) -> None:
    execute(url, "update stepwell.meta set value = 999 where name = 'schema'")

    assert examine(url)["schema"].found.startswith("SW611 ")


def test_a_foreign_schema_fails(server: PostgresServer) -> None:
    url = server.create_database()
    execute(url, "create schema stepwell")
    execute(url, "create table stepwell.meta (cat text)")

    assert examine(url)["schema"].found.startswith("SW612 ")
    server.drop_database(url)


@pytest.fixture
def weak(url: str) -> Iterator[str]:
    """The URL for a role without rights."""
    execute(url, 'create role "Weak one" login')
    yield as_user(url, "Weak one")
    execute(url, 'drop owned by "Weak one"')
    execute(url, 'drop role "Weak one"')


def test_rights_that_are_missing_are_listed_and_the_fix_is_all_that_it_takes(url: str, weak: str) -> None:
    found = examine(weak)["rights"]
    assert found.verdict is Verdict.FAIL
    assert "role Weak one lacks" in found.found
    assert "more" in found.found

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(found.fix)

    assert worst(examine(weak).values()) is Verdict.OK


def test_one_right_that_is_missing_is_named(url: str, weak: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(examine(weak)["rights"].fix)
        connection.execute('revoke insert on stepwell.signals from "Weak one"')
    found = examine(weak)["rights"]

    assert found.found == "role Weak one lacks insert on table stepwell.signals"
    assert found.fix == 'grant insert on table stepwell.signals to "Weak one"'


def test_a_role_that_may_not_create_schemas_fails(server: PostgresServer, weak: str) -> None:
    empty = server.create_database()
    found = examine(as_user(empty, "Weak one"))["rights"]

    assert found.verdict is Verdict.FAIL
    assert "may not create the schema" in found.found
    assert "grant create on database" in found.fix
    server.drop_database(empty)


def test_a_database_that_was_moved_fails_with_where_it_is_now(url: str) -> None:
    execute(url, "insert into stepwell.seals values (true, 't1', 'left', 'postgresql://db/new', 1)")
    found = examine(url)["seal"]

    assert found.verdict is Verdict.FAIL
    assert found.found == "SW630 this database has been moved to postgresql://db/new"


async def test_workers_are_counted_alive_and_dead(url: str, opened: Opened) -> None:
    store = await opened(url)
    assert examine(url)["workers"].found == "none alive, and no run needs one"

    await store.runs.create([new_run("r1")])
    assert examine(url)["workers"].verdict is Verdict.WARN

    await store.workers.register(NewWorker(Incarnation("w1"), "ann", SECOND, ("flow@1",)))
    execute(url, "update stepwell.workers set lease_until = 1700000000000000")
    await store.workers.register(NewWorker(Incarnation("w2"), "bob", 60 * SECOND, ("flow@1",)))  # type: ignore[arg-type]
    found = examine(url)["workers"]
    await store.close()

    words = "1 alive (bob), 1 with an expired lease (ann at 2023-11-14 22:13:20 UTC)"
    assert (found.verdict, found.found) == (Verdict.OK, words)


async def test_runs_of_workers_that_are_gone_are_stranded(url: str, opened: Opened) -> None:
    store = await opened(url)
    await store.runs.create([new_run(f"r{n}") for n in range(3)])
    worker = await store.workers.register(NewWorker(Incarnation("w1"), "ann", SECOND, ("flow@1",)))
    await store.runs.claim(Claimant(worker.incarnation, 2, ("flow@1",)))
    assert examine(url)["stranded"].verdict is Verdict.OK
    execute(url, "update stepwell.workers set lease_until = 0")

    found = examine(url)["stranded"]
    await store.close()

    assert (found.verdict, found.found) == (Verdict.WARN, "2 runs are owned by workers that are gone")


async def test_a_run_that_nothing_moves_is_an_orphan(url: str, opened: Opened) -> None:
    store = await opened(url)
    await store.runs.create([new_run("r1"), new_run("r2")])
    assert examine(url)["orphans"].verdict is Verdict.OK
    execute(url, "update stepwell.runs set wake_at = null where run_id = 'r2'")

    found = examine(url)["orphans"]
    await store.close()

    assert found.verdict is Verdict.FAIL
    assert found.found.endswith(": r2")


async def test_runs_that_are_due_for_long_are_a_backlog(
    url: str, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    store = await opened(url)
    await store.runs.create([new_run(f"r{n}") for n in range(5)])
    assert examine(url)["backlog"].found == "5 runs are due"
    execute(url, "update stepwell.runs set wake_at = wake_at - 600000000 where run_id = 'r2'")

    found = examine(url)["backlog"]
    monkeypatch.setattr(diagnosis, "_DUE_MAX", 3)
    counted = examine(url)["backlog"]
    await store.close()

    assert found.verdict is Verdict.WARN
    assert found.found.startswith("5 runs are due, the oldest for 60")
    assert counted.found.startswith("more than 3 runs are due")


async def test_due_runs_that_no_live_worker_serves_are_found(url: str, opened: Opened) -> None:
    store = await opened(url)
    await store.runs.create(
        [new_run("r1"), new_run("r2", version=7), new_run("r3", version=8, delay=Span(SECOND * 60))]
    )
    assert examine(url)["served"].found == "not checked: no worker is alive"
    await store.workers.register(NewWorker(Incarnation("w1"), "ann", Span(SECOND * 60), ("flow@1",)))
    found = examine(url)["served"]
    await store.workers.register(NewWorker(Incarnation("w2"), "bob", Span(SECOND * 60), ("flow@7",)))
    both = examine(url)["served"]
    await store.close()

    assert (found.verdict, found.found) == (
        Verdict.WARN,
        "no live worker serves these workflows, which have due runs: flow v7",
    )
    assert both.verdict is Verdict.OK


async def test_growth_is_reported(url: str, opened: Opened) -> None:
    store = await opened(url)
    ids = system_environment().ids
    await store.runs.create([new_run(ids.uuid()) for _ in range(3)] + [new_run("0-of-old")])
    await store.close()

    assert "; 3 of them in the last day" in examine(url)["size"].found


def test_an_error_within_a_check_is_a_finding_and_the_other_checks_run(url: str) -> None:
    execute(url, "drop table stepwell.workers cascade")

    found = examine(url)

    assert found["workers"].found.startswith("SW610 ")
    assert found["size"].verdict is Verdict.OK
