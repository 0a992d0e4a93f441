"""Failed connections: one clear error each, and never a password in it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import traceback
from collections.abc import Iterator

import psycopg
import pytest

from stepwell.clock import SystemClock
from stepwell.environment import Environment, SystemExecutor
from stepwell.errors import (
    InvalidOptionError,
    StepwellError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from stepwell.ids import SystemIds
from stepwell.stores.postgres.refusals import refused
from stepwell.stores.postgres.sessions import connect, connect_now, open_connection
from stepwell.stores.postgres.store import PostgresStore
from stepwell.stores.postgres.urls import parse_address
from tests.servers.postgres import PostgresServer, multi_host_url

SECRET = "5ecret-canary"


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that asks for passwords, and a role with a password."""
    with PostgresServer(durable=False) as server:
        server.execute("create role ann login password '5ecret-canary'")
        server.execute("create role idle nologin")
        server.execute("create database closed")
        server.execute("revoke connect on database closed from public")
        rules = server.data / "pg_hba.conf"
        rules.write_text(
            "host all banned 127.0.0.1/32 reject\n"
            "host all ann,bob 127.0.0.1/32 scram-sha-256\n"
            "host all all 127.0.0.1/32 trust\n"
        )
        server.configure({})
        yield server


@pytest.fixture(autouse=True)
def _no_personal_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own PGPASSWORD or PGHOST is not used."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGPASSFILE", os.devnull)


@pytest.fixture
def nobodys_port() -> Iterator[int]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nobody listens
        yield bound.getsockname()[1]


