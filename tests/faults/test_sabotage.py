"""Testing the tester: an engine that is broken on purpose is caught within the default number of seeds."""

from __future__ import annotations

import pytest

from tests.faults.commands import run_part
from tests.faults.parts import SWITCHES

PARTS = 4


def test_there_are_enough_switches() -> None:
    assert len(SWITCHES) >= 130


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_switch_is_caught(part: int) -> None:
    assert run_part("sabotage", str(part), str(PARTS)) == [f"{name} caught" for name in SWITCHES[part::PARTS]]
