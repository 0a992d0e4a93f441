"""`stepwell prune`, `erase`, `dlq` and `alert`, and what doctor says of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from stepwell.care import Alert
from stepwell.errors import InvalidInputError
from tests.edges import shop
from tests.edges.conftest import Cli, Shop


def test_ended_runs_are_counted_and_erased_and_active_ones_are_left(cli: Cli, db: Shop) -> None:
    ask = ("--db", db.url)
    plan = cli("prune", "--older", "30d", "--dry-run", *ask)
    assert plan.out.splitlines()[0] == "Would delete 0 runs in 0 trees."
    assert cli("prune", "--older", "0d", *ask).code == 2 or "1h" in cli("prune", "--older", "0d", *ask).err
    assert cli("prune", *ask).code != 0
    assert cli("prune", "--workflow", "checkout", *ask).code == 2
    assert cli("prune", "--keep", "lost=3d", *ask).code == 2
    body = cli("prune", "--older", "30d", "--keep", "failed=90d", "-o", "json", *ask).json
    assert (body["schema"], body["runs"], body["is_dry"]) == ("stepwell.prune/1", 0, False)

    assert cli("erase", "--where", "workflow:checkout", *ask).code == 2
    done = cli("erase", "--where", "workflow:checkout,approval", "--yes", "--reason", "asked", *ask)
    assert done.code == 10
    assert done.out.splitlines()[0] == "Erased 1 runs; 2 matched the filter."
    assert cli("ls", "-q", "workflow:checkout", "-o", "ids", *ask).out == ""
    acts = cli("workflow", "ls", *ask)
    assert acts.code == 0


def test_a_letter_is_listed_shown_edited_and_dropped(cli: Cli, db: Shop) -> None:
    ask = ("--db", db.url)

    async def keep() -> None:
        async with Engine(db.url) as engine:
            for number in range(3):
                error = InvalidInputError("the message names no run", violations=())
                await engine.dead_letters.keep_hook("shop", f"hook-{number}", b'{"n": %d}' % number, error)

    asyncio.run(keep())
    listed = cli("dlq", "ls", *ask).out.splitlines()
    assert [line.split("\t")[:2] for line in listed[1:]] == [[f"hook-{n}", "shop"] for n in range(3)]
    assert cli("dlq", "show", "hook-1", "--raw", *ask).out == '{"n": 1}'
    assert "the message names no run (SW310)" in cli("dlq", "show", "hook-1", *ask).out
    finding = next(one for one in cli("doctor", "-o", "json", *ask).json["findings"] if one["check"] == "letters")
    assert finding["found"].startswith("3 messages could not be handled, such as 'shop'")

    assert cli("dlq", "retry", "hook-1", *ask).code != 0  # no server here has the hook
    assert cli("dlq", "retry", *ask).code == 2
    assert cli("dlq", "drop", "hook-1", "--reason", "noise", *ask).out == "Letter hook-1 is dropped\n"
    assert cli("dlq", "drop", "hook-1", "--reason", "noise", *ask).out == "Letter hook-1 was handled before\n"
    assert cli("dlq", "drop", "--all", "--kind", "hook", "--reason", "noise", *ask).out == "Dropped 2 letters.\n"
    assert cli("dlq", "ls", *ask).err == "No dead letters.\n"
    assert len(cli("dlq", "ls", "--handled", "-o", "json", *ask).json["letters"]) == 3


def test_rules_are_created_listed_tested_and_muted(cli: Cli, db: Shop) -> None:
    ask = ("--db", db.url)
    made = cli("alert", "create", "shop fails", "--workflow", "declined", "--failed", *ask)
    assert made.out == "Alert shop fails is watched\n"
    assert cli("alert", "create", "wrong", *ask).code != 0

    async def look() -> None:
        async with Engine(db.url, workflows=[shop.declined], alerts=[Alert("other", failed=True)]) as engine:
            while (await engine.alerts.get("shop fails")).state != "firing":  # noqa: ASYNC110  another task looks
                await asyncio.sleep(0.01)

    asyncio.run(look())
    [first, *_] = cli("alert", "ls", *ask).out.splitlines()[1:]
    assert "firing" in first
    finding = next(one for one in cli("doctor", "-o", "json", *ask).json["findings"] if one["check"] == "alerts")
    assert finding["verdict"] == "warn"
    assert cli("alert", "ack", "shop fails", "--note", "known", *ask).out == "Alert shop fails is acknowledged\n"
    assert cli("alert", "mute", "shop fails", "--for", "2h", *ask).out == "Alert shop fails is muted for 2h\n"
    assert cli("alert", "mute", "shop fails", "--for", "0", *ask).out == "Alert shop fails is heard again\n"
    shown = cli("alert", "show", "shop fails", *ask).out
    assert "acknowledged by" in shown
    assert cli("alert", "test", "shop fails", *ask).code == 0
    assert cli("alert", "delete", "shop fails", *ask).out == "Alert shop fails is deleted\n"
    assert cli("alert", "show", "shop fails", *ask).code == 4


def test_a_backup_is_noted(cli: Cli, db: Shop, tmp_path: Any) -> None:
    copy = tmp_path / "copy.db"
    assert cli("backup", db.url, str(copy)).code == 0
    finding = next(
        one for one in cli("doctor", "--db", db.url, "-o", "json").json["findings"] if one["check"] == "backup"
    )
    assert (finding["verdict"], finding["found"]) == ("ok", f"0 days old: {copy}")


@pytest.fixture(autouse=True)
def _no_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPWELL_APP", raising=False)


def test_the_footprint_names_workflows_and_tables(cli: Cli, db: Shop) -> None:
    ask = ("--db", db.url)
    shown = cli("footprint", *ask)
    assert shown.code == 0
    assert "nothing says how long. --older 30d shows" in shown.out
    assert {line.split("\t")[0] for line in shown.out.splitlines()} >= {
        "WORKFLOW",
        "checkout",
        "TABLE",
        "runs",
        "entries",
    }

    body = cli("footprint", "--older", "1h", "-o", "json", *ask).json
    assert (body["schema"], body["prunable_bytes"]) == ("stepwell.footprint/1", 0)
    workflows = {one["workflow"]: one for one in body["workflows"]}
    assert workflows["checkout"]["runs"] == 1
    assert workflows["checkout"]["bytes"] > 0
    of_runs = sum(one["bytes"] for one in body["workflows"])
    assert 0 < of_runs <= sum(one["bytes"] + one["index_bytes"] for one in body["tables"]) <= body["bytes"]

    assert cli("footprint", "--workflow", "checkout", *ask).code == 2
    assert "TABLE" in cli("footprint", "--all", *ask).out


def test_a_vacuum_says_what_it_came_to_and_needs_a_database(cli: Cli, db: Shop, tmp_path: Path) -> None:
    done = cli("vacuum", "--db", db.url)
    assert (done.code, done.out.startswith("Vacuumed ")) == (0, True)
    body = cli("vacuum", "-o", "json", "--db", db.url).json
    assert (body["schema"], body["dropped"], body["after"] <= body["before"]) == ("stepwell.vacuum/1", [], True)
    assert cli("vacuum", "--db", f"sqlite:///{tmp_path}/none.db").code != 0
    assert not (tmp_path / "none.db").exists()
    assert cli("vacuum", "--db", "memory:").code != 0
