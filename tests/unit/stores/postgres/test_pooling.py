"""Through a transaction pooler everything works except LISTEN, and `stepwell doctor` reports that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from stepwell import Context, Engine, Transaction, step, workflow
from stepwell.environment import system_environment
from stepwell.errors import InvalidOptionError
from stepwell.stores.base.diagnosis import Finding, Verdict
from stepwell.stores.postgres import diagnosis
from stepwell.stores.postgres.diagnosis import PostgresDiagnosis
from stepwell.stores.postgres.sessions import connect_now
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from tests.servers.databases import DatabaseServer
from tests.servers.pooler import POOLERS, PgBouncer, Pooler


@pytest.fixture(params=POOLERS)
def pooler(request: pytest.FixtureRequest, postgres: DatabaseServer) -> Iterator[Pooler | PgBouncer]:
    with POOLERS[request.param](postgres.url()) as pooler:
        yield pooler


@pytest.fixture
def url(pooler: Pooler | PgBouncer, postgres_url: str) -> str:
    return pooler.url(postgres_url)


@step
async def add(number: int) -> int:
    return number + 1


@step(transaction=True)
def book(tx: Transaction, number: int) -> int:
    tx.execute("insert into booked (number) values (?)", (number,))
    return number


@workflow
async def count(ctx: Context, number: int) -> int:
    for _ in range(10):
        number = await ctx.step(add, number)
    approval = await ctx.receive("go")
    await ctx.sleep("a moment", "10ms")
    return number + approval.payload


@workflow
async def ledger(ctx: Context, number: int) -> int:
    for n in range(number):
        await ctx.step(book, n)
    return number


# --- the stand-in behaves like a pooler ---


def test_a_client_has_another_session_for_each_transaction(pooler: Pooler | PgBouncer, url: str) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        told = connection.pgconn.backend_pid
        seen = [connection.execute("select pg_backend_pid()").fetchall()[0][0] for _ in range(6)]
        with connection.transaction():
            within = {connection.execute("select pg_backend_pid()").fetchall()[0][0] for _ in range(6)}

    assert told not in seen
    assert len(within) == 1
    if isinstance(pooler, Pooler):
        assert len(set(seen)) == 3


def test_what_is_left_in_a_session_is_not_there_in_the_next(postgres_url: str, postgres: DatabaseServer) -> None:
    with Pooler(postgres.url()) as pooler, psycopg.connect(pooler.url(postgres_url), autocommit=True) as connection:
        connection.pgconn.prepare(b"kept", b"select 1")
        result = connection.pgconn.exec_prepared(b"kept", [])
        connection.execute("set lock_timeout = '7s'", prepare=False)

        assert b'prepared statement "kept" does not exist' in result.error_message
        assert connection.execute("show lock_timeout", prepare=False).fetchone() == ("0",)


def test_a_session_with_an_open_transaction_is_not_reused(postgres_url: str, postgres: DatabaseServer) -> None:
    with Pooler(postgres.url(), sessions=1) as pooler:
        url = pooler.url(postgres_url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create table public.half (n int)")
        left = psycopg.connect(url)
        left.execute("insert into public.half values (1)")
        left.close()
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("select count(*) from public.half").fetchone() == (0,)
            assert pooler.sessions == 1


def test_several_statements_in_flight_are_answered_in_order(postgres_url: str, postgres: DatabaseServer) -> None:
    with Pooler(postgres.url()) as pooler, psycopg.connect(pooler.url(postgres_url), autocommit=True) as connection:
        connection.prepare_threshold = None
        with connection.pipeline():
            cursors = [connection.execute("select %s::int", (n,)) for n in range(20)]

        assert [cursor.fetchone() for cursor in cursors] == [(n,) for n in range(20)]


def test_an_unsupported_startup_parameter_is_reported(pooler: Pooler | PgBouncer, url: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        connect_now(parse_address(f"{url}?options=-c%20geqo%3Doff"))

    assert "unsupported startup parameter" in refused.value.why


# --- the store through it ---


async def test_runs_are_started_claimed_committed_and_signalled(url: str) -> None:
    async with Engine(url, workflows=[count]) as engine:
        runs = [await engine.start(count, n, key=f"run-{n}") for n in range(20)]
        await asyncio.gather(*(engine.signal(f"run-{n}", "go", 100) for n in range(20)))

        assert await asyncio.gather(*(run.result() for run in runs)) == [n + 110 for n in range(20)]


async def test_another_process_finds_the_work_by_polling(url: str) -> None:
    async with Engine(url, workflows=[count], worker=False) as client:
        run = await client.start(count, 1, key="one")
        async with Engine(url, workflows=[count]):
            await client.signal("one", "go", 1)

            assert await run.result(timeout="60s") == 12


async def test_steps_in_a_transaction_are_not_prepared(url: str, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table public.booked (number int)")
        async with Engine(url, workflows=[ledger]) as engine:
            # The driver would prepare a statement after five uses.
            assert await (await engine.start(ledger, 30)).result() == 30

        assert connection.execute("select count(*) from public.booked").fetchone() == (30,)


def test_shared_sessions_are_not_configured(url: str) -> None:
    connection = connect_now(parse_address(url))
    try:
        assert not connection.prepares
        with psycopg.connect(url, autocommit=True) as other:
            settings = {other.execute("show lock_timeout", prepare=False).fetchone() for _ in range(9)}
        assert settings == {("0",)}
    finally:
        connection.finish()


async def test_an_isolation_that_cannot_be_set_is_rejected(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="is not possible through the pooler") as refused:
        async with Engine(f"{url}?isolation=serializable"):
            pass

    assert "alter role" in refused.value.fix


async def test_an_isolation_that_is_the_servers_own_is_fine(url: str, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        statement = sql.SQL("alter database {} set default_transaction_isolation = serializable")
        connection.execute(statement.format(sql.Identifier(connection.info.dbname)))

    async with Engine(f"{url}?isolation=serializable", workflows=[count]) as engine:
        run = await engine.start(count, 1, key="one")
        await engine.signal("one", "go", 1)
        assert await run.result() == 12


# --- wake-ups ---


async def _listening(url: str, is_true: Callable[[PostgresStore], bool]) -> PostgresStore:
    store = PostgresStore(system_environment(), url)
    await store.open()
    store.wakeups.listen(lambda _: None)
    async with asyncio.timeout(60):
        while not is_true(store):  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
    await store.close()
    return store


@pytest.mark.parametrize("isolation", ["", "&isolation=read-committed"])
async def test_a_direct_connection_is_used_to_listen(url: str, postgres_url: str, isolation: str) -> None:
    store = await _listening(
        f"{url}?listen={quote(postgres_url, safe='')}{isolation}", lambda store: store.wakeups.is_listening
    )

    assert store.wakeups.losses == 0


async def test_a_missing_direct_connection_is_logged_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    await _listening(url, lambda _: "behind a pooler" in caplog.text)

    assert caplog.text.count("listen=...") == 1


async def test_a_wrong_listen_url_only_costs_time(
    url: str, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    direct = quote(f"{postgres_url}?target_session_attrs=nice", safe="")
    await _listening(f"{url}?listen={direct}", lambda store: store.wakeups.losses > 0)

    assert "not listening" in caplog.text
    async with Engine(f"{url}?listen={direct}", workflows=[count]) as engine:
        run = await engine.start(count, 1, key="one")
        await engine.signal("one", "go", 1)
        assert await run.result() == 12


# --- the doctor ---


def findings(url: str) -> dict[str, Finding]:
    return {finding.check: finding for finding in PostgresDiagnosis(system_environment(), url).examine()}


def test_the_doctor_reports_a_pooler_and_its_cost(url: str) -> None:
    found = findings(url)

    assert "a pooler is in front of the server" in found["pooler"].found
    assert found["notifications"].verdict == "warn"
    assert "LISTEN and NOTIFY do not work" in found["notifications"].found
    assert "listen=" in found["notifications"].fix


@pytest.fixture
def patient_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A doctor that waits long enough for a notification, even on a slow machine."""
    monkeypatch.setattr(diagnosis, "_HEARD_WITHIN_SECONDS", 60.0)


@pytest.mark.usefixtures("patient_doctor")
def test_the_doctor_reports_a_direct_connection_to_listen(url: str, postgres_url: str) -> None:
    found = findings(f"{url}?listen={quote(postgres_url, safe='')}")

    assert "a pooler is in front of the server" in found["pooler"].found
    assert found["notifications"] == Finding("notifications", Verdict.OK, "LISTEN and NOTIFY work (over listen=)")


def test_the_doctor_reports_a_listen_url_of_another_database(url: str, postgres: DatabaseServer) -> None:
    found = findings(f"{url}?listen={quote(postgres.url(), safe='')}")

    assert found["notifications"].verdict == "warn"
    assert "listen= name the same database" in found["notifications"].fix


@pytest.mark.usefixtures("patient_doctor")
def test_without_a_pooler_none_is_reported(postgres_url: str) -> None:
    found = findings(postgres_url)

    assert found["pooler"] == Finding("pooler", Verdict.OK, "none: this is the server itself")
    assert found["notifications"] == Finding("notifications", Verdict.OK, "LISTEN and NOTIFY work")
