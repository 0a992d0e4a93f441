"""`stepwell doctor`: a line for each check, a fix for what is not fine, and an exit code for scripts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

from stepwell import Context, Engine, Fatal, workflow
from stepwell.addresses import open_store
from stepwell.clock import SECOND, Span
from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from stepwell.ids import Incarnation
from stepwell.model.ledger import NewAct
from stepwell.model.workers import Claimant, NewWorker
from stepwell.sinks.base import EmittedEvent
from stepwell.sinks.handlers import handler
from tests.edges.conftest import APP, Cli, Shop
from tests.servers.postgres import PostgresServer
from tests.servers.urls import as_user

SECRET = "5ecret-canary"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server of our own: roles are made in it, and it lets everybody in."""
    with PostgresServer(durable=False) as server:
        yield server


def test_a_file_is_examined_in_lines(cli: Cli, db: Shop) -> None:
    said = cli("doctor", "--db", db.url)

    assert said.code == 0
    lines = said.out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("✓")] == [
        "file",
        "mode",
        "disk",
        "schema",
        "durability",
        "library",
        "integrity",
        "seal",
        "audit",
        "stranded",
        "orphans",
        "backlog",
        "served",
        "clock",
        "size",
        "paused",
        "workflows",
        "pending",
        "dead",
        "alerts",
        "retention",
        "triggers",
        "schedules",
        "services",
    ]
    warned = [line[2:18].strip() for line in lines if line.startswith("⚠")]
    assert warned == ["workers", "rollbacks", "failed", "changed code"]
    assert any(line.split()[:2] == ["fix", "stepwell"] for line in lines)
    assert lines[-1] == "4 warnings in 28 checks."


def test_what_needs_a_person_has_a_count_an_example_and_a_command(cli: Cli, db: Shop) -> None:
    cli("workflow", "pause", "approval", "--reason", "the bank is down", "--by", "ann", "--db", db.url)
    cli("pause", "approval-1", "--reason", "a look", "--by", "bea", "--db", db.url)
    cli("start", "checkout", "customer=bo", "amount:=1", "--key", "new-1", "--app", APP, "--db", db.url)
    found = {one["check"]: one for one in cli("doctor", "--db", db.url, "-o", "json").json["findings"]}

    def told(check: str) -> tuple[str, str]:
        return found[check]["found"], found[check]["fix"]

    assert told("rollbacks") == (
        "1 rollback is incomplete, such as stuck-1 (stuck): undo of reserve: Fatal: the stock API is down; "
        "the run failed first: Fatal: card \x1b[31mdeclined\x1b[0m",
        "stepwell rollback resume stuck-1",
    )
    assert told("failed")[0].startswith("1 failed run is unresolved, such as declined-1 (declined): charge: Fatal")
    assert told("failed")[1] == "stepwell retry declined-1"
    assert told("paused")[0].startswith(
        "1 run is paused by people, such as approval-1 (approval): paused by bea: a look"
    )
    assert told("paused")[1] == "stepwell resume approval-1"
    assert told("changed code")[0].startswith("1 run is paused by changed code, such as confused-1 (confused): reserve")
    assert told("changed code")[1] == "stepwell why confused-1"
    assert told("workflows") == (
        "1 workflow is paused, such as approval by ann: the bank is down",
        "stepwell workflow resume approval",
    )
    assert told("pending") == (
        "1 pending run has no live worker, such as new-1 (checkout v1)",
        "stepwell worker MODULE",
    )


def test_a_failed_run_whose_key_a_later_run_has_is_resolved(cli: Cli, db: Shop) -> None:
    words = ["start", "declined", "customer=ann", "amount:=1", "--key", "declined-1", "--dedup", "0s"]
    cli(*words, "--app", APP, "--db", db.url)
    found = {one["check"]: one for one in cli("doctor", "--db", db.url, "-o", "json").json["findings"]}

    assert (found["failed"]["verdict"], found["failed"]["found"]) == ("ok", "no failed run is unresolved")


