"""ls on a terminal and in a pipe: short ids that every command takes, reasons, and no runs of stepwell itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell.addresses import open_store
from stepwell.cli.short_ids import SHORT_MIN, short_ids
from stepwell.conformance.scene import new_run
from stepwell.environment import system_environment
from tests.edges.conftest import Cli, Shop


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("stepwell.cli.output._is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    return monkeypatch


def _shorten(ids: list[str], shown: list[str], keys: dict[str, str] | None = None) -> dict[str, str]:
    async def ask() -> dict[str, str]:
        store = open_store("memory:", system_environment())
        await store.open()
        await store.runs.create([new_run(run_id, key=(keys or {}).get(run_id)) for run_id in ids])
        try:
            return await short_ids(store.views, shown)
        finally:
            await store.close()

    return asyncio.run(ask())


def test_a_short_id_is_the_shortest_prefix_that_no_other_run_of_the_store_shares() -> None:
    ids = ["abcdefgh-1111", "abcdefgh-1122", "abcdefgh-2000", "zyxwvuts-0000", "short"]

    assert _shorten(ids, ids) == {
        "abcdefgh-1111": "abcdefgh-111",
        "abcdefgh-1122": "abcdefgh-112",
        "abcdefgh-2000": "abcdefgh-2",
        "zyxwvuts-0000": "zyxwvuts",
        "short": "short",
    }
    assert _shorten(ids, ["abcdefgh-1111"]) == {"abcdefgh-1111": "abcdefgh-111"}  # also by runs that are not shown


def test_a_short_id_is_exact_where_very_many_ids_share_a_prefix() -> None:
    ids = [f"00000000-{number:04d}" for number in range(1_000)] + ["00000000-9"]

    assert _shorten(ids, ["00000000-0512", "00000000-9"]) == {
        "00000000-0512": "00000000-0512",
        "00000000-9": "00000000-9",
    }


def test_an_id_that_begins_with_another_id_stays_unique() -> None:
    ids = ["abcdefgh", "abcdefgh-1", "abcdefgh-12"]
    short = _shorten(ids, ids)

    assert short == {"abcdefgh": "abcdefgh", "abcdefgh-1": "abcdefgh-1", "abcdefgh-12": "abcdefgh-12"}


def test_a_prefix_that_is_the_key_of_another_run_is_not_used() -> None:
    ids = ["abcdefgh-1", "zyxwvuts-2"]

    assert _shorten(ids, ids, {"zyxwvuts-2": "abcdefgh"})["abcdefgh-1"] == "abcdefgh-1"


def test_every_short_id_names_its_run(cli: Cli, shop_anywhere: Shop, terminal: pytest.MonkeyPatch) -> None:
    db = shop_anywhere
    rows = [line.split() for line in cli("ls", "--db", db.url).out.splitlines()[1:]]

    assert len(rows) == len(db.ids)
    for key, short, *_ in rows:
        full = cli("show", key, "--db", db.url, "-o", "ids").out.strip()
        assert cli("show", short, "--db", db.url, "-o", "ids").out.strip() == full
        assert SHORT_MIN <= len(short) < len(full)


@pytest.mark.parametrize("form", [[], ["-o", "wide"]])
def test_without_a_terminal_ids_are_whole_and_nothing_is_cut(cli: Cli, db: Shop, form: list[str]) -> None:
    out = cli("ls", "--db", db.url, *form).out

    assert all(run_id in out for run_id in db.ids.values())
    assert "…" not in out


def test_a_wide_list_on_a_terminal_has_whole_ids(cli: Cli, db: Shop, terminal: pytest.MonkeyPatch) -> None:
    out = cli("ls", "--db", db.url, "-o", "wide").out

    assert all(run_id in out for run_id in db.ids.values())


def test_each_run_that_has_not_ended_well_has_a_reason(cli: Cli, shop_anywhere: Shop) -> None:
    db = shop_anywhere
    lines = cli("ls", "--db", db.url).out.splitlines()[1:]
    reasons = {row[0]: tuple(row[4:6]) for row in (line.split("\t") for line in lines)}

    assert reasons.pop("confused-1")[1].startswith("changed code: ")
    assert reasons.pop("approval-1")[1].startswith("waits for signal 'approve' or 'reject' until ")
    assert reasons == {
        "checkout-1": ("", ""),
        "declined-1": ("charge", "Fatal: card declined"),
        "undone-1": ("charge", "Fatal: card declined"),
        "stuck-1": ("undo of reserve", "Fatal: the stock API is down; the run failed first: Fatal: card declined"),
    }


def test_who_paused_a_run_is_its_reason(cli: Cli, db: Shop) -> None:
    cli("pause", "approval-1", "--by", "ann", "--reason", "a look", "--db", db.url)
    (row,) = [line for line in cli("ls", "--db", db.url).out.splitlines() if line.startswith("approval-1")]

    assert "paused by ann: a look" in row


def test_runs_of_stepwell_itself_are_listed_only_on_request(cli: Cli, db: Shop) -> None:
    cli("pause", "--where", "status:waiting", "--yes", "--db", db.url)

    def keys(*words: str) -> list[str]:
        return [run["key"] for run in cli("ls", "--db", db.url, "-o", "json", *words).json["runs"]]

    assert "bulk-1" not in keys()
    assert keys("--all")[0] == "bulk-1"
    assert keys("--workflow", "stepwell.bulk") == ["bulk-1"]
    assert keys("--where", "workflow:stepwell.*") == ["bulk-1"]
    assert keys("--where", "key:bulk-1") == ["bulk-1"]
    assert cli("show", "@last", "--db", db.url, "-o", "json").json["workflow"] != "stepwell.bulk"
    assert "stepwell.bulk" not in cli("versions", "--db", db.url).out


@pytest.mark.parametrize("width", ["80", "200"])
def test_the_list_fits_the_terminal(cli: Cli, db: Shop, terminal: pytest.MonkeyPatch, width: str) -> None:
    terminal.setenv("COLUMNS", width)
    lines = cli("ls", "--db", db.url).out.splitlines()

    assert max(map(len, lines)) <= int(width)
    assert lines[0].split()[:2] == ["KEY", "RUN"]
    assert "WHERE" in lines[0]
    assert any("card declined" in line for line in lines)


def test_steering_is_kept_under_the_os_user_or_the_name_that_is_given(
    cli: Cli, db: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    cli("pause", "approval-1", "--reason", "a look", "--db", db.url)
    cli("resume", "approval-1", "--by", "bea", "--db", db.url)
    cli("retry", "declined-1", "--db", db.url)

    def acts(key: str) -> list[tuple[str, str, str]]:
        body = cli("show", key, "--db", db.url, "-o", "json").json
        return [(act["verb"], act["by"], act["reason"]) for act in body["acts"]]

    assert acts("approval-1") == [("pause", "ann", "a look"), ("resume", "bea", "")]
    assert acts("declined-1") == [("retry", "ann", "")]
    assert "pause by ann: a look (waiting → paused)" in cli("show", "approval-1", "--db", db.url).out


@pytest.mark.parametrize(
    "words",
    [
        *(["cancel"], ["pause"], ["resume"], ["retry"], ["redrive"], ["rewind"], ["skip"], ["fork"], ["import"]),
        *(["rollback", "resume"], ["workflow", "pause"], ["workflow", "resume"], ["outbox", "replay"]),
        ["outbox", "drop"],
    ],
    ids=" ".join,
)
def test_every_steering_command_takes_by(cli: Cli, words: list[str]) -> None:
    said = " ".join(cli(*words, "--help").out.split())

    assert "--by NAME Who acts, kept in the audit. [default: (the OS user)]" in said


def test_show_has_the_undo_stack_of_an_incomplete_rollback(cli: Cli, db: Shop) -> None:
    body = cli("show", "stuck-1", "--db", db.url, "-o", "json").json
    text = cli("show", "stuck-1", "--db", db.url).out

    assert [(undo["path"], undo["state"]) for undo in body["undo_stack"]] == [("reserve", "failed")]
    assert body["undo_stack"][0]["failure"]["message"] == "the stock API is down"
    assert "  cause   at charge: Fatal: card declined" in text
    assert "  undo    of reserve failed: Fatal: the stock API is down" in text
    assert "traceback of the failure at charge" in text
    assert "traceback of the failed undo at reserve" in text
    assert f"  next    stepwell rollback resume {db.ids['stuck']}" in text
