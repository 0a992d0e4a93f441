"""The storms, as tests: small ones, of the very command that `make storm` runs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.system.fleet import ROOT

# How quick a takeover is says as much about the machine as about us: the tight bound is for `make storm`.
TAKEOVER_SECONDS_MAX = 15


def storm(*arguments: str, seconds_max: int) -> dict[str, int]:
    """Let a storm rage over a store; its figures, by name. It must say that all promises held."""
    command = [sys.executable, "-m", "tests.system.storm", *arguments, "--takeover", str(TAKEOVER_SECONDS_MAX)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds_max, check=False)

    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    figures = re.findall(r"^  (\w[\w ]*?) {2,}(\d+)(?:  |$)", done.stdout, re.MULTILINE)
    return {name: int(figure) for name, figure in figures}


@pytest.mark.timeout(600)
def test_kills_lose_no_acknowledged_result_and_commit_nothing_twice() -> None:
    counts = ("--kills", "40", "--stops", "4", "--terms", "4")
    figures = storm("--store", "sqlite", *counts, "--seconds", "18", seconds_max=580)

    assert [figures[name] for name in ("kills", "stops", "terms")] == [40, 4, 4]
    assert [figures[name] for name in ("lost acks", "double commits", "orphans")] == [0, 0, 0]
    assert figures["results acknowledged"] > 0


@pytest.mark.timeout(600)
def test_neither_kills_of_the_server_nor_a_promotion_lose_an_acknowledged_result() -> None:
    counts = ("--kills", "15", "--stops", "4", "--terms", "1", "--server-kills", "2", "--promotions", "1")
    load = ("--workers", "3", "--active", "12", "--seconds", "10")
    figures = storm("--store", "postgres", *counts, *load, seconds_max=580)

    assert [figures[name] for name in ("kills", "stops", "server kills", "promotions")] == [15, 4, 2, 1]
    assert [figures[name] for name in ("lost acks", "double commits", "orphans", "zombies")] == [0, 0, 0, 0]
    assert figures["results acknowledged"] > 0