def test_a_dead_letter_is_found_listed_sent_again_and_dropped(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/letters.db"
    asyncio.run(_write_letters(url))
    finding = next(
        one for one in cli("doctor", "--db", url, "-o", "json").json["findings"] if "letters" in one["check"]
    )
    listed = cli("outbox", "ls", "--dead", "--db", url, "-o", "json").json["events"]
    event = listed[0]["event_id"]

    assert finding["found"] == "1 event could not be sent, such as 'Shipped' of run order-1 to shop: Fatal: 503"
    assert finding["fix"] == f"stepwell outbox replay {event}"
    assert [(one["name"], one["sink"], one["failure"]) for one in listed] == [("Shipped", "shop", "Fatal: 503")]
    assert "dead letter" in cli("outbox", "ls", "--db", url).out
    assert cli("outbox", "replay", event, "--db", url).out == f"Sending again: event {event}, for 1 sink\n"
    assert cli("outbox", "ls", "--dead", "--db", url).err == "No dead letters.\n"
    assert cli("outbox", "drop", event, "--db", url).out == f"Dropped: event {event}, for 1 sink\n"
    assert cli("outbox", "drop", event, "--db", url).code == 4
    assert cli("outbox", "ls", "--db", url).err == "Every event has reached its sink.\n"


async def _write_letters(url: str) -> None:
    """A run whose event its sink rejects for good."""

    async def reject(event: EmittedEvent) -> None:
        raise Fatal("503")

    @workflow
    async def order(ctx: Context) -> None:
        await ctx.emit("Shipped", {"parcels": 1})

    async with Engine(url, workflows=[order], sinks=[handler(reject, name="shop")]) as engine:
        await (await engine.start(order, key="order-1")).result()
        while not await engine.outbox.list_dead():  # noqa: ASYNC110  the relay is another task
            await asyncio.sleep(0.01)


def test_a_warning_is_a_problem_only_if_that_is_asked_for(cli: Cli, db: Shop) -> None:
    assert cli("doctor", "--db", db.url).code == 0
    assert cli("doctor", "--db", db.url, "--strict").code == 9


def test_programs_get_the_same(cli: Cli, db: Shop) -> None:
    body = cli("doctor", "--db", db.url, "-o", "json").json

    assert (body["schema"], body["db"], body["verdict"]) == ("stepwell.finding-list/1", db.url, "warn")
    names = {"check", "verdict", "found", "why", "fix", "remedy", "advice", "filter", "runs", "examples"}
    assert [set(finding) for finding in body["findings"]] == [names] * 28
    lines = cli("doctor", "--db", db.url, "-o", "jsonl").out.splitlines()
    assert len(lines) == 28


def test_a_terminal_without_symbols_gets_none(cli: Cli, db: Shop) -> None:
    assert cli("doctor", "--db", db.url, "--ascii").out.isascii()


def test_a_file_that_is_not_there_is_a_failure_and_is_not_made(cli: Cli, tmp_path: Path) -> None:
    said = cli("doctor", "--db", f"sqlite:///{tmp_path}/typo.db")

    assert said.code == 9
    assert said.out.startswith("✕ file")
    assert said.out.splitlines()[-1] == "1 failure in 1 checks."
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_life_is_wrong_usage(cli: Cli) -> None:
    for command in ("doctor", "migrate"):
        said = cli(command, "--db", "memory:")

        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("SW103  'memory:' has nothing to read")


def test_a_server_is_examined_and_its_password_is_not_shown(cli: Cli, postgres_url: str) -> None:
    url = as_user(postgres_url, password=SECRET)
    said = cli("doctor", "--db", url)

    assert said.code == 9
    assert "✕ schema" in said.out
    assert "stepwell migrate" in said.out
    body = cli("doctor", "--db", url, "-o", "json")
    assert body.code == 9
    assert body.json["verdict"] == "fail"
    assert SECRET not in said.out + said.err + body.out + body.err


def test_a_server_that_does_not_answer_is_a_failure_in_the_same_form(cli: Cli) -> None:
    said = cli("doctor", "--db", f"postgresql://ann:{SECRET}@127.0.0.1:1/shop")

    assert said.code == 9
    assert said.out.startswith("✕ connection      SW601 no server answers")
    assert SECRET not in said.out + said.err


def test_a_server_that_is_as_it_should_be_is_fine(cli: Cli) -> None:
    with PostgresServer() as server:
        url = server.create_database()
        assert cli("migrate", "--db", url).code == 0
        said = cli("doctor", "--db", url, "--strict")

    assert (said.code, said.out.splitlines()[-1]) == (0, "All 31 checks are fine.")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_break_in_the_chain_of_the_audit_is_found_with_its_place(
    cli: Cli, tmp_path: Path, postgres: PostgresServer, store: str
) -> None:
    file = tmp_path / "shop.db"
    url = f"sqlite:///{file}" if store == "sqlite" else postgres.create_database()

    async def write() -> None:
        opened = open_store(url, system_environment())
        await opened.open()
        for number in range(4):
            await opened.ledger.note(NewAct(f"q{number}", "ann", "cancel_run", "r1", "asked"))
        await opened.close()

    asyncio.run(write())
    before = cli("doctor", "--db", url).out
    if store == "sqlite":
        with apsw.Connection(str(file)) as connection:
            connection.execute("update stepwell_acts set who = 'bob' where number = 3")
    else:
        with psycopg.connect(url) as other:
            other.execute("update stepwell.acts set who = 'bob' where number = 3")
    said = cli("doctor", "--db", url)

    assert "✓ audit           4 lines, all unchanged" in before
    assert said.code == 9
    assert "✕ audit           line 3 was changed, or the line before it was" in said.out


# --- --fix ---


def fixes(cli: Cli, url: str) -> dict[str, str]:
    """What was done, by the check that asked for it; nothing is left to be done."""
    said = cli("doctor", "--fix", "--db", url, "-o", "json").json
    assert not [finding for finding in said["findings"] if finding["remedy"]]
    return {one["check"]: one["did"] for one in said["fixed"]}


def test_nothing_is_fixed_where_nothing_is_wrong(cli: Cli, db: Shop) -> None:
    assert fixes(cli, db.url) == {}


def test_a_file_that_others_may_read_is_made_its_owners(cli: Cli, db: Shop) -> None:
    file = Path(db.url.removeprefix("sqlite:///"))
    file.chmod(0o644)
    assert fixes(cli, db.url) == {"mode": f"chmod 600 {file}"}
    assert file.stat().st_mode & 0o777 == 0o600


def test_tables_that_are_missing_are_made(cli: Cli, tmp_path: Path, postgres_url: str) -> None:
    empty = tmp_path / "empty.db"
    empty.touch(mode=0o600)
    for url in (f"sqlite:///{empty}", postgres_url):
        did = fixes(cli, url)
        assert did["schema"].startswith("migrated from version 0 to ")
        assert cli("ls", "--db", url).code == 0


def test_another_journal_mode_is_put_back(cli: Cli, db: Shop) -> None:
    connection = apsw.Connection(db.url.removeprefix("sqlite:///"))
    connection.pragma("journal_mode", "delete")
    connection.close()
    assert set(fixes(cli, db.url)) == {"durability"}


async def _strand(url: str) -> None:
    """A run whose worker is gone."""
    environment = system_environment()
    store = open_store(url, environment)
    await store.open()
    await store.runs.create([new_run("r1")])
    worker = await store.workers.register(NewWorker(Incarnation("w1"), "ann", Span(60 * SECOND), ("flow@1",)))
    await store.runs.claim(Claimant(worker.incarnation, 2, ("flow@1",)))
    await store.close()
    if url.startswith("sqlite:"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("update stepwell_workers set lease_until = 0")
        connection.close()
    else:
        with psycopg.connect(url) as server:
            server.execute("update stepwell.workers set lease_until = 0")


def test_runs_of_dead_workers_are_released(cli: Cli, tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path}/stranded.db", postgres_url):
        asyncio.run(_strand(url))
        assert fixes(cli, url) == {"stranded": "released 1 runs; 0 need a person"}
        assert cli("show", "r1", "--db", url, "-o", "json").json["status"] == "pending"


def test_people_are_told_what_was_done(cli: Cli, db: Shop) -> None:
    file = Path(db.url.removeprefix("sqlite:///"))
    file.chmod(0o644)
    lines = cli("doctor", "--fix", "--db", db.url).out.splitlines()
    assert [line for line in lines if line.startswith("→")] == [f"→ mode            chmod 600 {file}"]
    assert [line[0] for line in lines if line.split()[1:2] == ["mode"]] == ["⚠", "→", "✓"]


def test_what_cannot_be_fixed_is_reported_and_the_other_checks_continue(
    cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(db.url.removeprefix("sqlite:///")).chmod(0o644)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    said = cli("doctor", "--fix", "--strict", "--db", db.url, "-o", "json")
    assert said.code == 9
    assert said.json["fixed"] == [{"check": "mode", "did": "could not be fixed: Operation not permitted"}]


# --- stepwell migrate ---


def test_a_database_is_made_ready_once(cli: Cli, postgres_url: str) -> None:
    plan = cli("migrate", "--plan", "--db", postgres_url)
    assert (plan.code, plan.out.splitlines()[0].split()[0]) == (0, "Would")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select to_regnamespace('stepwell')").fetchone() == (None,)

    done = cli("migrate", "--db", postgres_url, "-o", "json").json
    again = cli("migrate", "--db", postgres_url, "-o", "json").json

    assert done.pop("functions").startswith("stepwell_")
    assert done == {
        "schema": "stepwell.migration/1",
        "db": f"postgresql://{postgres_url.rpartition('@')[2]}",
        "before": 0,
        "after": 1,
        "is_done": True,
    }
    assert (again["before"], again["after"], again["functions"], again["is_done"]) == (1, 1, "", False)
    assert cli("migrate", "--db", postgres_url).out.startswith("Nothing to do: ")
    assert cli("ls", "--db", postgres_url).code == 0


def test_a_file_is_made_ready_too(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    assert cli("migrate", "--plan", "--db", url).out.startswith("Would make ")
    assert list(tmp_path.iterdir()) == []

    assert cli("migrate", "--db", url, "-o", "json").json["is_done"] is True
    assert cli("migrate", "--db", url).out.startswith("Nothing to do: ")
    assert (tmp_path / "shop.db").stat().st_mode & 0o777 == 0o600
    assert cli("ls", "--db", url).code == 0


@pytest.mark.parametrize("content", [b"this is a letter" * 300, b""])
def test_a_plan_refuses_what_the_act_would_refuse(cli: Cli, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.db"
    file.write_bytes(content)
    said = cli("migrate", "--plan", "--db", f"sqlite:///{file}", "-o", "json")

    assert said.code == (6 if content else 0)
    assert file.read_bytes() == content


def test_a_role_that_may_not_migrate_is_refused(cli: Cli, postgres_url: str) -> None:
    name = f"weak_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("create role {} login").format(psycopg.sql.Identifier(name)))
        try:
            said = cli("migrate", "--db", as_user(postgres_url, name), "-o", "json")
        finally:
            connection.execute(psycopg.sql.SQL("drop role {}").format(psycopg.sql.Identifier(name)))

    assert (said.code, said.error["code"]) == (6, "SW613")
