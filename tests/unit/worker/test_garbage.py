"""The garbage collector while workers run."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from stepwell.worker import garbage

THEIRS = (700, 10, 10)


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(garbage, "_before", [])
    found = gc.get_threshold()
    gc.set_threshold(*THEIRS)
    yield
    gc.set_threshold(*found)


def test_it_is_relaxed_from_the_first_worker_to_the_last() -> None:
    garbage.relax()
    garbage.relax()
    assert gc.get_threshold() == (garbage.YOUNG_MAX, 10, 10)
    garbage.restore()
    assert gc.get_threshold() == (garbage.YOUNG_MAX, 10, 10)
    garbage.restore()
    assert gc.get_threshold() == THEIRS


@pytest.mark.parametrize("chosen", [(0, 0, 0), (50_000, 5, 5), (2_001, 10, 10)])
def test_what_somebody_has_chosen_is_left_alone(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    garbage.relax()
    assert gc.get_threshold() == chosen
    garbage.restore()
    assert gc.get_threshold() == chosen


def test_a_worker_without_work_leaves_little_behind() -> None:
    garbage.relax()
    gc.collect()
    gone = [weakref.ref(made) for made in [_Cycle() for _ in range(20_000)]]
    assert gone[0]() is not None
    garbage.tidy()
    assert not any(made() for made in gone)
    garbage.restore()


class _Cycle:
    def __init__(self) -> None:
        self.own = self


def test_what_somebody_chooses_meanwhile_stays() -> None:
    garbage.relax()
    gc.set_threshold(5_000, 5, 5)
    garbage.restore()
    assert gc.get_threshold() == (5_000, 5, 5)
