"""A newcomer: an empty folder, a home without anything in it, and the `stepwell` of this environment on the path."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest

from tools.terminal.session import Session

_PATIENCE_SECONDS = 60.0


class Dev:
    """A `stepwell dev` without a terminal, whose JSON lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._at = 0
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def expect(self, name: str, **facts: Any) -> dict[str, Any]:
        """The next event of this name and with these facts, behind those that were waited for."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            for number in range(self._at, len(self.events)):
                event = self.events[number]
                if event.get("event") == name and all(event.get(key) == value for key, value in facts.items()):
                    self._at = number + 1
                    return event
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.02)
        raise AssertionError(f"no {name} {facts} came: {self.events[self._at :]}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and give the exit code."""
        self.process.send_signal(number)
        return self.process.wait(_PATIENCE_SECONDS)


class Ground(NamedTuple):
    """Where a newcomer is."""

    folder: Path
    env: dict[str, str]

    def run(self, *words: str, within: str = "hello") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            words, cwd=self.folder / within, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )

    def terminal(self, *words: str, within: str = "hello") -> Session:
        """Run a command in a terminal."""
        return Session(words, cwd=self.folder / within, env=self.env)

    def dev(self, *words: str) -> Dev:
        """`stepwell dev` without a terminal, in JSON lines."""
        process = subprocess.Popen(
            ["stepwell", "dev", "--log-format", "json", *words],
            cwd=self.folder / "hello",
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return Dev(process)

    def browser(self) -> Callable[[], list[str]]:
        """Put a program in place of the browser. Returns a way to ask which pages it was told to open."""
        program, pages = self.folder / "browser", self.folder / "pages"
        program.write_text(f'#!/bin/sh\necho "$1" >> {pages}\n', encoding="utf-8")
        program.chmod(0o755)
        self.env["BROWSER"] = f"{program} %s"
        return lambda: pages.read_text(encoding="utf-8").splitlines() if pages.exists() else []

    def edit(self, change: Callable[[str], str]) -> None:
        """Save another text of the workflow."""
        file = self.folder / "hello" / "app.py"
        file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    home = tmp_path / "home"
    home.mkdir()
    env = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "BROWSER": "true",
    }
    if "PYTHONPATH" in os.environ:
        env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return Ground(tmp_path, env)


@pytest.fixture
def hello(ground: Ground) -> Ground:
    """A ground with the first project in it."""
    made = ground.run("stepwell", "new", "hello", within=".")
    assert made.returncode == 0, made.stderr
    return ground


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip().startswith("Z") and bool(state.strip())


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    patience = time.monotonic() + _PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < patience, "it did not come about"
        time.sleep(0.02)
