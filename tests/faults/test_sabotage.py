"""Testing the tester: an engine that is broken on purpose is caught within the default number of seeds."""

from __future__ import annotations

import pytest

from sim.sabotage.outside import DEFECTS
from sim.sabotage.switches import EVERY
from tests.faults.commands import run_part
from tests.faults.parts import SWITCHES, share

PARTS = 4


def test_there_are_enough_switches() -> None:
    assert len(SWITCHES) >= 155


def test_every_defect_that_users_found_has_a_switch_that_brings_it_back() -> None:
    assert [*DEFECTS] == [*(f"K{number}" for number in range(1, 19)), "R1", "R2", "R3"]
    assert all(names and set(names) <= {*SWITCHES, *EVERY} for names in DEFECTS.values())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_switch_is_caught(part: int) -> None:
    assert run_part("sabotage", str(part), str(PARTS)) == [f"{name} caught" for name in share(part, PARTS)]


def test_the_parts_have_every_switch() -> None:
    assert sorted(name for part in range(PARTS) for name in share(part, PARTS)) == sorted(SWITCHES)
