"""Starting and stopping, as tests: a small run of the very command that `make restarts` runs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.host.services import ROOT

# How quick it is says as much about the machine as about us: the tight bound is for `make restarts`.
HANG_SECONDS = 50


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("services", "stores", "tasks", "times"),
    [
        ("engine,sync engine,ASGI server", "sqlite,postgres", 3, 3),
        ("worker,serve,dev", "sqlite", 2, 1),
        ("serve", "postgres", 2, 1),
    ],
)
def test_nothing_hangs_and_nothing_is_left(services: str, stores: str, tasks: int, times: int):
    words = ["--services", services, "--stores", stores, "--tasks", str(tasks), "--times", str(times)]
    command = [sys.executable, "-m", "tests.host.restarts", *words, "--hang", str(HANG_SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r" (\d+) restarts .* (\d+) hangs, (\d+) left, (\d+) lost, (\d+) failed", done.stdout)
    count = len(services.split(",")) * len(stores.split(","))
    assert lines == [(str(tasks * times), "0", "0", "0", "0")] * count
