"""`stepwell import`: what was exported comes back, or is refused with a code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from tests.edges import shop
from tests.edges.conftest import APP, Cli, Shop

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(params=["sqlite", "postgres"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that has nothing in it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/elsewhere.db"
    return str(request.getfixturevalue("postgres_url"))


def exported(cli: Cli, db: Shop, run: str, file: Path, *words: str) -> Path:
    assert cli("export", run, "-o", str(file), *words, "--db", db.url).code == 0
    return file


@pytest.mark.parametrize("run", ["checkout-1", "declined-1", "undone-1", "stuck-1", "confused-1"])
def test_a_run_is_the_same_where_it_comes_to(cli: Cli, db: Shop, elsewhere: str, tmp_path: Path, run: str) -> None:
    file = exported(cli, db, run, tmp_path / "run.json")
    said = cli("import", str(file), "--db", elsewhere, "-o", "json")

    assert said.code == 0, said.err
    assert said.json["schema"] == "stepwell.import/1"
    again = tmp_path / "again.json"
    assert cli("export", run, "-o", str(again), "--db", elsewhere).code == 0
    assert again.read_text() == file.read_text()
    for verb in ("show", "tree", "history", "why"):
        assert cli(verb, run, "--db", elsewhere).code == 0


def test_a_run_that_waits_goes_on_where_it_was(cli: Cli, db: Shop, elsewhere: str, tmp_path: Path) -> None:
    file = exported(cli, db, "approval-1", tmp_path / "run.json")
    assert cli("import", str(file), "--db", elsewhere).code == 0

    async def go_on() -> Any:
        async with Engine(elsewhere, workflows=[shop.approval]) as engine:
            await engine.signal("approval-1", "reject")
            return await engine.result("approval-1", timeout="60s")

    assert asyncio.run(go_on()) == "reject: None"


def test_what_is_there_already_is_refused(cli: Cli, db: Shop, tmp_path: Path) -> None:
    ended = exported(cli, db, "checkout-1", tmp_path / "ended.json")
    active = exported(cli, db, "approval-1", tmp_path / "active.json")
    for file in (ended, active):
        said = cli("import", str(file), "--db", db.url, "-o", "json")
        assert (said.code, said.error["code"]) == (5, "SW405")
    assert len(cli("ls", "--db", db.url, "-o", "ids").out.split()) == 6


def test_an_ended_run_may_come_back_under_another_id(cli: Cli, db: Shop, tmp_path: Path) -> None:
    file = exported(cli, db, "checkout-1", tmp_path / "run.json")
    named = cli("import", str(file), "--id", "order-copy", "--db", db.url, "-o", "json")
    made = cli("import", str(file), "--new-id", "--no-key", "--db", db.url, "-o", "json")
    assert (named.code, named.json["run_id"], made.code) == (0, "order-copy", 0)
    assert cli("result", "order-copy", "--db", db.url).json == cli("result", "checkout-1", "--db", db.url).json
    assert cli("show", made.json["run_id"], "--db", db.url, "-o", "json").json["key"] is None


def test_a_run_that_has_not_ended_keeps_its_id(cli: Cli, db: Shop, tmp_path: Path) -> None:
    file = exported(cli, db, "approval-1", tmp_path / "run.json")
    said = cli("import", str(file), "--new-id", "--db", f"sqlite:///{tmp_path}/new.db", "-o", "json")
    assert (said.code, said.error["code"]) == (2, "SW441")


def test_one_id_is_enough(cli: Cli, db: Shop, tmp_path: Path) -> None:
    assert cli("import", "x.json", "--new-id", "--id", "a", "--db", db.url).code == 2


def test_a_redacted_run_can_be_looked_at_and_not_go_on(cli: Cli, db: Shop, elsewhere: str, tmp_path: Path) -> None:
    ended = exported(cli, db, "checkout-1", tmp_path / "ended.json", "--redact")
    active = exported(cli, db, "approval-1", tmp_path / "active.json", "--redact")
    assert cli("import", str(ended), "--db", elsewhere).code == 0
    said = cli("import", str(active), "--db", elsewhere, "-o", "json")
    assert (said.code, said.error["code"]) == (2, "SW441")


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(schema="stepwell.history-file/1"),
        lambda file: file.update(schema="something"),
        lambda file: file["run"].update(status="dancing"),
        lambda file: file["run"].update(status="waiting"),
        lambda file: file["run"].update(last_seq=0),
        lambda file: file["history"]["entries"].append(file["history"]["entries"][0]),
        lambda file: file["history"]["entries"].append({**file["history"]["entries"][0], "seq": 99}),
        lambda file: file["history"]["entries"][0].update(location="ff00"),
        lambda file: file["history"]["entries"][0].update(location="zz"),
        lambda file: file["history"].update(names=[]),
        lambda file: file.pop("run"),
        lambda file: file.pop("history"),
    ],
)
def test_what_is_damaged_or_of_another_release_is_refused(cli: Cli, db: Shop, tmp_path: Path, change: Change) -> None:
    file = exported(cli, db, "checkout-1", tmp_path / "run.json")
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    url = f"sqlite:///{tmp_path}/new.db"
    said = cli("import", str(file), "--db", url, "-o", "json")
    assert (said.code, said.error["code"]) == (2, "SW441"), said
    assert cli("ls", "--db", url).out == ""


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"[]", b"{"])
def test_what_is_no_history_file_is_refused(cli: Cli, db: Shop, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd.json"
    file.write_bytes(content)
    for name in (file, tmp_path / "absent.json"):
        said = cli("import", str(name), "--db", db.url, "-o", "json")
        assert (said.code, said.error["code"]) == (2, "SW441")


def test_who_imported_is_on_record(cli: Cli, db: Shop, elsewhere: str, tmp_path: Path) -> None:
    file = exported(cli, db, "checkout-1", tmp_path / "run.json")
    cli("import", str(file), "--db", elsewhere, "--app", APP)

    async def acts() -> list[tuple[str, str]]:
        async with Engine(elsewhere) as engine:
            return [(act.verb, act.after) for act in await engine.runs.list_acts("checkout-1")]

    assert asyncio.run(acts()) == [("import", "completed")]
