"""`stepwell dev --seed demo`: the same past for the same moment, with every status and with data that is awkward."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import Engine
from stepwell.cli.dev.seeds import odd, seed_demo
from stepwell.cli.dev.seeds.shop import app as shop
from stepwell.cli.texts import clean
from stepwell.clock import Instant
from stepwell.http import Tokens, app
from stepwell.http.routes import OPERATIONS
from stepwell.http.streaming import MEDIA
from stepwell.model.states import RunStatus
from tests.edges.conftest import Cli
from tests.http.desk import TOKENS, Desk

NOW = Instant(1_790_000_000_000_000)
ROWS = 50
# What is asked of each of them; a page of a run asks for all of it.
_NEEDED: dict[str, dict[str, Any]] = {"schedule-times": {"cron": "0 6 * * *"}, "ahead": {"ended": "1d"}}
OF_A_RUN = ("", "/history", "/tree", "/why", "/acts", "/undos", "/state", "/streams", "/streams/s", "/result")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("demo") / "demo.db"
    seed_demo(file, NOW, rows=ROWS)
    return file


@pytest.fixture
async def desk(file: Path) -> AsyncIterator[Desk]:
    async with Engine(f"sqlite:///{file}", workflows=shop.workflows, offload="database", worker=False) as engine:
        yield Desk(engine, app(engine, access=Tokens(TOKENS)))


async def _ids(url: str) -> list[tuple[Any, ...]]:
    async with Engine(url, worker=False) as engine:
        runs = await engine.runs.list(limit=1_000, include_system=True)
        return [(run.run_id, run.key, run.status, run.created_at, run.ended_at) for run in runs]


def test_the_same_moment_gives_the_same_runs(file: Path, tmp_path: Path) -> None:
    seed_demo(tmp_path / "again.db", NOW, rows=ROWS)

    first, again = (asyncio.run(_ids(f"sqlite:///{each}")) for each in (file, tmp_path / "again.db"))
    assert first == again
    assert 200 <= len(first) <= 300
    assert {status for _, _, status, _, _ in first} == set(RunStatus)
    assert max(created.timestamp() for *_, created, _ in first) < NOW / 1_000_000


async def test_it_has_what_every_page_shows(desk: Desk) -> None:
    async def ask(path: str, **query: Any) -> Any:
        return (await desk.get(path, params=query)).json()

    needs = {one["check"]: one["verdict"] for one in (await ask("/api/doctor"))["needs"]}
    # A failure of a service is told for some minutes only.
    assert {check for check, verdict in needs.items() if verdict == "ok"} == {"retention", "services"}
    schedules = {one["name"]: one for one in (await ask("/api/schedules"))["schedules"]}
    assert {one["state"] for one in schedules.values()} == {"active", "paused"}
    assert [name for name, one in schedules.items() if one["problem"]] == ["shelf count"]
    assert {one["part"] for one in schedules["nightly"]["differences"]} == {"input", "jitter"}
    assert {one["kind"] for one in schedules["prices"]["outcomes"]} == {"started", "skipped"}
    assert {one["run_status"] for one in schedules["nightly"]["outcomes"]} == {"completed", "failed"}
    alerts = {one["name"]: one["state"] for one in (await ask("/api/alerts"))["alerts"]}
    assert alerts == {
        "orders fail": "firing",
        "nobody works": "firing",  # muted
        "rollback incomplete": "seen",
        "reports fail in a row": "ok",
        "nothing moves": "ok",
        "contacts fail": "ok",
    }
    letters = (await ask("/api/dead-letters"))["letters"]
    assert {one["kind"] for one in letters} == {"event", "signal", "poison", "history", "hook"}
    assert {one["state"] for one in (await ask("/api/dead-letters/handled"))["letters"]} == {"retried", "dropped"}
    assert (await ask("/api/retention"))["backup"]["target"] == "/backups/shop-monday.db"
    triggers = (await ask("/api/triggers"))["triggers"]
    assert {one["state"] for one in triggers} == {"active", "paused", "undeclared"}
    assert [one["name"] for one in triggers if one["failure"]] == ["catalogue.changed:import_catalogue"]
    assert [one["name"] for one in (await ask("/api/views"))["views"]] == ["large orders"]
    assert len((await ask("/api/runs", q="attr.amount:>300 sort:-attr.amount"))["runs"]) > 5
    assert len((await ask("/api/signals/held"))["signals"]) == 4
    assert {bool(one["reason"]) for one in (await ask("/api/signals/unread"))["signals"]} == {True, False}
    assert len((await ask("/api/outbox/dead"))["events"]) > 5
    assert len((await ask("/api/outbox"))["events"]) > 1
    assert len((await ask("/api/errors"))["groups"]) > 5
    assert {one["is_unserved"] for one in (await ask("/api/versions"))["versions"]} == {True, False}
    assert len((await ask("/api/bulks"))["bulks"]) == 2
    assert len((await ask("/api/audit"))["acts"]) == 8
    assert len((await ask("/api/waits"))["waits"]) > 3
    assert (await ask("/api/runs/agent-5f3c/streams/answer"))["lines"][0]["value"] == "thought "
    assert len((await ask("/api/runs/agent-5f3c/state"))["published"]) == 2
    assert (await ask("/api/runs/import-2026-11/tree"))["root"]["count"] == ROWS + 1
    assert len((await ask("/api/runs/large-10mb"))["run"]["output"]["blob"]) == odd.LARGE_BYTES
    paused = {one["where"] for one in (await ask("/api/runs", q="status:paused", reasons="true"))["reasons"]}
    assert "load prices" in paused


async def test_no_stored_text_breaks_an_answer(desk: Desk) -> None:
    runs: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": 100, "system": "true", "payloads": "false", "reasons": "true"}
    while True:
        page = (await desk.get("/api/runs", params=query)).json()
        runs += page["runs"]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    odd_ones = [run for run in runs if run["workflow"] in (odd.odd_texts.name, "deep_tree", "large_values")]

    assert len(odd_ones) >= 13
    for run in odd_ones:
        for path in OF_A_RUN:
            answer = await desk.get(f"/api/runs/{run['run_id']}{path}")
            assert answer.status_code in (200, 202), (path, answer.text[:500])
            assert answer.headers["content-type"] == "application/json"
    for each in OPERATIONS:
        if each.method == "GET" and "{" not in each.path and each.media != MEDIA:
            query = _NEEDED.get(each.path.rpartition("/")[2], {})
            assert (await desk.get(each.path, params=query)).status_code == 200, each.path
    named = next(run for run in runs if run["key"] and run["key"].startswith('"'))
    found = await desk.get("/api/runs", params={"q": 'key:"\\"><img src=x onerror=alert(1)>"'})
    assert [run["run_id"] for run in found.json()["runs"]] == [named["run_id"]]
    assert isinstance(await desk.get("/api/openapi.json"), httpx.Response)


@pytest.mark.parametrize(
    "words", [["ls", "-n", "300"], ["show", "odd-5kb-error"], ["failures"], ["signals", "ls"], ["doctor"]], ids=" ".join
)
def test_a_terminal_obeys_no_stored_text(cli: Cli, file: Path, words: list[str]) -> None:
    said = cli(*words, "--db", f"sqlite:///{file}")

    assert "\x1b" not in said.out
    cells = [cell for line in said.out.split("\n") for cell in line.split("\t")]
    assert [cell for cell in cells if clean(cell) != cell] == []


def test_a_database_that_has_runs_is_not_seeded(cli: Cli, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    there = cli("dev", "--seed", "demo", "--db", f"sqlite:///{file}")
    server = cli("dev", "--seed", "demo", "--db", "postgresql://nobody@127.0.0.1:1/none")

    assert (there.code, server.code) == (2, 2)
    assert "--fresh" in there.err
    assert "leave --db out" in server.err
    assert file.read_bytes() == before
