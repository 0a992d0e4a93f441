"""Commands that only list wait for their database and for little else: what they do not use is not imported."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from stepwell.cli.client import ask
from stepwell.cli.settings import Settings
from stepwell.errors import StoreUnavailableError
from stepwell.stores.sqlite.views import SqliteViews
from tests.edges.conftest import Cli, Shop
from tests.servers.cleared import cleared_url

# What takes long to import and is for other commands.
HEAVY = (
    "stepwell.wiring",
    "stepwell.engine.runs",
    "stepwell.replay.steps",
    "stepwell.replay.workflows",
    "stepwell.replay.turn",
    "stepwell.sinks",
    "stepwell.worker",
    "stepwell.check",
    "stepwell.codec.json_codec",
    "cryptography",
    "opentelemetry",
    "prometheus_client",
    "pydantic",
    "rich",
    "starlette",
)
_IMPORTED = """
import json, sys
from stepwell.cli.main import main
sys.argv = ["stepwell", *json.loads(sys.stdin.read())]
code = main()
print(json.dumps(sorted(sys.modules)))
sys.exit(code)
"""


def _imported_by(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED], input=json.dumps(words), capture_output=True, check=True, text=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


LISTINGS = [
    ["ls"],
    ["ls", "--where", "status:failed sort:-took", "-n", "1"],
    ["ls", "-o", "json"],
]


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_listing_runs_of_a_file_imports_neither_the_engine_nor_another_driver(db: Shop, words: list[str]) -> None:
    imported = _imported_by("--db", db.url, *words)

    assert imported & {*HEAVY, "psycopg"} == set()
    assert "stepwell.stores.sqlite.store" in imported


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_listing_runs_of_a_server_imports_neither_the_engine_nor_another_driver(words: list[str]) -> None:
    imported = _imported_by("--db", cleared_url(), *words)

    assert imported & {*HEAVY, "apsw", "sqlite3"} == set()
    assert "stepwell.stores.postgres.store" in imported


_COLLECTED = """
import gc, json, sys
from stepwell.cli.main import main
sys.argv, before = ["stepwell", *json.loads(sys.stdin.read())], gc.get_stats()
main()
print(json.dumps(gc.get_stats() == before))
"""


@pytest.mark.parametrize("words", [["ls"], ["ls", "-n", "1000"], ["show", "@last"]], ids=" ".join)
def test_a_command_that_only_looks_ends_before_garbage_is_looked_for(shop_anywhere: Shop, words: list[str]) -> None:
    said = subprocess.run(
        [sys.executable, "-c", _COLLECTED],
        input=json.dumps(["--db", shop_anywhere.url, *words]),
        capture_output=True,
        check=True,
        text=True,
    )

    assert said.stdout.splitlines()[-1] == "true"


def test_what_is_heavy_is_what_another_command_imports(db: Shop) -> None:
    assert _imported_by("--db", db.url, "show", "declined-1") >= {"stepwell.wiring", "stepwell.engine.runs"}


@pytest.mark.parametrize("word", ["@last", "declined-1"])
def test_a_listing_that_begins_behind_a_named_run_is_the_same(cli: Cli, db: Shop, word: str) -> None:
    every = [run["run_id"] for run in cli("--db", db.url, "ls", "-o", "json").json["runs"]]
    place = 0 if word == "@last" else every.index(db.ids["declined"])

    behind = cli("--db", db.url, "ls", "-o", "json", "--before", word).json["runs"]

    assert [run["run_id"] for run in behind] == every[place + 1 :]


def test_a_store_that_does_not_answer_is_asked_again(db: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, refusals = SqliteViews.list_runs, [StoreUnavailableError("away", where="there")] * 2

    def list_runs(*words: object, **more: object) -> object:
        if refusals:
            raise refusals.pop()
        return answer(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteViews, "list_runs", list_runs)
    found = ask(Settings(db.url), lambda client: client.list_runs(limit=3))

    assert (len(found), refusals) == (3, [])
