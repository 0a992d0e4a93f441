"""The garbage collector while workers run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stepwell import collector

THEIRS = (700, 10, 10)


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collector, "_before", [])
    found = gc.get_threshold()
    gc.set_threshold(*THEIRS)
    yield
    gc.set_threshold(*found)


def test_it_is_relaxed_from_the_first_worker_to_the_last() -> None:
    collector.relax()
    collector.relax()
    assert gc.get_threshold() == (collector.YOUNG_MAX, 10, 10)
    collector.restore()
    assert gc.get_threshold() == (collector.YOUNG_MAX, 10, 10)
    collector.restore()
    assert gc.get_threshold() == THEIRS


@pytest.mark.parametrize("chosen", [(0, 0, 0), (50_000, 5, 5), (2_001, 10, 10)])
def test_what_somebody_has_chosen_is_left_alone(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    collector.relax()
    assert gc.get_threshold() == chosen
    collector.restore()
    assert gc.get_threshold() == chosen


def test_what_somebody_chooses_meanwhile_stays() -> None:
    collector.relax()
    gc.set_threshold(5_000, 5, 5)
    collector.restore()
    assert gc.get_threshold() == (5_000, 5, 5)
