"""Runs in a SQLite file that an application has already: `?shared=1`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Context, Engine, Transaction, step, workflow
from stepwell.cli.main import main
from stepwell.errors import ForeignFileError, InvalidOptionError, SchemaMismatchError
from stepwell.stores.sqlite.connections import APPLICATION_ID


@step(transaction=True)
async def take(tx: Transaction, item: str) -> int:
    tx.execute("update stock set count = count - 1 where item = ?", (item,))
    [(left,)] = tx.execute("select count from stock where item = ?", (item,))
    return int(left)


@workflow
async def order(ctx: Context, item: str) -> int:
    return await ctx.step(take, item)


def rows(file: Path, sql: str) -> list[Any]:
    connection = apsw.Connection(str(file))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The database of an application, with marks of its own."""
    file = tmp_path / "app.db"
    rows(file, "create table stock (item text primary key, count integer); insert into stock values ('tea', 5)")
    rows(file, "pragma application_id = 4711; pragma user_version = 42")
    file.chmod(0o640)
    return file


def theirs(file: Path) -> list[Any]:
    """What is the application's: its marks, and its schema."""
    marks = [*rows(file, "pragma application_id"), *rows(file, "pragma user_version")]
    return marks + rows(file, "select sql from sqlite_schema where name not glob '*stepwell_*' and sql like '%stock%'")


def run_one(url: str) -> int:
    async def perform() -> int:
        async with Engine(url, workflows=[order]) as engine:
            run = await engine.start(order, "tea")
            return await run.result()

    return asyncio.run(perform())


def count_runs(url: str) -> int:
    async def perform() -> int:
        async with Engine(url) as engine:
            return len(await engine.runs.list())

    return asyncio.run(perform())


def test_a_transactional_step_joins_the_tables_of_an_application(app: Path):
    before = theirs(app)

    assert run_one(f"sqlite:///{app}?shared=1") == 4
    assert run_one(f"sqlite:///{app}?shared=1") == 3
    assert run_one(f"sqlite:///{app}") == 2  # it is known by our tables from now on
    assert theirs(app) == before
    assert rows(app, "select count from stock") == [(2,)]
    assert oct(app.stat().st_mode & 0o777) == "0o640"


def test_without_the_option_a_file_of_another_program_is_refused_and_left_alone(app: Path):
    content = app.read_bytes()
    with pytest.raises(ForeignFileError) as caught:
        run_one(f"sqlite:///{app}")

    assert "?shared=1" in caught.value.fix
    assert app.read_bytes() == content


def test_an_application_may_come_after_the_runs(tmp_path: Path):
    file = tmp_path / "new.db"
    assert count_runs(f"sqlite:///{file}?shared=1") == 0
    rows(file, "create table stock (item text primary key, count integer); insert into stock values ('tea', 1)")
    rows(file, "pragma application_id = 7; pragma user_version = 3")

    assert run_one(f"sqlite:///{file}?shared=1") == 0
    assert [*rows(file, "pragma application_id"), *rows(file, "pragma user_version")] == [(7,), (3,)]


def test_a_file_of_stepwell_alone_stays_one(tmp_path: Path):
    file = tmp_path / "own.db"
    assert count_runs(f"sqlite:///{file}") == 0
    assert count_runs(f"sqlite:///{file}?shared=1") == 0

    assert rows(file, "pragma application_id") == [(APPLICATION_ID,)]
    assert rows(file, "select count(*) from stepwell_meta where name = 'schema'") == [(0,)]


def test_tables_of_a_newer_stepwell_are_refused(app: Path):
    run_one(f"sqlite:///{app}?shared=1")
    rows(app, "update stepwell_meta set value = 99 where name = 'schema'")

    with pytest.raises(SchemaMismatchError, match="99"):
        run_one(f"sqlite:///{app}?shared=1")


@pytest.mark.parametrize("query", ["shared=yes", "share=1", "shared"])
def test_an_option_that_is_not_known_is_refused(app: Path, query: str):
    with pytest.raises(InvalidOptionError, match="a SQLite URL has no option"):
        Engine(f"sqlite:///{app}?{query}")


def test_doctor_backup_restore_and_move_know_a_file_that_is_shared(
    app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    url, copy, back, moved = (
        f"sqlite:///{app}?shared=1",
        tmp_path / "copy.db",
        tmp_path / "back.db",
        tmp_path / "moved.db",
    )

    def cli(*words: str) -> str:
        code = main(words)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    cli("migrate", "--db", url)
    run_one(url)
    before = theirs(app)
    said = cli("doctor", "--db", url)
    assert "together with the tables of an application" in said
    assert "0640: the file is shared" in said
    cli("backup", url, str(copy))
    cli("restore", str(copy), f"sqlite:///{back}?shared=1")
    assert theirs(back) == before
    assert run_one(f"sqlite:///{back}?shared=1") == 3
    cli("move", f"sqlite:///{back}?shared=1", f"sqlite:///{moved}")
    assert rows(moved, "select count(*) from sqlite_schema where name = 'stock'") == [(0,)]
    assert rows(back, "select count from stock") == [(3,)]
    assert count_runs(f"sqlite:///{moved}") == 2
