"""pause, resume, workflow ls, show, pause and resume; what show and why say of it."""

from __future__ import annotations

import pytest

from tests.edges.conftest import Cli, Shop


def test_a_paused_run_shows_who_paused_it_and_why(cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    said = cli("pause", "approval-1", "--reason", "a look at it", "--db", db.url)

    assert "Paused: run" in said.out
    assert "paused by ann: a look at it (since " in cli("show", "approval-1", "--db", db.url).out
    assert cli("show", "approval-1", "--db", db.url, "-o", "json").json["hold"]["by"] == "ann"
    why = cli("why", "approval-1", "--db", db.url)
    assert why.out.count("ann paused it at ") == 1
    assert "(reason: a look at it)." in why.out
    [cause] = cli("why", "approval-1", "--db", db.url, "-o", "json").json["chain"]
    assert (cause["kind"], cause["causes"]) == ("paused", [])
    assert [one["command"] for one in cause["next"]] == [f"stepwell resume {db.ids['approval']}"]
    assert cli("pause", "approval-1", "--db", db.url).code == 0
    assert "Resumed: run" in cli("resume", "approval-1", "--db", db.url).out
    assert db.status("approval-1").hold is None


def test_many_runs_are_paused_and_resumed_by_a_filter(cli: Cli, db: Shop) -> None:
    words = ["--where", "status:waiting", "--db", db.url]
    matched = cli("pause", *words, "--dry-run", "-o", "json").json["matched"]

    assert matched > 0
    assert cli("pause", *words, "--yes", "-o", "json").json["done"] == matched
    assert cli("ls", *words, "-o", "ids").out == ""
    paused = ["--where", "status:paused key:approval-1", "--db", db.url]
    assert cli("resume", *paused, "--yes", "-o", "json").json["done"] == 1


def test_a_workflow_is_paused_and_resumed(cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert (
        "Workflow approval would be paused: 1 run has not ended"
        in cli("workflow", "pause", "approval", "--dry-run", "--db", db.url).out
    )
    body = cli("workflow", "pause", "approval", "--reason", "the bank is down", "--db", db.url, "-o", "json").json
    assert (body["changed"], body["live_runs"]) == (True, 1)
    assert "was already paused" in cli("workflow", "pause", "approval", "--db", db.url).out

    listed = cli("workflow", "ls", "--db", db.url, "-o", "json").json["workflows"]
    assert [one["workflow"] for one in listed if one["hold"] is not None] == ["approval"]
    assert "by ann: the bank is down" in cli("workflow", "ls", "--db", db.url).out
    assert "paused by ann: the bank is down" in cli("workflow", "show", "approval", "--db", db.url).out
    why = cli("why", "approval-1", "--db", db.url).out
    assert "- ann paused workflow approval at " in why
    assert " UTC (reason: the bank is down)." in why

    assert "Workflow approval is resumed" in cli("workflow", "resume", "approval", "--db", db.url).out
    assert "is not paused" in cli("workflow", "resume", "approval", "--db", db.url).out
    acts = cli("workflow", "show", "approval", "--db", db.url, "-o", "json").json["acts"]
    assert [(act["verb"], act["workflow"], act["by"], act["reason"]) for act in acts] == [
        ("resume", "approval", "ann", ""),
        ("pause", "approval", "ann", "the bank is down"),
    ]


def test_a_workflow_shows_who_paused_it_or_everything_and_not_who_paused_others(
    cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    cli("workflow", "pause", "approval", "--reason", "the bank\x1b[2J is down", "--db", db.url)
    cli("workflow", "resume", "approval", "--db", db.url)
    cli("workflow", "pause", "checkout", "--reason", "another", "--db", db.url)
    cli("pause", "--all", "--db", db.url)

    lines = [line.split("  ")[-1] for line in cli("workflow", "show", "approval", "--db", db.url).out.splitlines()]

    assert lines[-3:-1] == ["every workflow paused by ann", "resumed by ann"]
    assert lines[-1].startswith("paused by ann: the bank")
    assert "\x1b" not in lines[-1]


def test_everything_is_paused_and_resumed(cli: Cli, db: Shop) -> None:
    assert cli("pause", "--all", "--reason", "no", "--db", db.url, "-o", "json").json["changed"]
    assert cli("workflow", "ls", "--db", db.url, "-o", "json").json["all_paused"]["reason"] == "no"
    assert "Every workflow is paused" in cli("workflow", "ls", "--db", db.url).err
    assert cli("resume", "--all", "--db", db.url, "-o", "json").json["changed"]
    assert cli("workflow", "ls", "--db", db.url, "-o", "json").json["all_paused"] is None


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["pause", "checkout-1"], 5),
        (["pause", "nobody-1"], 4),
        (["pause"], 2),
        (["pause", "approval-1", "--all"], 2),
        (["resume", "--where", "status:paused", "--all"], 2),
        (["workflow", "pause", "aproval"], 4),
        (["workflow", "resume", "aproval"], 4),
        (["workflow", "show", "aproval"], 4),
        (["workflow", "pause"], 2),
    ],
)
def test_what_cannot_be_is_refused(cli: Cli, db: Shop, words: list[str], code: int) -> None:
    said = cli(*words, "--db", db.url)

    assert said.code == code, said.err
    assert "Traceback" not in said.err
