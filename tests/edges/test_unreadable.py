"""A row that cannot be read hides no other: lists show it with its cause, and verbs on it end with an error of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import httpx
import psycopg
import pytest

from stepwell import Engine, SyncEngine
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
            answer = await client.get("/runs")
            one = await client.get(f"/runs/{ids[1]}")

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
