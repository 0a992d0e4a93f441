"""Worker processes of the demonstration: the real `stepwell worker`, killed with a real SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

LEASE = "1500ms"
_STOP_SECONDS_MAX = 10
_MODULE = "stepwell.cli.demo.workflow"


class WorkerProcess:
    """One worker in a process of its own; its output goes to a file beside the database."""

    def __init__(self, name: str, db: str, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        options = ["--name", name, "--lease", LEASE]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stepwell.cli.main", "--db", db, "worker", _MODULE, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={key: value for key, value in os.environ.items() if not key.startswith("STEPWELL_")},
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it is running."""
        return self._process.poll() is None

    def kill(self) -> bool:
        """Kill it; whether this kill ended it."""
        was_alive = self.is_alive
        self._process.kill()
        code = self._process.wait()
        return was_alive and (code == -signal.SIGKILL if os.name == "posix" else code != 0)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self._process.terminate()
        return self._process.wait(_STOP_SECONDS_MAX)

    def clean_up(self) -> None:
        """Kill the process if it is still running."""
        if self.is_alive:
            self._process.kill()
            self._process.wait()
