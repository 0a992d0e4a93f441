"""Nothing outlives the process that started it: a watcher ends a dead owner's servers and removes their folders.

A server belongs to the folder that its processes work in, so a folder is all that has to be watched: there is no list
of process ids that could be incomplete or out of date. The watcher is a process of its own, because it has to survive
whatever ends its owner, SIGKILL included; it learns of that from the end of its standard input. The parent-death signal
of Linux would not do: it is sent when the starting *thread* ends, cannot remove a folder, and exists nowhere else.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import psutil

_PATIENCE_SECONDS = 10.0


def processes_in(folder: Path) -> list[psutil.Process]:
    """The living processes whose working directory is the folder or below it."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # gone, a zombie, or somebody else's: not ours in every case
    return found


def end_processes(folder: Path, sign: signal.Signals) -> None:
    """Send the signal to every process in the folder until none is left; those that ignore it are killed.

    Returns when all are gone. Raises TimeoutError when even SIGKILL does not end them.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    told: set[int] = set()
    while left := processes_in(folder):
        now = time.monotonic()
        if now > deadline + _PATIENCE_SECONDS:
            raise TimeoutError(f"processes {[process.pid for process in left]} in {folder} survive SIGKILL")
        for process in left:
            try:
                if now > deadline:
                    process.kill()
                elif process.pid not in told:
                    told.add(process.pid)
                    process.send_signal(sign)
            except psutil.NoSuchProcess:
                pass
        time.sleep(0.005)


class Guard:
    """Our end of the watcher: one per process, started with the first folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watcher: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def watch(self, folder: Path) -> None:
        """From now on the folder and the processes in it end with this process at the latest.

        When that cannot be had the folder, which must still be empty, is removed at once.
        """
        try:
            self._tell("+", folder)
        except BaseException:
            folder.rmdir()
            raise

    def forget(self, folder: Path) -> None:
        """The folder is gone already, or kept on purpose."""
        self._tell("-", folder)

    def close(self) -> None:
        """End the watcher, and with it everything that is still watched."""
        with self._lock:
            watcher, self._watcher = self._watcher, None
            # A forked child has a copy of this object; the watcher is not its own to end.
            if watcher is not None and self._owner == os.getpid():
                _stdin(watcher).close()
                watcher.wait()

    def _tell(self, sign: str, folder: Path) -> None:
        with self._lock:
            if self._watcher is None or self._owner != os.getpid():
                self._watcher = subprocess.Popen(
                    [sys.executable, "-P", str(Path(__file__).resolve())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,  # what is typed at the terminal ends its owner, not the watcher
                )
                self._owner = os.getpid()
            stream = _stdin(self._watcher)
            stream.write(f"{sign}{folder}\n".encode())
            stream.flush()


def _stdin(watcher: subprocess.Popen[bytes]) -> IO[bytes]:
    assert watcher.stdin is not None
    return watcher.stdin


guard = Guard()
atexit.register(guard.close)


def _watch() -> None:
    folders: set[Path] = set()
    for line in sys.stdin:
        folder = Path(line[1:].rstrip("\n"))
        if line[0] == "+":
            folders.add(folder)
        else:
            folders.discard(folder)
    for folder in folders:
        # SIGQUIT is PostgreSQL's immediate shutdown, and ends everything else as well.
        end_processes(folder, signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch()
