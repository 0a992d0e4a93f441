"""Worker processes of the demonstration: the real `stepwell worker`, to be killed for real."""

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
    """One worker in a process of its own; what it says goes to a file beside the database."""

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
        """Whether it runs."""
        return self._process.poll() is None

    def kill(self) -> bool:
        """Kill it without a warning; true if it is that which ended it."""
        was_alive = self.is_alive
        self._process.kill()
        code = self._process.wait()
        return was_alive and (code == -signal.SIGKILL if os.name == "posix" else code != 0)

    def stop(self) -> int:
        """Ask it to stop; gives its exit code."""
        self._process.terminate()
        return self._process.wait(_STOP_SECONDS_MAX)

    def clean_up(self) -> None:
        """Leave no process behind, whatever happened."""
        if self.is_alive:
            self._process.kill()
            self._process.wait()
