"""What the command line says of a PostgreSQL that cannot be used: words, a code and an exit code, never a traceback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from stepwell.cli.settings import Settings
from stepwell.stores.postgres import texts
from stepwell.stores.postgres.migrator import prepare
from stepwell.stores.postgres.sessions import open_connection
from stepwell.stores.postgres.urls import parse_address
from tests.edges.conftest import APP, Cli
from tests.servers.postgres import PostgresServer
from tests.servers.urls import as_user

SECRET = "5ecret-canary"
LOOKING: tuple[list[str], ...] = (["ls"], ["show", "x"], ["cancel", "x", "--reason", "r"], ["signal", "x", "go"])


@pytest.fixture(autouse=True)
def _no_personal_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server of our own: roles are made in it, and it lets everybody in."""
    with PostgresServer(durable=False) as server:
        yield server


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def with_password(url: str) -> str:
    """The same URL with a password, which the server does not ask for."""
    return as_user(url, password=SECRET)


def schemas(connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select n.nspname, count(c.oid) from pg_namespace as n left join pg_class as c on c.relnamespace = n.oid"
        " where n.nspname ~ '^stepwell' group by 1 order by 1"
    ).fetchall()


def ready(url: str) -> None:
    address = parse_address(url)
    with open_connection(address) as connection:
        prepare(connection, address.schema, address.where)


def check(cli: Cli, url: str, code: str, exit_code: int, *words: str) -> dict[str, Any]:
    """The error that `stepwell ls` prints for a URL, which is the same in words and in JSON."""
    command = words or ("ls",)
    said = cli(*command, "--db", url, "-o", "json")
    plain = cli(*command, "--db", url)

    assert (said.code, said.error["code"]) == (exit_code, code)
    assert set(said.error) == {"code", "message", "where", "why", "fix"}
    assert all(said.error[field] for field in ("message", "where", "why", "fix"))
    assert plain.code == exit_code
    assert plain.err.startswith(f"{code}  {said.error['message']}\n  where   ")
    for one in (said, plain):
        assert "Traceback" not in one.err
        assert "psycopg" not in one.err
        assert SECRET not in one.err + one.out
        assert one.out == ""
    return said.error


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@db/shop?shema=x",
        f"postgresql://ann:{SECRET}@[::1/shop",
        f"postgresql://ann:{SECRET}%zz@db/shop",
        f"postgresql://ann:{SECRET}@db:port/shop",
        f"postgresql://ann:x@{SECRET}@db/shop",
        f"postgresql://ann:x/{SECRET}@db/shop",
        f"postgresql://ann:x#{SECRET}@db/shop",
        f"postgresql://ann:{SECRET}@127.0.0.1:1/shop?connect_timeout=soon",
    ],
)
def test_a_url_that_cannot_be_read_is_wrong_usage(cli: Cli, url: str) -> None:
    check(cli, url, "SW103", 2)


@pytest.mark.parametrize(
    "url", [f"postgress://ann:{SECRET}@db/shop", f"host=db password={SECRET}", f"ann:{SECRET}@db/shop"]
)
def test_a_url_of_no_known_store_does_not_show_its_password(cli: Cli, url: str) -> None:
    said = cli("ls", "--db", url)

    assert said.code == 2
    assert said.err.startswith("SW103  ")
    assert SECRET not in said.err
    assert "postgresql://" in said.err


def test_a_host_that_is_not_there(cli: Cli) -> None:
    error = check(cli, f"postgresql://ann:{SECRET}@nowhere.invalid/shop", "SW601", 6)

    assert error["where"] == "postgresql://nowhere.invalid:5432/shop"


def test_a_port_where_nobody_answers(cli: Cli) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        check(cli, f"postgresql://ann:{SECRET}@127.0.0.1:{bound.getsockname()[1]}/shop", "SW601", 6)


def test_a_database_that_is_not_there(cli: Cli, postgres: PostgresServer) -> None:
    error = check(cli, with_password(postgres.url("nowhere")), "SW614", 6)

    assert "createdb" in error["fix"]


def test_a_user_that_is_not_there(cli: Cli, postgres_url: str) -> None:
    url = as_user(postgres_url, "nobody_here", SECRET)

    check(cli, url, "SW614", 6)