def whole_text(error: BaseException, log: pytest.LogCaptureFixture) -> str:
    """Everything that may be shown of an error."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error) + log.text


async def refusal(url: str, log: pytest.LogCaptureFixture) -> StepwellError:
    """The error of every way to connect, which is the same."""
    address = parse_address(url)
    errors: list[StepwellError] = []
    log.set_level(logging.DEBUG)
    with pytest.raises(StepwellError) as caught:
        await connect(address)
    errors.append(caught.value)
    with pytest.raises(StepwellError) as caught:
        await asyncio.get_running_loop().run_in_executor(None, connect_now, address)
    errors.append(caught.value)
    with pytest.raises(StepwellError) as caught:
        open_connection(address)
    errors.append(caught.value)
    clock = SystemClock()
    executor = SystemExecutor()
    store = PostgresStore(Environment(clock, SystemIds(clock), random.Random(1), executor), url)
    with pytest.raises(StepwellError) as caught:
        await store.open()
    errors.append(caught.value)
    await store.close()
    executor.close()
    assert len({type(error) for error in errors}) == 1
    assert len({error.title for error in errors}) == 1
    for error in errors:
        assert error.where
        assert error.why
        assert error.fix
        assert SECRET not in whole_text(error, log)
    return errors[0]


async def test_a_wrong_password_is_reported(guarded: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}-wrong@127.0.0.1:{guarded.port}/postgres", caplog)

    assert isinstance(error, StoreAccessError)
    assert "does not let this user in" in error.title
    assert "password authentication failed" in error.why
    assert "user and password" in error.fix


async def test_a_missing_password_is_reported(guarded: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    error = await refusal(f"postgresql://ann@127.0.0.1:{guarded.port}/postgres", caplog)

    assert isinstance(error, StoreAccessError)
    assert "no password supplied" in error.why


@pytest.mark.parametrize("user", ["nobody_here", "idle", "banned", "bob"])
async def test_a_rejected_user_is_reported(
    guarded: PostgresServer, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = await refusal(f"postgresql://{user}:{SECRET}@127.0.0.1:{guarded.port}/postgres", caplog)

    assert isinstance(error, StoreAccessError)
    assert "does not let this user in" in error.title
    assert user in error.why


async def test_a_missing_database_is_reported(guarded: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:{guarded.port}/nowhere", caplog)

    assert isinstance(error, StoreAccessError)
    assert error.title == f"the database postgresql://127.0.0.1:{guarded.port}/nowhere does not exist"
    assert "createdb" in error.fix
    assert guarded.execute("select count(*) from pg_database where datname = 'nowhere'") == [(0,)]


async def test_a_missing_right_to_connect_is_reported(
    guarded: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:{guarded.port}/closed", caplog)

    assert isinstance(error, StoreAccessError)
    assert "may not connect" in error.title
    assert "the right connect" in error.fix


async def test_a_server_without_encryption_is_reported(
    guarded: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:{guarded.port}/postgres?sslmode=require", caplog)

    assert isinstance(error, StoreAccessError)
    assert "cannot make an encrypted connection" in error.title
    assert "sslmode" in error.fix


async def test_an_unknown_host_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@nowhere.invalid/shop", caplog)

    assert isinstance(error, StoreUnavailableError)
    assert "unknown host" in error.title
    assert "nowhere.invalid" in error.title


async def test_a_port_without_a_server_is_reported(nobodys_port: int, caplog: pytest.LogCaptureFixture) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:{nobodys_port}/shop", caplog)

    assert isinstance(error, StoreUnavailableError)
    assert error.title == f"no server answers at postgresql://127.0.0.1:{nobodys_port}/shop"
    assert "port" in error.fix


async def test_a_missing_socket_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@/shop?host=/nowhere", caplog)

    assert isinstance(error, StoreUnavailableError)
    assert "no server answers" in error.title


async def test_a_port_of_another_program_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(StoreError) as caught:
        await connect(parse_address(f"postgresql://ann:{SECRET}@127.0.0.1:{port}/shop?sslmode=disable"))
    server.close()

    assert "did not answer" in caught.value.title
    assert SECRET not in whole_text(caught.value, caplog)


@pytest.mark.parametrize(
    "option",
    [
        "connect_timeout=soon",
        "sslmode=maybe",
        "keepalives=yes",
        "target_session_attrs=nice",
        "options=-c%20statement_timeout%3Dsoon",
        "client_encoding=klingon",
    ],
)
async def test_an_option_with_an_invalid_value_is_reported(
    guarded: PostgresServer, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:{guarded.port}/postgres?{option}", caplog)

    assert isinstance(error, InvalidOptionError)
    assert error.where == "url"
    assert option.partition("=")[0] in error.why or "statement_timeout" in error.why


async def test_an_invalid_port_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    error = await refusal(f"postgresql://ann:{SECRET}@127.0.0.1:99999/shop", caplog)

    assert isinstance(error, InvalidOptionError)


def test_a_server_without_free_connections_is_reported(guarded: PostgresServer) -> None:
    held = []
    address = parse_address(guarded.url())
    weak = parse_address(f"postgresql://ann:{SECRET}@127.0.0.1:{guarded.port}/postgres")
    with open_connection(address) as connection:
        connection.execute("alter role ann connection limit 2")
    try:
        held = [open_connection(weak) for _ in range(2)]
        with pytest.raises(StoreUnavailableError, match="has no connection left") as caught:
            open_connection(weak)
    finally:
        for one in held:
            one.close()
        with open_connection(address) as connection:
            connection.execute("alter role ann connection limit -1")

    assert "connections" in caught.value.fix


def test_nothing_is_kept_of_a_password_in_what_a_store_shows(guarded: PostgresServer) -> None:
    address = parse_address(f"postgresql://ann:{SECRET}@127.0.0.1:{guarded.port}/postgres")
    connection = connect_now(address)

    assert SECRET not in f"{address!r} {connection!r} {connection.driver!r} {vars(connection)!r}"
    connection.finish()


def test_of_several_hosts_the_server_that_accepts_writes_is_used() -> None:
    with PostgresServer() as primary:
        standby = primary.standby()
        try:
            url = multi_host_url(standby, primary).partition("?")[0]  # without naming the wanted server
            with open_connection(parse_address(url)) as connection:
                assert connection.execute("select pg_is_in_recovery()").fetchone() == (False,)
            with pytest.raises(StoreUnavailableError, match="accepts writes") as caught:
                open_connection(parse_address(f"{multi_host_url(standby, standby)}"))
            assert "primary" in caught.value.fix
        finally:
            standby.close()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('FATAL: no pg_hba.conf entry for host "::1", user "ann", database "shop", no encryption', StoreAccessError),
        ('root certificate file "/x/root.crt" does not exist', StoreAccessError),
        ("SSL error: certificate verify failed", StoreAccessError),
        ("FATAL: no such database: shop", StoreAccessError),
        ("FATAL: no more connections allowed (max_client_conn)", StoreUnavailableError),
        ("FATAL: unsupported startup parameter: options", InvalidOptionError),
        ("FATAL: the database system is starting up", StoreUnavailableError),
        ("connection timeout expired", StoreUnavailableError),
    ],
)
def test_the_words_of_servers_and_poolers_are_understood(words: str, kind: type[StepwellError]) -> None:
    error = refused(psycopg.OperationalError(f"connection failed: {words}"), "postgresql://db:5432/shop")

    assert type(error) is kind
    assert words in f"{error.title} {error.why}"


@pytest.mark.parametrize("host", ["h:2,g%d4", "%ff"])
def test_an_address_that_cannot_be_decoded_is_rejected(host: str) -> None:
    with pytest.raises(InvalidOptionError):
        parse_address(f"postgresql://{host}/shop")
