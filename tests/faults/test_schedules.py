"""Schedules in simulation: a few seeds of the intact engine, and switches that must be noticed."""

from __future__ import annotations

import pytest

from sim.sabotage.schedules import SCHEDULE_SWITCHES, broken
from sim.schedules import Size, simulate_schedules

_SMALL = Size(6, 14, 2)
# The first seed that catches a switch; `python -m sim.schedules` runs larger stories.
_SEEDS = {
    "tick-dealt-with-twice": 1,
    "tick-left-out": 1,
    "change-of-a-schedule-whatever-it-is-now": 1,
    "run-of-a-tick-with-another-id": 1,
    "every-missed-tick-started": 1,
    "window-forgotten": 1,
    "active-run-overlooked": 2,
    "continued-run-counts-as-ended": 2,
    "replaced-runs-go-on": 2,
    "held-tick-lost": 2,
    "resumed-with-the-ticks-of-its-pause": 28,
    "delay-left-out": 1,
    "unknown-workflow-loses-its-ticks": 7,
}


@pytest.mark.parametrize("seed", [1, 2, 6, 7])
def test_each_due_tick_is_dealt_with_once_as_declared(seed: int) -> None:
    report = simulate_schedules(seed, size=_SMALL)

    assert report.violations == []
    assert report.stats["ticks started"] > 30
    assert report.stats["complete schedules"] > 0


def test_every_switch_has_a_seed() -> None:
    assert _SEEDS.keys() == SCHEDULE_SWITCHES.keys()


@pytest.mark.parametrize("name", SCHEDULE_SWITCHES)
def test_every_switch_is_caught(name: str) -> None:
    with broken(SCHEDULE_SWITCHES[name]):
        report = simulate_schedules(_SEEDS[name], size=_SMALL)

    assert report.violations
