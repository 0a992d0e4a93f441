"""A row that cannot be read hides no other: lists show it with its cause, and verbs on it end with an error of ours."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import apsw
import httpx
import psycopg
import pytest

from stepwell import Context, Engine, SyncEngine, workflow
from stepwell.http import Role, Tokens, app
from tests.edges import shop
from tests.edges.conftest import Cli
from tests.http.desk import TEXTS, TOKENS

OF_RUN = "run = (select id from stepwell_runs where run_id = ?)"

# A statement that puts nonsense into the row of one run.
SQLITE = {
    "failure": f"update stepwell_payloads set failure = x'fffe00' where {OF_RUN}",
    "tags": f"update stepwell_payloads set tags = '{{no json' where {OF_RUN}",
    "hold": "update stepwell_runs set hold = '[]' where run_id = ?",
    "text": "update stepwell_runs set reason = cast(x'fffe' as text) where run_id = ?",
    "status": "update stepwell_runs set status = 'upside down' where run_id = ?",
}
POSTGRES = {
    "failure": r"update {s}.payloads set failure = '\xfffe' where run = (select id from {s}.runs where run_id = %s)",
    "tags": "update {s}.payloads set tags = '[5]' where run = (select id from {s}.runs where run_id = %s)",
}


def fill(url: str) -> list[str]:
    ids: list[str] = []
    with SyncEngine(url, workflows=[shop.checkout]) as engine:
        for number in range(3):
            run = engine.start(shop.checkout, shop.Order("ann", number), key=f"k{number}")
            run.result()
            ids.append(run.run_id)
    return ids


def damage_sqlite(file: Path, statement: str, run_id: str) -> None:
    connection = apsw.Connection(str(file))
    connection.pragma("ignore_check_constraints", True)
    connection.execute(statement, (run_id,))
    assert connection.changes() == 1
    connection.close()


def damage_postgres(url: str, statement: str, run_id: str) -> None:
    with psycopg.connect(url.partition("?")[0]) as connection:
        [(schema,)] = connection.execute(
            "select table_schema from information_schema.tables where table_name = 'payloads'"
        ).fetchall()
        assert connection.execute(statement.format(s=schema), (run_id,)).rowcount == 1


CASES = [*[("sqlite", name) for name in SQLITE], *[("postgres", name) for name in POSTGRES]]


@pytest.fixture(params=CASES, ids=["-".join(case) for case in CASES])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, list[str]]:
    """A database with three runs, of which the second cannot be read."""
    store, name = request.param
    if store == "sqlite":
        url = f"sqlite:///{tmp_path}/runs.db"
        ids = fill(url)
        damage_sqlite(tmp_path / "runs.db", SQLITE[name], ids[1])
    else:
        url = request.getfixturevalue("postgres_url")
        ids = fill(url)
        damage_postgres(url, POSTGRES[name], ids[1])
    return url, ids


def test_ls_shows_the_row_with_its_cause_and_all_others(cli: Cli, damaged: tuple[str, list[str]]) -> None:
    url, ids = damaged
    table, listed = cli("ls", "--db", url), cli("ls", "--db", url, "-o", "json")

    assert (table.code, listed.code) == (0, 0), table.err
    runs = {run["run_id"]: run for run in json.loads(listed.out)["runs"]}
    assert set(runs) == set(ids)
    assert runs[ids[1]]["unreadable"]
    assert [runs[run_id]["unreadable"] for run_id in (ids[0], ids[2])] == ["", ""]
    assert [line for line in table.out.splitlines() if ids[1] in line and "unreadable" in line]
    assert table.out.count("completed") == 2


async def test_the_http_list_shows_the_row_with_its_cause_and_all_others(damaged: tuple[str, list[str]]) -> None:
    url, ids = damaged
    async with Engine(url, worker=False) as engine:
        transport = httpx.ASGITransport(app=app(engine, access=Tokens(TOKENS)))
        headers = {"authorization": f"Bearer {TEXTS[Role.ADMIN]}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            answer = await client.get("/api/runs")
            one = await client.get(f"/api/runs/{ids[1]}")

    runs: dict[str, Any] = {run["run_id"]: run for run in answer.json()["runs"]}
    assert answer.status_code == 200
    assert set(runs) == set(ids)
    assert [bool(runs[run_id]["unreadable"]) for run_id in ids] == [False, True, False]
    assert one.status_code == 200 or one.json()["code"] == "SW620"


VERBS = [
    ["show"],
    ["history"],
    ["tree"],
    ["why"],
    ["result", "--timeout", "1s"],
    ["cancel"],
    ["retry"],
    ["pause", "--reason", "x"],
    ["resume"],
    ["export"],
    ["graph"],
]


def test_verbs_on_the_row_end_with_an_error_of_ours_or_work(cli: Cli, damaged: tuple[str, list[str]]) -> None:
    url, ids = damaged
    for verb, *more in VERBS:
        said = cli(verb, ids[1], *more, "--db", url)
        assert "SW999" not in said.err, (verb, said.err)
        assert said.code != 1, (verb, said.err)
        if "SW620" in said.err:
            assert "stepwell doctor" in said.err
        assert cli(verb, ids[0], *more, "--db", url).code in (0, 5), verb


def test_show_tells_which_entry_cannot_be_read_and_shows_the_rest(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    ids = fill(url)
    damage_sqlite(
        tmp_path / "runs.db", f"update stepwell_entries set value = x'fffe', status = 'f' where {OF_RUN}", ids[0]
    )

    said = cli("show", ids[0], "--db", url)

    assert said.code == 0, said.err
    assert "reserve cannot be read: " in said.out


# --- workers ------------------------------------------------------------------------------------


def damage(url: str, name: str, run_id: str) -> None:
    if url.startswith("sqlite:///"):
        damage_sqlite(Path(url.removeprefix("sqlite:///")), SQLITE[name], run_id)
    else:
        damage_postgres(url, POSTGRES[name], run_id)


@pytest.fixture(params=["sqlite", "postgres"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


async def until_paused(engine: Engine, run_id: str) -> None:
    while (await engine.runs.list("status:paused")) == []:  # noqa: ASYNC110  another task works
        await asyncio.sleep(0.01)
    [paused] = await engine.runs.list("status:paused")
    assert paused.run_id == run_id


async def test_a_worker_sets_a_row_aside_that_cannot_be_read_and_executes_all_others(anywhere: str) -> None:
    async with Engine(anywhere, worker=False) as engine:
        ids = [(await engine.start(shop.checkout, shop.Order("ann", number))).run_id for number in range(3)]
    damage(anywhere, "tags", ids[1])

    async with Engine(anywhere, workflows=[shop.checkout]) as engine:
        for number in (0, 2):
            assert (await engine.result(ids[number], timeout="60s"))["amount"] == number
        await until_paused(engine, ids[1])
        later = await engine.start(shop.checkout, shop.Order("ann", 3))
        assert (await later.result(timeout="60s"))["amount"] == 3

    async with Engine(anywhere, workflows=[shop.checkout]) as engine:  # a worker that starts looks at all paused runs
        again = await engine.start(shop.checkout, shop.Order("ann", 4))
        assert (await again.result(timeout="60s"))["amount"] == 4


@pytest.mark.parametrize("name", ["text", "hold"])
async def test_whatever_is_wrong_with_a_row_other_runs_are_executed(tmp_path: Path, name: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    async with Engine(url, worker=False) as engine:
        ids = [(await engine.start(shop.checkout, shop.Order("ann", number))).run_id for number in range(3)]
    damage(url, name, ids[1])

    async with Engine(url, workflows=[shop.checkout]) as engine:
        for number in (0, 2):
            assert (await engine.result(ids[number], timeout="60s"))["amount"] == number


async def test_a_signal_that_wakes_a_row_that_cannot_be_read_is_stored_and_stops_no_worker(anywhere: str) -> None:
    async with Engine(anywhere, workflows=[shop.approval, shop.checkout]) as engine:
        run = await engine.start(shop.approval)
        while not (await engine.runs.detail(run.run_id)).history.waits:  # noqa: ASYNC110  another task waits
            await asyncio.sleep(0.01)
    damage(anywhere, "tags", run.run_id)

    async with Engine(anywhere, workflows=[shop.approval, shop.checkout]) as engine:
        await engine.signal(run.run_id, "approve", "yes")
        await until_paused(engine, run.run_id)
        other = await engine.start(shop.checkout, shop.Order("ann", 1))
        assert (await other.result(timeout="60s"))["amount"] == 1


async def test_a_paused_run_whose_failure_cannot_be_read_stops_no_worker(anywhere: str) -> None:
    async with Engine(anywhere, workflows=[shop.confused]) as engine:
        run = await engine.start(shop.confused, shop.Order("ann", 1))
        await until_paused(engine, run.run_id)
    damage(anywhere, "failure", run.run_id)

    async with Engine(anywhere, workflows=[shop.confused, shop.checkout]) as engine:
        assert engine._worker is not None
        assert await engine._worker._resumer.look_once() is False
        other = await engine.start(shop.checkout, shop.Order("ann", 1))
        assert (await other.result(timeout="60s"))["amount"] == 1


# --- families -----------------------------------------------------------------------------------


@workflow
async def leaf(ctx: Context) -> str:
    return "leaf"


@workflow
async def family(ctx: Context) -> list[str]:
    return [await ctx.child(leaf, name=name) for name in ("first", "second")]


def test_a_parent_is_shown_with_the_child_that_cannot_be_read_marked(cli: Cli, anywhere: str) -> None:
    with SyncEngine(anywhere, workflows=[family, leaf]) as engine:
        run = engine.start(family)
        assert run.result() == ["leaf", "leaf"]
    listed = cli("ls", "--db", anywhere, "-o", "json").json["runs"]
    children = sorted(each["run_id"] for each in listed if each["workflow"] == "leaf")
    damage(anywhere, "tags", children[0])

    shown = cli("show", run.run_id, "--db", anywhere, "-o", "json")
    text = cli("show", run.run_id, "--db", anywhere)

    assert (shown.code, text.code) == (0, 0), (shown.err, text.err)
    marks = {each["run_id"]: bool(each["unreadable"]) for each in shown.json["children"]}
    assert marks == {children[0]: True, children[1]: False}
    assert [line for line in text.out.splitlines() if children[0] in line and "unreadable" in line]
    for verb in ("tree", "why", "history", "export", "graph"):
        said = cli(verb, run.run_id, "--db", anywhere)
        assert said.code == 0, (verb, said.err)


def test_the_error_for_a_row_that_cannot_be_read_names_the_run(cli: Cli, anywhere: str) -> None:
    ids = fill(anywhere)
    damage(anywhere, "tags", ids[1])
    said = cli("history", ids[1], "--db", anywhere, "-o", "json")

    assert (said.error["code"], said.error["where"]) == ("SW620", f"run {ids[1]}"), said.error
