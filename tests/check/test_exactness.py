"""A check says of every run what a worker would do with it: nothing is missed, and nothing is alarmed about in vain.

A sample; `make check-campaign MUTATIONS=1000` runs more.
"""

from __future__ import annotations

import pytest

from stepwell.replay import rehearsals
from stepwell.replay.turn import Turn
from tests.check.campaign import Figures, run_campaign

CHANGES = {"rename", "insert", "delete", "reorder", "kind", "type", "gated insert", "declared removal"}


@pytest.fixture(scope="module")
def figures() -> Figures:
    return run_campaign(100, 1)


def test_nothing_is_missed_and_nothing_alarmed_about_in_vain(figures: Figures):
    assert figures.wrong == []
    assert figures.total == 100
    assert figures.verdicts["broken, and said so"] > 10
    assert figures.verdicts["fits, and said so"] > 50


def test_the_sample_has_every_change_and_many_states(figures: Figures):
    assert {change for change, _ in figures.changes} == CHANGES
    assert {"waiting", "pending", "running", "compensating"} <= set(figures.statuses)


def test_parked_runs_lose_nothing_and_end_under_their_own_code(figures: Figures):
    assert all(trial.harm == "" for trial in figures.wrong)
    assert set(figures.afters) <= {"completed", "failed", "compensated", "cancelled"}
    assert figures.afters.total() > 10


@pytest.mark.parametrize("blind", ["waits", "entries"])
def test_a_check_that_overlooks_something_is_caught(monkeypatch: pytest.MonkeyPatch, blind: str):
    """The campaign can fail: a rehearsal that does not look at one half of the record is found out."""
    honest = rehearsals.perform

    def overlook(workflow, run, history, codec, threads=None):
        return honest(workflow, run, history._replace(**{blind: ()}), codec, threads)

    monkeypatch.setattr("stepwell.check.dry.perform", overlook)
    assert run_campaign(400, 1, is_patient=False).wrong != []


def test_a_worker_that_overlooks_something_is_caught(monkeypatch: pytest.MonkeyPatch):
    """And so is an engine that goes on with what it should have parked."""

    def go_on(turn: Turn) -> bool:
        turn.order.is_passing = turn.order.is_rehearsal and turn.order.is_passing
        return True

    honest = Turn._has_passed
    monkeypatch.setattr(Turn, "_has_passed", lambda turn: honest(turn) if turn.order.is_rehearsal else go_on(turn))
    assert run_campaign(400, 1, is_patient=False).wrong != []
