"""The benchmark measures what it says: on the smallest workload there is, with counts that hold on any machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import Report, at_least, at_most

ROOT = Path(__file__).resolve().parents[2]


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "--quick", *arguments], cwd=ROOT, capture_output=True, text=True
    )


def _figures(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    """Figure and mark by the name of the line."""
    assert done.returncode == ("MISSED" in done.stdout), done.stderr
    lines = re.findall(r"^  (\S.*?|  \S.*?) {2,}([\d.,]+(?: / [\d.,]+)?)(?:  .*?)?(ok|MISSED)?$", done.stdout, re.M)
    return {name.strip(): (figure, mark) for name, figure, mark in lines}


def test_every_measure_runs_on_sqlite() -> None:
    figures = _figures(_bench("--store", "sqlite"))
    assert {name.split()[0] for name in figures} >= {"raw", "W1", "W2", "map", "W3", "W4", "W5", "W7", "W8", "resume"}
    assert figures["W3  commits per 1-step run"] == ("2.00", "ok")
    assert figures["commits from a signal to the end of the run"] == ("2.00", "")
    assert figures["W7  rows scanned by them"] == ("0", "ok")


def test_postgres_is_measured_on_a_durable_server_with_workers_of_their_own() -> None:
    done = _bench("--store", "postgres", "--only", "w1,W2,W3,enqueue,resume")
    figures = _figures(done)
    assert "fsync=on, synchronous_commit=on" in done.stdout
    assert figures["W1  ratio to the limit"][1] == ""
    assert figures["W2  10 runs x 2 steps, worker processes: 2"]
    assert figures["start to first step in another process, p50/p99 ms"]
    assert figures["W3  commits per 1-step run"] == ("2.00", "ok")
    assert figures["W3  round trips per sequential step"] == ("1.00", "ok")
    assert figures["round trips to load it"] == ("1", "ok")
    assert not any(name.startswith("W5") for name in figures)


def test_an_unknown_measure_is_refused_with_the_names_of_all() -> None:
    done = _bench("--only", "W1,W99")
    assert done.returncode == 2
    assert "choose among limits, W1, W2, W3" in done.stderr


@pytest.mark.parametrize(("value", "is_good"), [(0.5, False), (0.7, True)])
def test_a_missed_target_is_said_and_remembered(
    value: float, is_good: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report()
    report.timed("ratio", f"{value}", *at_least(value, 0.7))
    assert report.is_good is is_good
    assert capsys.readouterr().out.split() == ["ratio", f"{value}", ">=", "0.70", "ok" if is_good else "MISSED"]


def test_times_of_a_workload_that_is_too_small_are_not_judged_and_counts_are() -> None:
    report = Report(judges_times=False)
    report.timed("p99", "300", *at_most(300, 100))
    assert report.is_good
    report.line("round trips", "4", *at_most(4, 3))
    assert not report.is_good


def test_the_surfaces_and_records_are_measured() -> None:
    done = _bench("--store", "sqlite", "--only", "surfaces,records")
    figures = _figures(done)
    assert {"records  a decision with a signal, in signals", "first 50 of a state"} <= {
        name.removeprefix("records    ") for name in figures
    }, done.stderr
    assert {"ls    everything", "ls    tag:team=blue", "ls    sort:-started"} <= {*figures}, done.stderr
    assert figures["GET /api/runs  answers that are not 200"] == ("0", "ok")
    assert figures["GET /api/runs  requests/s"]
    assert figures["SSE  times slower than without them"]
