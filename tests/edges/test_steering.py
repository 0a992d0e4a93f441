"""signal, publish, cancel, retry, resume and rollback resume."""

from __future__ import annotations

import pytest

from tests.edges.conftest import Cli, Shop


def test_a_signal_is_delivered_and_waits_in_the_mailbox(cli: Cli, db: Shop) -> None:
    said = cli("signal", "approval-1", "approve", "by=ann", "amount:=3", "--db", db.url, "-o", "json")

    assert said.json == {
        "schema": "stepwell.delivery/1",
        "target": "approval-1",
        "name": "approve",
        "delivery": "delivered",
    }
    assert cli("show", "approval-1", "--db", db.url, "-o", "json").json["pending_signals"] == ["approve"]


def test_a_signal_with_the_same_dedup_key_is_sent_once(cli: Cli, db: Shop) -> None:
    words = ["signal", "approval-1", "approve", "--dedup-key", "k", "--db", db.url]

    assert "Delivered 'approve'" in cli(*words).out
    assert "Nothing sent" in cli(*words).out
    assert cli("show", "approval-1", "--db", db.url, "-o", "json").json["pending_signals"] == ["approve"]


def test_a_signal_that_nobody_waits_for_is_kept_with_a_note(cli: Cli, db: Shop) -> None:
    said = cli("signal", db.ids["approval"], "aprove", "--db", db.url)

    assert said.code == 0
    assert "The run waits for 'approve' or 'reject' now" in said.err


def test_a_signal_to_an_ended_run_is_exit_code_4_unless_it_is_to_be_held_or_dropped(cli: Cli, db: Shop) -> None:
    words = ["signal", "checkout-1", "approve", "--db", db.url]

    assert cli(*words).code == 4
    assert "Held 'approve'" in cli(*words, "--if-missing", "hold").out
    assert "Dropped 'approve'" in cli(*words, "--if-missing", "drop").out
    assert cli("signal", "nobody-yet", "hello", "--if-missing", "hold", "--db", db.url).code == 0


def test_a_signal_to_an_ended_run_names_its_end_and_is_held_for_its_key_alone(cli: Cli, db: Shop) -> None:
    by_key = cli("signal", "checkout-1", "approve", "--db", db.url, "-o", "json")
    by_id = cli("signal", db.ids["checkout"], "approve", "--if-missing", "hold", "--db", db.url, "-o", "json")

    for said in (by_key, by_id):
        assert (said.code, said.error["code"]) == (4, "SW403")
        assert said.error["message"].endswith("has ended: it is completed")
    held = cli("signal", "checkout-1", "approve", "--if-missing", "hold", "--db", db.url, "-o", "json")
    assert held.json["delivery"] == "held"


def test_cancel_ends_a_waiting_run_and_keeps_the_reason(cli: Cli, db: Shop) -> None:
    said = cli("cancel", "approval-1", "--reason", "not needed", "--db", db.url)

    run = db.status("approval-1")
    assert (said.code, run.status, run.reason) == (0, "cancelled", "not needed")
    assert "Cancelled: run" in said.out
    again = cli("cancel", db.ids["approval"], "--now", "--db", db.url, "-o", "json")
    assert (again.code, again.json["changed"]) == (0, False)


def test_retry_makes_a_failed_run_pending(cli: Cli, db: Shop) -> None:
    said = cli("retry", "declined-1", "--db", db.url, "-o", "json")

    assert said.json == {
        "schema": "stepwell.act/1",
        "run_id": db.ids["declined"],
        "status": "pending",
        "changed": True,
    }


def test_resume_makes_a_paused_run_pending(cli: Cli, db: Shop) -> None:
    assert "Resumed: run" in cli("resume", "confused-1", "--db", db.url).out
    assert db.status("confused-1").status == "pending"


def test_rollback_resume_goes_on_with_a_stalled_rollback(cli: Cli, db: Shop) -> None:
    assert cli("rollback", "resume", "stuck-1", "--db", db.url).code == 0
    assert db.status("stuck-1").status == "compensating"
    assert cli("rollback", "resume", "stuck-1", "--db", db.url).code == 0


@pytest.mark.parametrize("verb", [["cancel"], ["retry"], ["resume"], ["rollback", "resume"]])
def test_what_is_not_possible_in_a_state_is_exit_code_5(cli: Cli, db: Shop, verb: list[str]) -> None:
    said = cli(*verb, "checkout-1", "--db", db.url, "-o", "json")

    assert (said.code, said.error["code"]) == (5, "SW404")
    assert said.error["fix"] == f"stepwell why {db.ids['checkout']}"
    assert db.status("checkout-1").status == "completed"


def test_an_event_is_published_and_kept_once(cli: Cli, db: Shop) -> None:
    words = ["publish", "news", "n:=1", "--retain", "1h", "--event-id", "e1", "--db", db.url]

    assert cli(*words).out.strip() == "Published on 'news': 0 runs received it."
    assert cli(*words, "-o", "json").json == {"schema": "stepwell.publication/1", "topic": "news", "reached": 0}


@pytest.mark.parametrize("words", [["a/b"], ["news", "--retain", "soon"], ["news", "--retain", "0"]])
def test_an_event_that_is_wrong_is_refused(cli: Cli, db: Shop, words: list[str]) -> None:
    said = cli("publish", *words, "--db", db.url)

    assert said.code != 0
    assert "SW10" in said.err


def test_a_waiting_run_is_woken_and_a_deadline_is_moved(cli: Cli, db: Shop) -> None:
    assert "Woken: run" in cli("wake", "approval-1", "--reason", "a look at it", "--db", db.url).out
    shown = cli("show", "approval-1", "--db", db.url, "-o", "json").json
    assert shown["status"] == "pending"
    moved = cli("reschedule", "approval-1", "--in", "2h", "--db", db.url, "-o", "json").json
    assert (moved["schema"], moved["path"]) == ("stepwell.rescheduled/1", "approve|reject")
    assert moved["due_at"] < moved["before"]
    assert (
        "Rescheduled approve|reject of run"
        in cli("reschedule", "approval-1", "approve|reject", "--at", "2099-01-01T08:00", "--db", db.url).out
    )
    refused = cli("reschedule", "approval-1", "--db", db.url)
    assert (refused.code, "delay or until" in refused.err) == (2, True)
    wrong = cli("reschedule", "approval-1", "--at", "soon", "--db", db.url)
    assert (wrong.code, "2026-12-24T08:00" in wrong.err) == (2, True)


def test_a_run_that_cannot_be_compensated_says_why(cli: Cli, db: Shop) -> None:
    said = cli("compensate", "approval-1", "--db", db.url)

    assert (said.code, "it takes a completed run" in said.err) == (5, True)
