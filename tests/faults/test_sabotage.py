"""Testing the tester: an engine that is broken on purpose is caught within the default number of seeds."""

from __future__ import annotations

import os

import pytest

from sim.sabotage import SWITCHES
from tests.faults.commands import run_sim


def test_there_are_enough_switches() -> None:
    assert len(SWITCHES) >= 18


@pytest.mark.timeout(400)
def test_every_switch_is_caught() -> None:
    printed = run_sim("--sabotage", "all", "--jobs", str(min(2, os.cpu_count() or 1)))

    assert f"{len(SWITCHES)} of {len(SWITCHES)} switches caught" in printed
