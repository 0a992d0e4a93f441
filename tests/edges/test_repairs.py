"""rewind, skip, redrive and fork from the command line."""

from __future__ import annotations

from tests.edges.conftest import APP, Cli, Shop


def test_a_dry_run_shows_the_plan_and_changes_nothing(cli: Cli, db: Shop) -> None:
    said = cli("rewind", "declined-1", "charge", "--dry-run", "--db", db.url)

    assert said.code == 0
    assert "rewind planned" in said.out
    assert "run again: charge" in said.out
    assert db.status("declined-1").status == "failed"


def test_rewind_takes_a_failed_run_back(cli: Cli, db: Shop) -> None:
    said = cli("rewind", "declined-1", "charge", "--reason", "the card works now", "--db", db.url, "-o", "json")

    assert (said.json["schema"], said.json["verb"], said.json["is_applied"]) == ("stepwell.repair/1", "rewind", True)
    assert said.json["dropped"] == ["charge"]
    assert db.status("declined-1").status == "pending"


def test_rewind_says_what_is_missing_or_wrong(cli: Cli, db: Shop) -> None:
    assert cli("rewind", "declined-1", "--db", db.url).code == 2
    unknown = cli("rewind", "declined-1", "charg", "--db", db.url)
    assert unknown.code == 4
    assert "Did you mean 'charge'" in unknown.err
    ended = cli("rewind", "checkout-1", "reserve", "--db", db.url)
    assert ended.code != 0
    assert "stepwell fork" in ended.err


def test_rewind_of_many_leaves_those_alone_that_were_never_there(cli: Cli, db: Shop) -> None:
    words = ["rewind", "--where", "status:failed,paused", "charge", "--db", db.url]

    assert "match" in cli(*words, "--dry-run").out
    assert cli(*words).code != 0  # nobody can be asked
    said = cli(*words, "--yes", "-o", "json")

    outcomes = {item["run_id"]: item["outcome"] for item in said.json["items"]}
    assert outcomes == {db.ids["declined"]: "done", db.ids["confused"]: "refused"}
    assert said.code == 10


def test_skip_supplies_a_result_which_is_checked_if_the_code_is_named(cli: Cli, db: Shop) -> None:
    words = ["skip", "declined-1", "charge", "--db", db.url, "-o", "json"]

    wrong = cli(*words, "--result", "[1]", "--app", APP)
    assert wrong.code != 0
    assert "SW310" in wrong.err
    assert cli(*words, "--result", "{", "--app", APP).code != 0
    said = cli(*words, "--result", '"paid in cash"', "--app", APP)

    assert (said.code, said.json["supplied"]) == (0, ["charge"])
    again = cli(*words, "--result", '"twice"')
    assert again.code != 0
    assert "already has its result" in again.err


def test_skip_lets_a_wait_be_over(cli: Cli, db: Shop) -> None:
    said = cli("skip", "approval-1", "approve|reject", "--result", '"yes"', "--db", db.url)

    assert (said.code, db.status("approval-1").status) == (0, "pending")


def test_redrive_goes_on_from_the_failure_or_from_elsewhere(cli: Cli, db: Shop) -> None:
    words = ["redrive", "declined-1", "--db", db.url, "-o", "json"]

    edited = cli(*words, "--from", "/", "--input", '{"customer": "bo", "amount": 1}', "--dry-run", "--app", APP)
    assert (edited.json["has_new_input"], edited.json["kept"], edited.json["is_applied"]) == (True, [], False)
    assert cli(*words, "--input", '{"customer": 1}', "--app", APP).code != 0
    assert cli(*words, "--version", "old").code == 2
    assert cli(*words, "--result", "1").code == 2
    done = cli(*words)
    assert (done.code, done.json["dropped"], done.json["is_applied"]) == (0, ["charge"], True)
    assert cli(*words).code != 0


def test_redrive_of_many_counts_what_it_did(cli: Cli, db: Shop) -> None:
    said = cli("redrive", "--where", "status:failed", "--yes", "--db", db.url, "-o", "json")

    assert (said.code, said.json["done"], said.json["refused"]) == (0, 1, 0)


def test_fork_makes_a_run_of_its_own(cli: Cli, db: Shop) -> None:
    said = cli("fork", "checkout-1", "--from", "reserve", "--key", "Again", "--db", db.url, "-o", "json")

    assert (said.code, said.json["verb"], said.json["is_applied"]) == (0, "fork", True)
    shown = cli("show", "again", "--db", db.url, "-o", "json").json
    assert (shown["run_id"], shown["forked_from"]) == (said.json["fork_id"], db.ids["checkout"])
    assert "forked from" in cli("show", "again", "--db", db.url).out
    assert cli("fork", "checkout-1", "--db", db.url).code == 2
