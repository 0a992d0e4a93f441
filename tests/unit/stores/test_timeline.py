"""The time of a store: it never goes back and never stops."""

from __future__ import annotations

import random

import pytest

from stepwell.clock import Instant, SystemClock
from stepwell.environment import Environment, SystemExecutor
from stepwell.ids import SystemIds
from stepwell.stores.base.timeline import EXCESS, FLOOR_LAG, Anchor, Timeline
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.virtual.clock import ManualClock


def test_the_time_is_that_of_the_clock_while_it_runs() -> None:
    times, clock = Timeline(), ManualClock()
    for _ in range(5):
        clock.advance("7ms")
        assert times.now(clock) == clock.now()


@pytest.mark.parametrize("seed", range(20))
def test_processes_that_share_an_anchor_never_show_an_earlier_instant_and_never_stop(seed: int) -> None:
    chance, clock = random.Random(seed), ManualClock()
    processes, stored, last, latest = [Timeline() for _ in range(3)], Anchor(), Instant(0), clock.now()
    for _ in range(500):
        passed = chance.choice((0, 3, 900, 20_000, 5_000_000))
        clock.advance(f"{passed}us")
        if chance.random() < 0.05:
            clock.jump_back(f"{chance.choice((10_000, 60_000_000, 7_200_000_000))}us")
        if chance.random() < 0.02:
            clock.jump(3_600)
        latest = max(latest, clock.now())
        one = chance.choice(processes)
        one.adopt(stored, clock)
        now = one.now(clock, others_wrote=True)
        stored = one.anchor
        assert now >= last
        assert now >= last + passed // 2 - EXCESS
        last = now
    assert last <= latest + clock.uptime() + 500 * EXCESS


def test_an_anchor_of_another_machine_is_only_a_lower_limit() -> None:
    times, clock = Timeline(), ManualClock()
    times.adopt(Anchor(Instant(clock.now() + 60_000_000), -5_000_000_000, "elsewhere"), clock)

    assert times.now(clock) == clock.now() + 60_000_000 + FLOOR_LAG + EXCESS


def test_all_clocks_of_the_machine_name_the_same_boot() -> None:
    one, two = SystemClock(), SystemClock()

    assert one.boot == two.boot != ""
    assert one.uptime() <= two.uptime()


def test_the_time_of_a_store_in_memory_continues_after_the_clock_was_set_back() -> None:
    clock = ManualClock()
    store = SqliteStore(Environment(clock, SystemIds(clock), random.Random(1), SystemExecutor()), ":memory:")
    before = store.now()
    clock.jump_back("1m")
    clock.advance("10s")

    assert store.now() == before + 10_000_000
