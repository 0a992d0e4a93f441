"""One program under every interpreter of this machine, and under each of its switches: the same comes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.host import errands
from tests.host.errands import EXPECTED
from tests.host.interpreters import MINORS, ROOT, find_interpreter, python_with_packages


def run_errands(
    python: Path, folder: Path, *, switches: tuple[str, ...] = (), words: tuple[str, ...] = (), **variables: str
) -> tuple[Mapping[str, Any], str]:
    """What the program printed, as data, and what it complained of."""
    command = [str(python), "-W", "error", *switches, errands.__file__, f"sqlite:///{folder}/errands.db", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("minor", MINORS)
def test_every_python_that_is_here_runs_the_errands(minor: int, tmp_path: Path):
    interpreter = find_interpreter(minor)
    if interpreter is None:
        pytest.skip(f"this machine has no Python 3.{minor}")
    python = python_with_packages(minor, interpreter)

    told, complaints = run_errands(python, tmp_path)

    assert told["python"].startswith(f"3.{minor}.")
    assert {name: told[name] for name in EXPECTED} == EXPECTED
    assert complaints == ""


def test_uvloop_runs_the_errands(tmp_path: Path):
    told, complaints = run_errands(Path(sys.executable), tmp_path, words=("--loop", "uvloop"))

    assert told["loop"] == "uvloop"
    assert {name: told[name] for name in EXPECTED} == EXPECTED
    assert complaints == ""


def test_the_debug_mode_of_asyncio_finds_no_call_from_a_wrong_thread(tmp_path: Path):
    told, complaints = run_errands(Path(sys.executable), tmp_path, switches=("-X", "dev"), words=("--debug",))

    assert {name: told[name] for name in EXPECTED} == EXPECTED
    # It also says which callbacks were slow, which a busy machine makes of any.
    assert [line for line in complaints.splitlines() if not line.startswith("Executing <")] == []


def test_the_errands_do_without_assertions(tmp_path: Path):
    told, complaints = run_errands(Path(sys.executable), tmp_path, switches=("-OO",))

    assert {name: told[name] for name in EXPECTED} == EXPECTED | {"optimised": True}
    assert complaints == ""


def test_the_errands_do_without_the_collector(tmp_path: Path):
    told, complaints = run_errands(Path(sys.executable), tmp_path, words=("--no-collector",))

    assert {name: told[name] for name in EXPECTED} == EXPECTED
    assert complaints == ""


def test_a_process_with_another_hash_seed_goes_on_with_what_one_has_left(tmp_path: Path):
    """Sets and dicts of texts have another order in each process, and nothing that is stored may depend on it."""
    program = Path(__file__).with_name("halves.py")
    url = f"sqlite:///{tmp_path}/halves.db"
    said = []
    for number, seed in enumerate(("0", "1", "2", "42")):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-W", "error", str(program), url, str(number)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        said.append(json.loads(done.stdout))

    assert said[:3] == ["waiting"] * 3
    assert said[3] == [["ann", "bob", "cyd", "dan"], ["0", "1", "2"], {"tags": ["x", "y", "z"]}]
