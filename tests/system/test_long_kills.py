"""kill -9 in the middle of long steps and of transactional steps: what was kept is there, rows and records agree."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Engine
from tests.system import long_worker
from tests.system.fleet import ROOT

KILLS = 25
SECONDS_MAX = 60.0


class Killed:
    """A worker that is started and killed again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def lines(self) -> list[str]:
        path = self.folder / long_worker.LEDGER
        return path.read_text().splitlines() if path.exists() else []

    def spawn(self) -> None:
        command = [sys.executable, "-m", "tests.system.long_worker", str(self.folder)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)

    async def start(self) -> None:
        ups = self.lines().count("up")
        self.spawn()
        await self.until(lambda: self.lines().count("up") > ups)

    async def until(self, found: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not found():
            assert time.monotonic() < deadline, "it never came to that"
            await asyncio.sleep(0.005)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None


def read(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(folder / long_worker.DATABASE))
    connection.set_busy_timeout(5_000)
    rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    connection.close()
    return rows


def check_rows(folder: Path) -> int:
    """Rows and records of the bookings agree; how many there are."""
    [(whole,)] = read(folder, "select count(*) from bookings where number > 0")
    [(other,)] = read(folder, "select count(*) from bookings where number < 0")
    recorded = "select count(*) from stepwell_entries e join stepwell_runs r on r.id = e.run where r.key = 'booking'"
    [(records,)] = read(folder, recorded)
    assert whole == other == records
    return int(whole)


def check_pages(lines: list[str]) -> int:
    """Every turn begins at or behind the last page whose checkpoint had returned; how many turns there were."""
    kept, turns = 0, 0
    for line in lines:
        word, _, number = line.partition(" ")
        if word == "kept":
            kept = int(number)
        elif word == "from":
            turns += 1
            assert kept <= int(number) <= kept + 1, f"page {kept} was kept, and a turn began at {number}"
    return turns


@pytest.mark.timeout(240)
async def test_kills_lose_no_checkpoint_and_part_no_row_from_its_record(tmp_path: Path) -> None:
    rng, worker = random.Random(7), Killed(tmp_path)
    async with Engine(f"sqlite:///{tmp_path / long_worker.DATABASE}") as client:
        await client.transact(lambda tx: tx.execute("create table bookings (number integer not null unique)"))
        await client.runs.start_by_name("paging", 1, 100_000, key="paging")
        await client.runs.start_by_name("booking", 1, 100_000, key="booking")
        booked = [0]
        for _ in range(KILLS):
            await worker.start()
            begun, pages = booked[-1], len(worker.lines())
            await worker.until(lambda: check_progress(tmp_path, begun) and len(worker.lines()) > pages + 3)  # noqa: B023
            await asyncio.sleep(rng.random() * 0.1)
            worker.kill()
            booked.append(check_rows(tmp_path))
            check_pages(worker.lines())
        status = await client.status("paging")

    assert booked == sorted(set(booked))
    assert check_pages(worker.lines()) > KILLS
    assert status is not None
    assert status.progress[0].turns > 0
    # The step that was under way at the last kill may be recorded as begun.
    assert not read(tmp_path, "select 1 from stepwell_attempts where failure is not null")


def check_progress(folder: Path, before: int) -> bool:
    """Whether anything was booked since."""
    [(booked,)] = read(folder, "select count(*) from bookings where number > 0")
    return int(booked) > before
