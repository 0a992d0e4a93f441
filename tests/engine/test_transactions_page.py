"""The code of the page about transactions, on each kind of database that it names."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stepwell import Engine
from tests.examples.pages import ROOT
from tests.servers.cleared import cleared_url

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/transactions.md").read_text(encoding="utf-8"), re.DOTALL)


def run_block(beginning: str) -> dict[str, Any]:
    """The names that a block of the page defines; there is one that has these words."""
    [code] = [block for block in BLOCKS if beginning in block]
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "docs/transactions.md", "exec"), names)
    return names


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return cleared_url() if request.param == "postgres" else f"sqlite:///{tmp_path}/shop.db"


async def test_rows_of_a_step_are_there_when_it_is_recorded(url: str) -> None:
    page, tables = run_block("@step(transaction=True)"), run_block("async def prepare")
    async with Engine(url, workflows=[page["order"]]) as engine:
        await tables["prepare"](engine)
        await engine.transact(lambda tx: tx.execute("insert into stock values (?, ?)", ("pen", 1)))

        assert await (await engine.start(page["order"], "pen")).result("60s") == 0
        assert await engine.transact(lambda tx: tx.execute("select amount from stock")) == [(0,)]


async def test_a_run_is_started_inside_the_callers_transaction_on_sqlite(tmp_path: Path) -> None:
    page, path = run_block("apsw.Connection(path)"), str(tmp_path / "shop.db")
    async with Engine(f"sqlite:///{path}", workflows=[page["ship"]]) as engine:
        await engine.transact(lambda tx: tx.execute("create table orders (id integer primary key)"))
        await page["buy"](engine, path)

        assert await engine.result("order-1", timeout="60s") == "order 1 is on its way"


async def test_a_run_is_started_inside_the_callers_transaction_on_postgres() -> None:
    page, url = run_block("import psycopg"), cleared_url()
    async with Engine(url, workflows=[page["ship"]]) as engine:
        await engine.transact(lambda tx: tx.execute("create table orders (id serial primary key)"))
        await page["buy"](engine, url)

        assert await engine.result("order-1", timeout="60s") == "order 1 is on its way"


async def test_a_rollback_of_the_caller_leaves_no_run_on_postgres() -> None:
    page, url = run_block("import psycopg"), cleared_url()
    async with Engine(url, workflows=[page["ship"]]) as engine:
        with psycopg.connect(url) as connection:
            connection.execute("select 1")
            run = await engine.start(page["ship"], 1, key="order-1", transaction=connection)
            connection.rollback()

        assert await engine.status(run.run_id) is None


async def test_sqlite_and_postgres_name_the_errors_of_sql_alike(url: str) -> None:
    async with Engine(url) as engine:
        await engine.transact(lambda tx: tx.execute("create table coins (n integer primary key)"))
        await engine.transact(lambda tx: tx.execute("insert into coins values (:n)", {"n": 1}))
        with pytest.raises(sqlite3.IntegrityError):
            await engine.transact(lambda tx: tx.execute("insert into coins values (1)"))
        with pytest.raises(sqlite3.OperationalError):
            await engine.transact(lambda tx: tx.execute("select nonsense"))
