"""The simulation: a sample of seeds, the seeds that once failed, and the same events from the same seed."""

from __future__ import annotations

import pytest

from sim.cases.sweeps import CASES
from sim.golden import golden_programs
from tests.faults.commands import run_part, run_sim
from tests.faults.parts import count_regressions

PARTS = 4


@pytest.mark.timeout(900)
def test_a_sample_of_seeds_breaks_no_promise() -> None:
    printed = run_sim("--seeds", "120", "--first-seed", "1", "--jobs", "1")

    assert "unfinished runs                  0" in printed


@pytest.mark.timeout(900)
def test_seeds_that_once_failed_do_not_fail_again() -> None:
    assert len(run_part("regressions")) == count_regressions() > 0


@pytest.mark.timeout(900)
def test_the_same_seed_gives_the_same_events_whatever_the_hash_seed() -> None:
    first, second, third = (
        run_sim("--seeds", "12", "--first-seed", "700", "--hashes", "--jobs", "1", hash_seed=hash_seed)
        for hash_seed in ("1", "2", "31337")
    )

    assert first.count("\n") == 12
    assert first == second == third


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_fault_at_every_store_call_of_every_golden_program_breaks_no_promise(part: int) -> None:
    programs = golden_programs()[part::PARTS]

    assert run_part("sweep", str(part), str(PARTS)) == [f"{name} swept" for name in programs]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_what_users_do_comes_to_the_same_after_every_crash(part: int) -> None:
    assert run_part("cases", str(part), str(PARTS)) == [f"{name} tried" for name in list(CASES)[part::PARTS]]
