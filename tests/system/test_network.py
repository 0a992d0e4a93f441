"""Faults of the network between workers and PostgreSQL: a small run of the very command that `make network` runs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.system.fleet import ROOT
from tests.system.links import FAULTS


@pytest.mark.timeout(300)
def test_every_kind_of_fault_of_the_network_loses_nothing_and_work_goes_on() -> None:
    words = ["--faults", str(len(FAULTS)), "--workers", "2", "--active", "6", "--lease", "1", "--seed", "7"]
    command = [sys.executable, "-m", "tests.system.network", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)

    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    told = {name: int(figure) for name, figure in re.findall(r"^  (\w[\w -]*?) {2,}(\d+)(?:  |$)", done.stdout, re.M)}
    assert {fault: told[f"{fault}s"] for fault in FAULTS} == dict.fromkeys(FAULTS, 1)
    assert [told[name] for name in ("lost acks", "double commits", "unfinished", "orphans", "workers")] == [0] * 5
    assert told["results acknowledged"] > 0
