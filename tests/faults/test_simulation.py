"""The simulation: a sample of seeds, the seeds that once failed, and the same events from the same seed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.commands import run_sim

JOBS = str(min(2, os.cpu_count() or 1))
SEEDS = (Path(__file__).parent / "regression_seeds.txt").read_text(encoding="utf-8").splitlines()
REGRESSIONS = [line.split("#")[0].split() for line in SEEDS if line.split("#")[0].strip()]


@pytest.mark.timeout(300)
def test_a_sample_of_seeds_breaks_no_promise() -> None:
    printed = run_sim("--seeds", "120", "--first-seed", "1", "--jobs", JOBS)

    assert "unfinished runs                  0" in printed


@pytest.mark.timeout(300)
def test_seeds_that_once_failed_do_not_fail_again() -> None:
    for seed, store, mode in REGRESSIONS:
        run_sim("--seeds", "1", "--first-seed", seed, "--store", store, "--mode", mode, "--jobs", "1")


@pytest.mark.timeout(300)
def test_the_same_seed_gives_the_same_events_whatever_the_hash_seed() -> None:
    first, second, third = (
        run_sim("--seeds", "24", "--first-seed", "700", "--hashes", "--jobs", "1", hash_seed=hash_seed)
        for hash_seed in ("1", "2", "31337")
    )

    assert first.count("\n") == 24
    assert first == second == third


@pytest.mark.timeout(300)
def test_a_fault_at_every_store_call_of_every_golden_program_breaks_no_promise() -> None:
    printed = run_sim("--sweep", "--store", "sqlite", "--mode", "live", "--jobs", JOBS)

    assert " 0 violations" in printed
