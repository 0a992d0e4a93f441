"""ls, show, why, history and result: in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell import Context, SyncEngine, workflow
from tests.edges.conftest import Cli, Shop

STATUSES = {
    "checkout": "completed",
    "approval": "waiting",
    "declined": "failed",
    "undone": "compensated",
    "stuck": "compensation_failed",
    "confused": "paused",
}


def test_below_a_page_stands_how_many_match_and_where_the_next_begins(cli: Cli, db: Shop) -> None:
    said = cli("ls", "--db", db.url, "--limit", "4")
    last = said.out.splitlines()[-1].split("\t")[1]
    assert said.err == f"4 of 6 match · next: --before {last}\n"
    rest = cli("ls", "--db", db.url, "--limit", "4", "--before", last, "--ascii")
    assert (len(rest.out.splitlines()), rest.err) == (3, "2 of 6 match\n")
    assert cli("ls", "--db", db.url).err == ""
    assert cli("ls", "--db", db.url, "--limit", "4", "-o", "json").err == ""


def test_a_wide_list_has_more_columns(cli: Cli, db: Shop) -> None:
    head = cli("ls", "--db", db.url, "-o", "wide").out.splitlines()[0]
    assert head.endswith("STARTED (UTC)\tENDED (UTC)\tTAGS\tPARENT\tSTARTED BY\tATTRIBUTES")


def test_ls_lists_every_run_newest_first_and_tab_separated_without_a_terminal(cli: Cli, db: Shop) -> None:
    said = cli("ls", "--db", db.url)

    header, *rows = [line.split("\t") for line in said.out.splitlines()]
    assert (said.code, said.err) == (0, "")
    assert header[:4] == ["KEY", "RUN", "WORKFLOW", "STATUS"]
    assert [row[1] for row in rows] == sorted(db.ids.values(), reverse=True)
    assert {len(row) for row in rows} == {len(header)}
    assert "\x1b" not in said.out


def test_ls_as_json_gives_each_run_with_its_status(cli: Cli, db: Shop) -> None:
    said = cli("--db", db.url, "-o", "json", "ls")

    assert said.json["schema"] == "stepwell.run-list/1"
    assert said.json["next"] is None
    assert {run["workflow"]: run["status"] for run in said.json["runs"]} == STATUSES


def test_ls_as_json_lines_carries_the_schema_on_each(cli: Cli, db: Shop) -> None:
    said = cli("ls", "--db", db.url, "-o", "jsonl")

    assert [json.loads(line)["schema"] for line in said.out.splitlines()] == ["stepwell.run/1"] * len(db.ids)


def test_ls_as_ids_prints_nothing_else(cli: Cli, db: Shop) -> None:
    said = cli("ls", "--db", db.url, "-o", "ids", "--status", "failed", "--status", "paused")

    assert said.out.split() == sorted([db.ids["declined"], db.ids["confused"]], reverse=True)


def test_ls_pages_by_the_last_run_of_the_page_before(cli: Cli, db: Shop) -> None:
    first = cli("ls", "--db", db.url, "-o", "json", "--limit", "4").json
    rest = cli("ls", "--db", db.url, "-o", "json", "--before", first["next"]).json

    assert [len(first["runs"]), len(rest["runs"]), rest["next"]] == [4, 2, None]


def test_ls_by_workflow_finds_only_its_runs_and_says_so_when_there_is_none(cli: Cli, db: Shop) -> None:
    assert cli("ls", "--db", db.url, "-o", "ids", "-w", "checkout").out.split() == [db.ids["checkout"]]
    nothing = cli("ls", "--db", db.url, "-w", "nothing")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "No runs match.\n")


def test_show_draws_the_tree_with_undo_marks(cli: Cli, db: Shop) -> None:
    said = cli("show", "undone-1", "--db", db.url)

    assert said.code == 0
    assert f"{db.ids['undone']}  undone v1  ↶ compensated" in said.out
    assert "├─ ✓ reserve" in said.out
    assert "↶ undone" in said.out
    assert "└─ ↶ undo (last in, first out)" in said.out


def test_show_says_what_a_run_waits_for(cli: Cli, db: Shop) -> None:
    assert "‖ approve|reject" in (text := cli("show", "approval-1", "--db", db.url).out)
    assert "waiting for signal 'approve' or 'reject' until " in text


def test_show_as_json_has_entries_waits_and_the_whole_failure(cli: Cli, db: Shop) -> None:
    waiting = cli("show", "approval-1", "--db", db.url, "-o", "json").json
    failed = cli("show", "declined-1", "--db", db.url, "-o", "json").json

    assert waiting["schema"] == "stepwell.run/1"
    assert waiting["waits"][0]["names"] == ["approve", "reject"]
    assert failed["failure"]["path"] == "charge"
    assert [(entry["path"], entry["status"]) for entry in failed["entries"]] == [("charge", "failed")]


def test_stored_text_cannot_steer_the_terminal_but_stays_whole_in_json(cli: Cli, db: Shop) -> None:
    assert "card declined" in cli("show", "declined-1", "--db", db.url).out
    for words in (["ls"], ["show", "declined-1"], ["why", "declined-1"], ["history", "declined-1"]):
        assert "\x1b" not in cli(*words, "--db", db.url).out
    raw = cli("show", "declined-1", "--db", db.url, "-o", "json")
    assert "\x1b" not in raw.out
    assert "\x1b[31mdeclined" in raw.json["failure"]["message"]


@pytest.mark.parametrize(
    ("key", "sentence", "following"),
    [
        ("approval-1", "it needs a signal 'approve' or 'reject'", "stepwell signal {id} approve"),
        ("declined-1", "has failed: Fatal: card declined (at charge)", "stepwell retry {id}"),
        ("stuck-1", "has an incomplete rollback: 1 effect is not undone", "stepwell rollback resume {id}"),
        ("confused-1", "is paused", "stepwell resume {id}"),
        ("checkout-1", "has completed", ""),
    ],
)
def test_why_says_it_in_a_sentence_with_the_command_that_helps(
    cli: Cli, db: Shop, key: str, sentence: str, following: str
) -> None:
    run_id = db.ids[key.removesuffix("-1")]
    words = cli("why", key, "--db", db.url)
    body = cli("why", key, "--db", db.url, "-o", "json").json

    assert sentence in words.out
    assert following.format(id=run_id) in words.out
    assert (body["schema"], body["run_id"]) == ("stepwell.explanation/2", run_id)
    commands = [one["command"] for one in body["next"]]
    assert (following.format(id=run_id) in commands) if following else commands == []


def test_history_lists_entries_in_order(cli: Cli, db: Shop) -> None:
    rows = [line.split("\t") for line in cli("history", "undone-1", "--db", db.url).out.splitlines()]
    body = cli("history", "undone-1", "--db", db.url, "-o", "json").json

    assert [row[1] for row in rows] == ["PATH", "reserve", "charge", "reserve~undo"]
    assert (body["schema"], body["run_id"]) == ("stepwell.history-list/1", db.ids["undone"])
    assert [entry["kind"] for entry in body["entries"]] == ["step", "step", "undo"]


def test_history_of_a_run_without_any_says_where_to_look(cli: Cli, db: Shop) -> None:
    assert "stepwell why" in cli("history", "approval-1", "--db", db.url).err


def test_result_prints_json(cli: Cli, db: Shop) -> None:
    assert cli("result", "checkout-1", "--db", db.url).json == {"text": "reserved for ann", "amount": 42}
    assert cli("result", "checkout-1", "--db", db.url, "-o", "json").json["schema"] == "stepwell.result/1"


@pytest.mark.parametrize("key", ["declined-1", "undone-1", "stuck-1", "confused-1"])
def test_result_of_a_run_that_did_not_complete_is_exit_code_7(cli: Cli, db: Shop, key: str) -> None:
    said = cli("result", key, "--db", db.url, "--timeout", "5s")

    assert (said.code, said.out) == (7, "")
    assert "engine." not in said.err


def test_result_that_does_not_come_in_time_is_exit_code_8(cli: Cli, db: Shop) -> None:
    said = cli("result", "approval-1", "--db", db.url, "--timeout", "50ms", "-o", "json")

    assert (said.code, said.error["code"]) == (8, "SW459")


def test_a_run_is_found_by_id_prefix_key_and_shortcut(cli: Cli, db: Shop) -> None:
    newest = max(db.ids.values())
    wanted = db.ids["declined"]
    prefix = next(
        wanted[:size] for size in range(1, 37) if sum(i.startswith(wanted[:size]) for i in db.ids.values()) == 1
    )

    def find(target: str) -> str:
        return cli("show", target, "--db", db.url, "-o", "ids").out.strip()

    assert [find(wanted), find(prefix), find(" Declined-1"), find("@last")] == [wanted, wanted, wanted, newest]
    assert find("@last-failed") == max(db.ids[name] for name in ("declined", "undone", "stuck"))


def test_a_prefix_of_several_ids_is_refused_with_them(cli: Cli, db: Shop) -> None:
    said = cli("show", "0", "--db", db.url)

    assert said.code == 2
    assert "prefix of several run ids" in said.err


@pytest.mark.parametrize(("target", "near"), [("chekout-1", "'checkout-1'"), ("@lats", "'@last'")])
def test_an_unknown_run_is_exit_code_4_with_a_suggestion(cli: Cli, db: Shop, target: str, near: str) -> None:
    for verb in ("show", "why", "history", "result", "cancel", "retry", "resume"):
        said = cli(verb, target, "--db", db.url)

        assert (said.code, said.out) == (4, "")
        assert f"Did you mean {near}" in said.err


def test_a_result_that_is_kept_apart_in_the_database_is_printed(cli: Cli, tmp_path: Path) -> None:
    @workflow
    async def large(ctx: Context) -> str:
        return "x" * 200_000

    url = f"sqlite:///{tmp_path}/large.db"
    with SyncEngine(url, workflows=[large], offload="database") as engine:
        engine.start(large, key="k").result()

    assert "x" * 200_000 in cli("result", "k", "--db", url).out
    assert cli("show", "k", "--db", url, "-o", "json").json["output"] == "x" * 200_000
