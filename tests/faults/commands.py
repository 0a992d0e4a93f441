"""Runs the simulation as people do: in a process of its own, from the repository's root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_sim(*args: str, hash_seed: str = "0") -> str:
    """What `python -m sim` prints; fails the test with its output if it does not exit with 0."""
    return _run("sim", args, hash_seed)


def run_part(*args: str) -> list[str]:
    """The lines that `python -m tests.faults.parts` prints; fails as `run_sim` does."""
    return _run("tests.faults.parts", args, "0").splitlines()


def _run(module: str, args: tuple[str, ...], hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "STORE": "", "MODE": ""}
    done = subprocess.run(
        [sys.executable, "-m", module, *args], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
