"""start: with the code at hand, and by name alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edges.conftest import APP, Cli, Shop


def test_start_stores_a_run_and_warns_that_nobody_serves_it(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    said = cli("--app", APP, "--db", url, "start", "checkout", "customer=bo", "amount:=7", "--key", "K 1")

    assert said.code == 0
    assert "Started checkout v1 run" in said.out
    assert "(key k 1)" in said.out
    assert "No live worker serves checkout v1" in said.err
    run = cli("show", "k 1", "--db", url, "-o", "json").json
    assert (run["status"], run["input"]) == ("pending", {"customer": "bo", "amount": 7})


def test_start_with_a_known_key_gives_the_run_that_has_it(cli: Cli, db: Shop) -> None:
    words = ["start", "checkout", "customer=ann", "--key", "checkout-1", "--app", APP, "--db", db.url]
    same = cli(*words, "amount:=42", "-o", "json").json
    other = cli(*words, "amount:=43")

    assert (same["run_id"], same["is_new"], same["same_input"]) == (db.ids["checkout"], False, True)
    assert f"Nothing was started: run {db.ids['checkout']} has the key 'checkout-1' and has already ended" in other.err
    assert "Its input differs from yours." in other.err
    assert "To start a new run with this key: --dedup 0s\n" in other.err


def test_start_whose_key_a_failed_run_has_warns_also_beside_ids_and_dedup_starts_anew(cli: Cli, db: Shop) -> None:
    words = ["start", "declined", "customer=ann", "amount:=42", "--key", "declined-1", "--app", APP, "--db", db.url]
    found = cli(*words, "-o", "ids")
    anew = cli(*words, "-o", "ids", "--dedup", "0s")

    assert found.out.strip() == db.ids["declined"]
    assert "has already ended (failed at " in found.err
    assert f"stepwell retry {db.ids['declined']}" in found.err
    assert (anew.out.strip() != db.ids["declined"], anew.err) == (True, "")


def test_input_for_a_workflow_that_takes_none_is_rejected_before_it_is_stored(cli: Cli, db: Shop) -> None:
    said = cli("start", "approval", "amount:=0", "--app", APP, "--db", db.url)

    assert (said.code, said.out) == (2, "")
    assert "approval takes no input" in said.err
    assert len(cli("ls", "--db", db.url, "-o", "ids").out.split()) == len(db.ids)


def test_input_may_be_a_file_with_single_fields_on_top(cli: Cli, db: Shop, tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"customer": "cy", "amount": 1}')
    said = cli("start", "checkout", f"@{tmp_path}/order.json", "amount:=2", "--app", APP, "--db", db.url, "-o", "ids")

    body = cli("show", said.out.strip(), "--db", db.url, "-o", "json").json
    assert body["input"] == {"customer": "cy", "amount": 2}


def test_wrong_input_lists_every_violation_and_stores_nothing(cli: Cli, db: Shop) -> None:
    words = ["start", "checkout", "amount=4O", "colour=red", "--app", APP, "--db", db.url]
    said, body = cli(*words), cli(*words, "-o", "json").error

    assert (said.code, said.out) == (2, "")
    assert body["code"] == "SW310"
    assert len(body["violations"]) >= 2
    assert all(name in said.err for name in ("amount", "customer"))
    assert len(cli("ls", "--db", db.url, "-o", "ids").out.split()) == len(db.ids)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["amount:={oops"], "not JSON"),
        (["amount:=NaN"], "NaN"),
        (['amount:={"a":1,"a":2}'], "twice"),
        (["amount=1", "amount=2"], "twice"),
        (["nonsense"], "has no name"),
        (["=x"], "has no name"),
        ([":=0"], "has no name"),
        (["@/nowhere/at/all.json"], "cannot read"),
        (["-", "@x"], "only one"),
    ],
)
def test_input_that_cannot_be_read_is_exit_code_2(cli: Cli, db: Shop, words: list[str], why: str) -> None:
    said = cli("start", "checkout", *words, "--db", db.url)

    assert said.code == 2
    assert why in said.err


def test_every_unreadable_field_is_named_at_once(cli: Cli, db: Shop) -> None:
    said = cli("start", "checkout", "a:=x", "b:=y", "c", "--db", db.url, "-o", "json")

    assert [violation[:3] for violation in said.error["violations"]] == ["`a`", "`b`", "'c'"]


def test_start_by_name_alone_takes_what_the_database_knows(cli: Cli, db: Shop) -> None:
    said = cli("start", "checkout", "customer=di", "amount:=5", "--db", db.url, "-o", "json")

    assert (said.code, said.json["version"], said.json["input"]) == (0, 1, {"customer": "di", "amount": 5})


@pytest.mark.parametrize("app", [[], ["--app", APP]])
def test_an_unknown_workflow_is_exit_code_4_with_a_suggestion(cli: Cli, db: Shop, app: list[str]) -> None:
    said = cli("start", "chekout", *app, "--db", db.url, "-o", "json")

    assert (said.code, said.error["code"]) == (4, "SW402")
    assert "Did you mean 'checkout'" in said.error["message"]


def test_waiting_for_a_run_that_nobody_executes_stops_at_the_timeout(cli: Cli, db: Shop) -> None:
    words = ["start", "checkout", "customer=a", "amount:=1", "--app", APP, "--db", db.url]

    assert cli(*words, "--wait", "--timeout", "50ms").code == 8
    assert cli(*words, "--timeout", "1s").code == 2


def test_what_is_said_about_a_start_is_stored_and_shown(cli: Cli, db: Shop) -> None:
    words = ["start", "checkout", "customer=ann", "amount:=1", "--app", APP, "--db", db.url, "--key", "urgent"]
    said = cli(*words, "--priority", "5", "--tag", "team=shop", "--tag", "vip", "--deadline", "2h", "-o", "json").json

    assert (said["priority"], said["tags"]) == (5, {"team": "shop", "vip": ""})
    assert said["deadline_at"] > said["created_at"]
    again = cli(*words, "--on-conflict", "raise", "-o", "json").error
    assert again["code"] == "SW405"
    assert said["run_id"] in str(again)
    replaced = cli(*words, "--on-conflict", "replace", "-o", "json").json
    assert cli("show", said["run_id"], "--db", db.url, "-o", "json").json["replaced_by"] == replaced["run_id"]


@pytest.mark.parametrize(
    "words", [["--priority", "1000"], ["--deadline", "soon"], ["--tag", "=x"], ["--max-suspend", "-1s"]]
)
def test_options_without_meaning_store_nothing(cli: Cli, db: Shop, words: list[str]) -> None:
    said = cli("start", "checkout", "customer=ann", "amount:=1", "--app", APP, "--db", db.url, *words, "-o", "json")

    assert (said.code != 0, said.error["code"]) == (True, "SW103")
    assert len(cli("ls", "--db", db.url, "-o", "ids").out.split()) == len(db.ids)


def test_a_run_is_started_with_attributes_listed_and_shown(cli: Cli, db: Shop) -> None:
    attributes = ["region=eu", "amount:=42.10", "vip:=true", "due:=2026-12-01T09:30", "note=a=b"]
    options = [part for one in attributes for part in ("--attr", one)]
    words = ["start", "checkout", "customer=bo", "amount:=7", "--app", APP, "--db", db.url, "--key", "typed"]
    said = cli(*words, *options, "--title", "Order for Bo", "--by", "ann", "--tag", "team=shop", "-o", "json").json

    assert (said["title"], said["started_by"]) == ("Order for Bo", "ann")
    typed = {"amount": 42.1, "due": "2026-12-01T09:30:00+00:00", "note": "a=b", "region": "eu", "vip": True}
    assert said["attributes"] == typed
    shown = cli("show", "typed", "--db", db.url).out
    assert "title Order for Bo\n" in shown
    assert "attributes amount=42.10, due=2026-12-01T09:30:00Z, note=a=b, region=eu, vip=true\n" in shown
    assert "tags team=shop\n" in shown
    assert "started by ann\n" in shown
    where = ["ls", "--db", db.url, "--where"]
    assert cli(*where, "attr.amount:>42 started_by:ann", "-o", "ids").out.split() == [said["run_id"]]
    wide = cli(*where, "sort:attr.amount", "-o", "wide").out
    assert "Order for Bo" in wide
    assert "amount=42.10, due=" in wide
    assert cli(*where, "attr.region:<7").err.startswith("SW407  attribute 'region' is text, and 7 is a number")


@pytest.mark.parametrize("attribute", ["region", "=eu", "n:=soon", "a b=1", "n:=NaN", "n:=2026-13-01"])
def test_an_attribute_that_cannot_be_read_starts_nothing(cli: Cli, db: Shop, attribute: str) -> None:
    words = ["start", "checkout", "customer=bo", "amount:=7", "--app", APP, "--db", db.url, "--key", "none"]
    said = cli(*words, "--attr", attribute)

    assert (said.code != 0, said.out) == (True, "")
    assert "  fix  " in said.err
    assert len(cli("ls", "--db", db.url, "-o", "ids").out.split()) == len(db.ids)
