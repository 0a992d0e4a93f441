"""Four real workers on one database, killed again and again: each tick of each schedule has one run."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwell import SyncEngine
from stepwell.clock import SECOND, Instant, to_datetime

WORKERS = 4
SCHEDULES = 5
KILLS = 6

APP = """
from stepwell import App, Context, workflow


@workflow
async def counted(ctx: Context) -> str:
    return "done"


app = App(workflows=[counted])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


@contextmanager
def fleet(url: str, folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers that are ended with the test."""
    workers = [start(url, folder) for _ in range(WORKERS)]
    try:
        yield workers
    finally:
        for each in workers:
            each.kill()
            each.wait()


def start(url: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "stepwell.cli.main", "--db", url, "worker", "app.py:app", "--lease", "2s"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.timeout(120)
def test_four_workers_with_kills_start_one_run_for_each_tick(folder: Path) -> None:
    rng, url = random.Random(4), f"sqlite:///{folder}/s.db"
    with SyncEngine(url) as engine, fleet(url, folder) as workers:
        while not [one for one in engine.workers.list() if one.is_alive]:
            time.sleep(0.1)
        names = [f"s{number}" for number in range(SCHEDULES)]
        for name in names:
            engine.schedules.create(name, workflow="counted", every="1s", overlap="allow", catch_up="all")
        begun = to_datetime(Instant((engine.now() // SECOND + 1) * SECOND))
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.2, 1.0))
            at = rng.randrange(WORKERS)
            workers[at].send_signal(signal.SIGKILL)
            workers[at].wait()
            workers[at] = start(url, folder)
        ended = to_datetime(engine.now())
        deadline = time.monotonic() + 60
        missing: dict[str, int] = {}
        while time.monotonic() < deadline:
            previews = {name: engine.schedules.preview(name, begun, ended) for name in names}
            missing = {name: sum(one.run_status != "completed" for one in ticks) for name, ticks in previews.items()}
            if not any(missing.values()):
                break
            time.sleep(0.5)
        runs = engine.runs.list("workflow:counted", limit=5_000)

    assert missing == dict.fromkeys(names, 0)
    counted = Counter((run.attributes["stepwell.schedule"], run.attributes["stepwell.fire_time"]) for run in runs)
    assert set(counted.values()) == {1}
    assert len(counted) >= SCHEDULES * KILLS // 2
