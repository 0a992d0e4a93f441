"""A real uvicorn that reloads an application with an engine in it, as somebody who saves a file has it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from stepwell import SyncEngine
from tests.servers.ports import HOST, Port

SECONDS_MAX = 60.0
RELOADS = 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).with_name("reloaded.py"), tmp_path / "shop.py")
    return tmp_path


@pytest.fixture
def api(folder: Path) -> Iterator[httpx.Client]:
    port = Port()
    variables = os.environ | {"DB": f"sqlite:///{folder}/shop.db", "BODIES": str(folder / "bodies")}
    words = [
        "--reload",
        "--reload-dir",
        str(folder),
        "--host",
        HOST,
        "--port",
        str(port.number),
        "--log-level",
        "warning",
    ]
    command = [sys.executable, "-m", "uvicorn", "shop:application", *words]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://{HOST}:{port.number}", timeout=SECONDS_MAX) as client:
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SECONDS_MAX)
        finally:
            process.kill()
            process.wait()
            port.release()


def until(ask: Callable[[], int | None]) -> int:
    """What it answers, once it does."""
    deadline = time.monotonic() + SECONDS_MAX
    while (answer := ask()) is None:
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)
    return answer


def test_a_reload_loses_no_run_and_leaves_no_lease(folder: Path, api: httpx.Client):
    def pid(other_than: int = 0) -> int | None:
        try:
            found = int(api.get("/who").json())
        except httpx.TransportError:
            return None
        return None if found == other_than else found

    runs: list[str] = []
    pids = [until(pid)]
    for _ in range(RELOADS):
        for number in range(4):
            started = api.post("/api/runs", json={"workflow": "flow", "input": number})
            assert started.status_code in (200, 201, 202), started.text
            runs.append(started.json()["run"]["run_id"])
        (folder / "shop.py").touch()
        pids.append(until(lambda: pid(other_than=pids[-1])))
    for run in runs:
        assert api.get(f"/api/runs/{run}/result", params={"wait": 50}).status_code == 200, run

    assert len(set(pids)) == RELOADS + 1
    with SyncEngine(f"sqlite:///{folder}/shop.db") as engine:
        assert sum(worker.is_alive for worker in engine.workers.list()) == 1
        assert {run.status for run in engine.runs.list()} == {"completed"}
    # A reload is an orderly stop: bodies end, and none runs again. Leases are longer than this test.
    ran = Counter(line.split()[0] for line in (folder / "bodies").read_text().splitlines())
    assert ran == dict.fromkeys(runs, 2)
    assert "Traceback" not in (folder / "log").read_text()
