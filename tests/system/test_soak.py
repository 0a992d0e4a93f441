"""How the soak tells growth from noise; and a very short one, of the command that `make soak` runs."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from tests.system.fleet import ROOT
from tests.system.soak_figures import HOUR, Point, judge, slope

CHANCE = random.Random(1)


def series(per_hour: float, *, seconds: float = HOUR, noise: float = 0.0, start: float = 50.0) -> list[Point]:
    """A figure that is looked at every five seconds."""
    times = [5.0 * number for number in range(int(seconds / 5))]
    return [Point(at, start + per_hour * at / HOUR + CHANCE.uniform(-noise, noise)) for at in times]


def test_a_slope_is_not_moved_by_a_few_odd_points() -> None:
    points = series(12.0)
    points[3] = Point(points[3].at, 900.0)
    points[-2] = Point(points[-2].at, 0.0)

    assert slope(points) * HOUR == pytest.approx(12.0, rel=0.05)


def test_an_hour_of_noise_is_good_and_a_leak_of_a_dozen_megabytes_is_not() -> None:
    flat = judge("worker", "RSS", series(0.0, noise=2.0), warm_at=HOUR / 3)
    leaking = judge("worker", "RSS", series(12.0, noise=2.0), warm_at=HOUR / 3)

    assert flat is not None
    assert flat.is_good
    assert leaking is not None
    assert not leaking.is_good
    assert leaking.text.startswith("FAIL  worker")


def test_what_was_taken_before_it_was_warm_does_not_count() -> None:
    warming = [Point(at, 40.0 + min(at, 1_200.0) / 100) for at in range(0, 3_600, 5)]

    verdict = judge("worker", "RSS", warming, warm_at=1_200)

    assert verdict is not None
    assert verdict.is_good


def test_a_log_that_reaches_its_limit_once_is_told_of() -> None:
    points = series(0.0, start=2.0)
    points[10] = Point(points[10].at, 66.0)

    verdict = judge("database", "WAL", points, warm_at=HOUR / 3)

    assert verdict is not None
    assert not verdict.is_good


def test_too_little_is_not_judged() -> None:
    assert judge("worker", "RSS", series(1.0, seconds=5), warm_at=0.0) is None


@pytest.mark.timeout(240)
def test_a_short_soak_tells_every_figure_of_the_worker_the_client_and_the_database() -> None:
    command = [sys.executable, "-m", "tests.system.soak", "--minutes", "0.1", "--store", "sqlite", "--every", "1"]
    load = ["--active", "10", "--kill-every", "2"]
    done = subprocess.run(command + load, cwd=ROOT, capture_output=True, text=True, timeout=220, check=False)

    # Six seconds tell nothing of growth: that is judged, and not asked for here.
    told = set(re.findall(r"^  (?:ok  |FAIL)  (\w+) +(\w+)", done.stdout, re.MULTILINE))
    figures = {("worker", "RSS"), ("worker", "fds"), ("worker", "tasks"), ("client", "RSS"), ("database", "WAL")}
    assert figures <= told, done.stdout + done.stderr
    assert re.search(r"sqlite: [\d,]+ runs ended, \d+ kills", done.stdout)
