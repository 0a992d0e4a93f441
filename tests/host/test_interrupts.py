"""Ctrl-C: at every wait of a program, and as a real signal to a real process until it is gone."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepwell import Engine
from tests.host import interrupts, persistent, second_interrupts
from tests.host.persistent import EXPECTED, FLOWS, SETTINGS

SECONDS_MAX = 60  # what is not gone by then hangs


def test_ctrl_c_at_every_wait_loses_nothing_and_leaves_no_thread(tmp_path: Path):
    command = [sys.executable, interrupts.__file__, str(tmp_path), "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["wrong"], told["threads"]) == ([], [])
    assert told["interrupts"] > 15
    assert told["acknowledged"] > 50


def test_a_second_ctrl_c_ends_a_shutdown_at_once_wherever_it_is(tmp_path: Path):
    command = [sys.executable, second_interrupts.__file__, str(tmp_path), "23", "350"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["interrupts"] == 22
    assert told["slowest"] < second_interrupts.HANGS_SECONDS


@pytest.mark.parametrize("kind", ["Engine", "SyncEngine"])
@pytest.mark.parametrize("presses", [1, 9], ids=["once", "until it is gone"])
def test_a_process_that_gets_ctrl_c_ends_and_another_goes_on(tmp_path: Path, kind: str, presses: int):
    url, acks = f"sqlite:///{tmp_path}/persistent.db", tmp_path / "acks"
    acks.touch()
    for delay in (0.05, 0.4):
        before = len(acks.read_bytes())
        process = subprocess.Popen([sys.executable, persistent.__file__, kind, url, str(acks)], stderr=subprocess.PIPE)
        deadline = time.monotonic() + SECONDS_MAX
        while len(acks.read_bytes()) == before and process.poll() is None:
            assert time.monotonic() < deadline, "it never came to that"
            time.sleep(0.01)
        time.sleep(delay)
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.3 if presses > 1 else SECONDS_MAX)
                break
            except subprocess.TimeoutExpired:
                continue
        _, said = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == -signal.SIGINT, said.decode()

    asyncio.run(check(url, acks.read_text()))


async def check(url: str, acks: str) -> None:
    """Everything that was acknowledged is there, and comes to its end."""
    lines = [line.split() for line in acks.splitlines()]
    started = {key for kind, key in lines if kind == "started"}
    ended = {key for kind, key in lines if kind == "ended"}
    assert started > ended
    async with asyncio.timeout(SECONDS_MAX), Engine(url, workflows=FLOWS, settings=SETTINGS) as engine:
        views = {key: await engine.status(key) for key in started}
        assert [key for key, view in views.items() if view is None] == []
        assert {await engine.result(key) for key in started} == {EXPECTED}
