"""A program in a pseudo-terminal: type keys, wait for words, read what it showed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_PATIENCE_SECONDS = 30.0


class TerminalError(AssertionError):
    """What was waited for did not come."""


class Session:
    """One program with a terminal of its own, which is also its controlling terminal."""

    def __init__(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], rows: int = 50, columns: int = 120
    ) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._fd = ours
        self._is_closed = False
        self.raw = ""  # everything it has written so far
        self._at = 0  # up to where `expect` has looked
        self._process = subprocess.Popen(
            words,
            cwd=cwd,
            env=dict(env),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.hang_up()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def text(self) -> str:
        """What it has written, without colours."""
        return _ESCAPES.sub("", self.raw)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def expect(self, pattern: str, *, seconds: float = _PATIENCE_SECONDS) -> re.Match[str]:
        """Wait for words (a regular expression) behind those that were waited for last."""
        until = time.monotonic() + seconds
        while True:
            found = re.compile(pattern).search(self.text, self._at)
            if found is not None:
                self._at = found.end()
                return found
            if time.monotonic() > until or not self._read(0.05):
                raise TerminalError(f"{pattern!r} did not come; it showed:\n{self.text[self._at :]}")

    def end(self, *, seconds: float = _PATIENCE_SECONDS) -> int:
        """Wait until the program has ended; gives its exit code."""
        until = time.monotonic() + seconds
        while self._read(0.05):
            if time.monotonic() > until:
                raise TerminalError(f"it did not end; it showed:\n{self.text[self._at :]}")
        return self._process.wait(seconds)

    def hang_up(self) -> None:
        """Close the terminal, as somebody does who closes its window."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self._fd)

    def _read(self, seconds: float) -> bool:
        """Take what it has written; false once nobody can write any more."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return True
        try:
            found = os.read(self._fd, 65_536)
        except OSError:  # the other end is closed
            return False
        self.raw += found.decode(errors="replace")
        return bool(found)