@pytest.mark.parametrize("words", LOOKING)
def test_looking_at_a_database_without_tables_makes_none(
    cli: Cli, postgres_url: str, admin: psycopg.Connection[Any], words: list[str]
) -> None:
    error = check(cli, with_password(postgres_url), "SW610", 6, *words)

    assert "stepwell migrate" in error["fix"]
    assert schemas(admin) == []


def test_a_first_start_with_a_module_makes_the_tables(
    cli: Cli, postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    said = cli("start", "checkout", "customer=ann", "amount:=1", "--app", APP, "--db", postgres_url, "-o", "ids")

    assert said.code == 0
    assert len(schemas(admin)) == 2
    assert cli("ls", "--db", postgres_url, "-o", "ids").out == said.out


def test_a_newer_schema_is_refused_with_both_versions(
    cli: Cli, postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    ready(postgres_url)
    admin.execute("update stepwell.meta set value = 999 where name = 'schema'")

    error = check(cli, with_password(postgres_url), "SW611", 6)

    assert "999" in error["message"]


def test_functions_of_another_release_are_not_enough(
    cli: Cli, postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(postgres_url)
    before = schemas(admin)
    monkeypatch.setattr(texts, "DIGEST", "0123456789")

    check(cli, with_password(postgres_url), "SW610", 6)

    assert schemas(admin) == before


def test_a_schema_of_somebody_else_is_refused_and_left_alone(
    cli: Cli, postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("create schema stepwell; create table stepwell.meta (cat text)")
    before = schemas(admin)

    error = check(cli, with_password(postgres_url), "SW612", 6)
    check(cli, postgres_url, "SW612", 6, "start", "checkout", "customer=ann", "amount:=1", "--app", APP)

    assert error["where"] == "schema stepwell"
    assert schemas(admin) == before


def test_rights_that_are_missing_are_named(cli: Cli, postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    ready(postgres_url)
    name = f"weak_{os.getpid()}"
    admin.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
    url = as_user(postgres_url, name, SECRET)
    try:
        error = check(cli, url, "SW613", 6)
    finally:
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))

    assert "permission denied for schema stepwell" in error["why"]
    assert "docs/postgres.md" in error["fix"]


def test_a_server_that_is_too_old(cli: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda _: 150_004))

    error = check(cli, with_password(postgres_url), "SW614", 6)

    assert "16" in error["why"]


@pytest.mark.parametrize(
    "broken",
    [
        "sys.modules['psycopg'] = None",
        # As psycopg without its binary part says it, where there is no libpq either.
        "sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod(lambda name, *_: _no(name))}))",
    ],
)
def test_a_driver_that_is_not_installed(broken: str) -> None:
    code = (
        "import sys\n"
        "def _no(name):\n"
        "    if name == 'psycopg.pq': raise ImportError('no pq wrapper available.\\nAttempts made: ...')\n"
        f"{broken}\n"
        "from stepwell.cli.main import main\n"
        f"sys.exit(main(['ls', '--db', 'postgresql://ann:{SECRET}@127.0.0.1/shop', '-o', 'json']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "SW103"
    assert 'pip install "stepwell[postgres]"' in error["fix"]
    assert SECRET not in done.stderr


def test_the_traceback_that_was_asked_for_has_no_password(cli: Cli, postgres: PostgresServer) -> None:
    said = cli("ls", "--db", with_password(postgres.url("nowhere")), "--debug")

    assert "Traceback" in said.err
    assert SECRET not in said.err


def test_the_settings_show_no_password() -> None:
    assert SECRET not in repr(Settings(db=f"postgresql://ann:{SECRET}@db/shop"))


def test_a_worker_says_where_it_works_without_the_password(postgres_url: str) -> None:
    words = [
        sys.executable,
        "-m",
        "stepwell.cli.main",
        "worker",
        APP,
        "--db",
        with_password(postgres_url),
        "-o",
        "json",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        body = json.loads(worker.stdout.readline())
        worker.terminate()
        out, err = worker.communicate(timeout=60)

    assert body["db"] == f"postgresql://{postgres_url.rpartition('@')[2]}"
    assert SECRET not in out + err
