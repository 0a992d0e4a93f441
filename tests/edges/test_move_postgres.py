"""move between SQLite and PostgreSQL, both ways: runs go on in the other database, and no step runs twice."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from stepwell import Engine
from stepwell.cli.modules import load_workflows
from tests.edges.conftest import Cli
from tests.edges.errands import STEPS_BEFORE, Errands, check_it_goes_on, die, make_errands, wait_until_all_wait
from tests.servers.ports import Port

PASSWORD = "s3cret"

WATCHES = """
import os
from pathlib import Path

from stepwell import Context, workflow


async def note(what: str) -> str:
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(what + "\\n")
    return what


@workflow
async def watch(ctx: Context, name: str) -> list[str]:
    first = await ctx.step("look", note, f"{name} looks")
    await ctx.sleep("rest", 2.0)
    word = await ctx.receive("word")
    return [first, await ctx.step("say", note, f"{name} says {word.payload}")]
"""


def _with_password(url: str) -> str:
    return url.replace("postgres@", f"postgres:{PASSWORD}@")


@pytest.fixture(params=["into PostgreSQL", "out of PostgreSQL"])
def errands(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> Errands:
    ends = [f"sqlite:///{tmp_path}/a.db", _with_password(postgres_url)]
    src, dst = ends if request.param == "into PostgreSQL" else reversed(ends)
    return make_errands(tmp_path, monkeypatch, src, dst)


def _kind(url: str) -> str:
    return "postgres" if url.startswith("postgres") else "sqlite"


def _contents(url: str) -> str:
    """Every value of every row of a PostgreSQL database's schema."""
    rows: list[Any] = []
    with psycopg.connect(url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'stepwell'").fetchall()
        for (table,) in tables:
            asked = sql.SQL("select t::text from {} as t").format(sql.Identifier("stepwell", table))
            rows += connection.execute(asked).fetchall()
    return str(rows)


def test_runs_go_on_in_the_other_database_and_no_password_is_told(
    cli: Cli, errands: Errands, postgres_url: str, tmp_path: Path
) -> None:
    said = cli("move", errands.src, errands.dst, "--app", errands.app)
    refused = cli("cancel", "e1", "--db", errands.src)
    as_json = cli("cancel", "e1", "--db", errands.src, "-o", "json")
    again = cli("move", errands.src, errands.dst)

    assert said.code == 0, said.err
    assert "Moved 7 runs, 6 of them active" in said.out
    assert "Replayed: 6 active runs" in said.out
    assert (refused.code, as_json.error["code"], again.code) == (6, "SW630", 6)
    place = errands.dst.replace(f":{PASSWORD}@", "@")
    assert place in refused.err
    told = [*said, *refused, *as_json, *again, _contents(postgres_url)]
    told += [file.read_bytes().decode("latin-1") for file in tmp_path.glob("a.db*")]
    assert place in "".join(map(str, told))
    assert PASSWORD not in "".join(map(str, told))
    check_it_goes_on(errands)


@pytest.mark.parametrize(("method", "call"), [("unpack", 1), ("unpack", 5), ("accept", 1)])
def test_a_move_that_was_killed_goes_on(cli: Cli, errands: Errands, method: str, call: int) -> None:
    die(errands, method, call, _kind(errands.dst))
    for url in (errands.src, errands.dst):
        said = cli("publish", "news", "--db", url, "-o", "json")
        assert (said.code, said.error["code"]) == (6, "SW630")

    said = cli("move", errands.src, errands.dst, "--app", errands.app)

    assert said.code == 0, said.err
    assert "Moved 7 runs" in said.out
    check_it_goes_on(errands)


def test_a_move_that_was_killed_before_the_source_was_given_up_can_be_taken_back(cli: Cli, errands: Errands) -> None:
    die(errands, "release", 1, _kind(errands.src))

    said = cli("move", errands.src, errands.dst, "--undo")

    assert (said.code, said.out.partition(":")[0]) == (0, "Move undone")
    assert PASSWORD not in said.out
    assert cli("signal", "e1", "unasked", "--db", errands.src).code == 0
    assert cli("ls", "--db", errands.dst, "-o", "ids").out == ""
    assert cli("move", errands.src, errands.dst).code == 0
    check_it_goes_on(errands)


def test_there_and_back_again_into_a_third_database(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    errands = make_errands(tmp_path, monkeypatch, f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db")

    for src, dst in ((errands.src, postgres_url), (postgres_url, errands.dst)):
        said = cli("move", src, dst, "--app", errands.app)
        assert said.code == 0, said.err

    assert errands.lines() == STEPS_BEFORE
    check_it_goes_on(errands)


def test_a_run_that_waits_for_a_timer_and_then_a_signal_goes_on_in_postgresql(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    app, ledger, src = tmp_path / "watches_of_a_move.py", tmp_path / "ledger", f"sqlite:///{tmp_path}/a.db"
    app.write_text(WATCHES)
    monkeypatch.setenv("LEDGER", str(ledger))
    monkeypatch.setattr(sys, "path", [*sys.path])
    [watch] = load_workflows(str(app))

    async def begin() -> None:
        async with Engine(src, workflows=[watch]) as engine:
            await engine.start(watch, "ann", key="w")
            await wait_until_all_wait(engine, "w")

    async def end() -> Any:
        async with Engine(postgres_url, workflows=[watch]) as engine:
            await engine.signal("w", "word", "yes")
            return await engine.result("w", timeout="60s")

    asyncio.run(begin())
    said = cli("move", src, postgres_url, "--app", str(app))
    assert said.code == 0, said.err
    assert ledger.read_text().splitlines() == ["ann looks"]

    assert asyncio.run(end()) == ["ann looks", "ann says yes"]
    assert ledger.read_text().splitlines() == ["ann looks", "ann says yes"]


def test_a_database_is_not_moved_into_itself_by_another_name(cli: Cli, postgres_url: str) -> None:
    other = postgres_url.replace("127.0.0.1", "localhost")
    assert other != postgres_url

    said = cli("move", postgres_url, f"{other}?connections=2", "-o", "json")

    assert (said.code, said.error["message"]) == (6, "the source and the destination are the same database")
    assert cli("publish", "news", "--db", postgres_url).code == 0


def test_a_destination_that_is_out_of_reach_is_named_without_its_password(cli: Cli, tmp_path: Path) -> None:
    src, port = f"sqlite:///{tmp_path}/a.db", Port()  # held, and nobody listens there
    (tmp_path / "a.db").touch()
    assert cli("publish", "news", "--db", src).code == 0

    said = cli("move", src, f"postgresql://ann:{PASSWORD}@127.0.0.1:{port.number}/shop")
    port.release()

    assert said.code == 6
    assert PASSWORD not in said.out + said.err
    assert cli("publish", "news", "--db", src).code == 0
