"""The simulation's arithmetic: what is known without it comes out of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bench.scale.costs import Costs, line_through
from bench.scale.simulation import Outcome, Setup, knee, simulate

COSTS = Costs(
    claim_s=0.001,
    claim_row_s=0.0001,
    skip_row_s=0.0,
    commit_s=0.002,
    commit_row_s=0.0002,
    flush_s=0.003,
    round_trip_s=0.004,
    worker_step_s=0.005,
)
EXACT = Setup(workers=1, batch=2, steps=3, cores=1, spread=0.0, cycles=500)


def test_a_worker_alone_takes_the_sum_of_its_service_times() -> None:
    claim = 0.004 + 0.001 + 2 * 0.0001 + 0.003
    each_step = 2 * 0.005 + 0.004 + 0.002 + 2 * 0.0002 + 0.003

    outcome = simulate(COSTS, EXACT)

    assert COSTS.cycle(batch=2, steps=3) == pytest.approx(claim + 3 * each_step)
    assert outcome.claim_p50_s == pytest.approx(claim)
    assert outcome.claim_p99_s == pytest.approx(claim)
    assert outcome.runs_per_s == pytest.approx(2 / (claim + 3 * each_step), rel=0.01)


def test_a_worker_alone_is_busy_for_its_part_of_the_cycle() -> None:
    outcome = simulate(COSTS, EXACT)

    cycle = COSTS.cycle(batch=2, steps=3)
    assert outcome.workers_busy == pytest.approx(3 * 2 * 0.005 / cycle, rel=0.01)
    assert outcome.cores_busy == pytest.approx(2 * COSTS.core_per_run(batch=2, steps=3) / cycle, rel=0.01)
    assert outcome.log_busy == pytest.approx(4 * 0.003 / cycle, rel=0.01)
    assert outcome.commits_per_flush == 1.0


def test_two_workers_that_never_meet_do_twice_as_much() -> None:
    free = replace(COSTS, flush_s=0.0)
    setup = replace(EXACT, cores=2)

    assert simulate(free, replace(setup, workers=2)).runs_per_s == pytest.approx(
        2 * simulate(free, setup).runs_per_s, rel=0.01
    )


@pytest.mark.parametrize("cores", [1, 4])
def test_many_workers_get_what_the_cores_of_the_database_give(cores: int) -> None:
    quick_log = replace(COSTS, flush_s=0.0)

    outcome = simulate(quick_log, Setup(workers=300, batch=2, steps=3, cores=cores, cycles=20))

    assert outcome.runs_per_s == pytest.approx(cores / COSTS.core_per_run(batch=2, steps=3), rel=0.02)
    assert outcome.cores_busy == pytest.approx(1.0, abs=0.01)
    assert outcome.bottleneck == "database cores"


def test_a_slow_log_carries_all_who_wait_for_it_at_once() -> None:
    slow_log = replace(COSTS, flush_s=1.0)

    outcome = simulate(slow_log, Setup(workers=50, batch=2, steps=3, cores=64, spread=0.0, cycles=30))

    # Whoever comes back from a flush just misses the next one: a write takes two, and each carries half of them.
    assert outcome.bottleneck == "waits for the log"
    assert outcome.claim_p50_s == pytest.approx(2.0)
    assert outcome.commits_per_flush == pytest.approx(50 / 2, rel=0.01)
    assert outcome.runs_per_s == pytest.approx(50 * 2 / (4 * 2.0), rel=0.01)


def test_rows_that_others_hold_make_claims_longer() -> None:
    setup = Setup(workers=100, batch=10, steps=1, cores=8, cycles=20)

    apart, among = simulate(COSTS, setup), simulate(replace(COSTS, skip_row_s=0.0001), setup)

    assert among.claim_p50_s > apart.claim_p50_s
    assert among.runs_per_s < apart.runs_per_s


def test_the_same_seed_gives_the_same_and_another_one_does_not() -> None:
    setup = Setup(workers=20, seed=7)

    assert simulate(COSTS, setup) == simulate(COSTS, setup)
    assert simulate(COSTS, setup) != simulate(COSTS, replace(setup, seed=8))


def test_more_workers_never_do_much_less_as_long_as_nothing_is_held() -> None:
    rates = [simulate(COSTS, Setup(workers=count, cycles=20)).runs_per_s for count in (1, 3, 10, 30, 100)]

    assert all(later >= 0.97 * earlier for earlier, later in pairwise(rates))


def test_what_limits_is_named_only_where_it_leaves_no_room() -> None:
    outcome = Outcome(1, 1.0, 0.0, 0.0, cores_busy=0.5, log_busy=0.4, workers_busy=0.2, commits_per_flush=1.0)

    assert outcome.bottleneck == "waits for answers"
    assert outcome._replace(workers_busy=0.95).bottleneck == "workers"
    assert outcome._replace(log_busy=0.95).bottleneck == "waits for the log"
    assert outcome._replace(log_busy=1.0, cores_busy=0.95).bottleneck == "database cores"


def test_the_knee_is_the_smallest_fleet_that_comes_close_to_the_most() -> None:
    outcomes = [
        Outcome(count, rate, 0, 0, 0, 0, 0, 1) for count, rate in [(1, 10), (2, 20), (5, 46), (10, 50), (20, 48)]
    ]

    assert knee(outcomes).workers == 5


def test_a_line_finds_the_fixed_part_and_the_part_for_each() -> None:
    assert line_through({1: 3.0, 10: 21.0, 100: 201.0}) == pytest.approx((1.0, 2.0))
    assert line_through({1: 5.0, 10: 5.0}) == pytest.approx((5.0, 0.0))


def test_a_line_never_gives_time_back() -> None:
    fixed, each = line_through({1: 1.0, 10: 20.0})

    assert fixed == 0.0
    assert each > 0


def test_costs_are_kept_in_a_file_that_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "costs.json"
    COSTS.save(path)

    assert Costs.load(path) == COSTS
    path.write_text('{"claim_s": 1}')
    with pytest.raises(ValueError, match="does not have the costs"):
        Costs.load(path)
