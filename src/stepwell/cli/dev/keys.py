"""Keys of a terminal, one at a time and without Enter, and questions with a line as the answer."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_ENTER: Final = ("\r", "\n")
_RUBOUT: Final = ("\x7f", "\b")
_ESCAPE: Final = "\x1b"
_END: Final = "\x04"


class Question:
    """A question on the last line of the terminal."""

    def __init__(self, text: str, answer: Callable[[str | None], None]) -> None:
        self.answer = answer
        self.typed: str | None = ""  # None: cancelled
        _write(text)

    def take(self, key: str) -> bool:
        """Take one key; true once Enter answers the question, or Escape cancels it."""
        if key in (_ESCAPE, _END):
            self.typed = None
        if key in (*_ENTER, _ESCAPE, _END):
            _write("\n")
            return True
        assert self.typed is not None
        if key in _RUBOUT:
            if self.typed:
                self.typed = self.typed[:-1]
                _write("\b \b")
        elif key.isprintable():
            self.typed += key
            _write(key)
        return False


class Keys:
    """Passes each key to the open question, or else to the listener."""

    def __init__(self, pressed: Callable[[str], None]) -> None:
        self._pressed = pressed
        self._question: Question | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    @staticmethod
    def are_there() -> bool:
        """Whether this process has a terminal to read keys from."""
        if os.name != "posix" or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return False
        return os.getpgrp() == os.tcgetpgrp(sys.stdin.fileno())

    def ask(self, text: str, answer: Callable[[str | None], None]) -> None:
        """Ask a question; the answer is None if it was cancelled."""
        self._question = Question(text, answer)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Read keys inside the block; after it, the terminal is restored."""
        import termios
        import tty

        loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
        before = termios.tcgetattr(fd)
        tty.setcbreak(fd, termios.TCSANOW)
        loop.add_reader(fd, self._read, fd)
        try:
            yield
        finally:
            loop.remove_reader(fd)
            termios.tcsetattr(fd, termios.TCSADRAIN, before)

    def _read(self, fd: int) -> None:
        try:
            found = os.read(fd, 1024)
        except OSError:
            found = b""
        if not found:
            # The terminal is gone. Reading again would never end.
            asyncio.get_running_loop().remove_reader(fd)
            return
        text = self._decoder.decode(found)
        if text.startswith(_ESCAPE) and len(text) > 1:
            return  # an arrow, or another key with more than one character
        for key in text:
            if self._question is None:
                self._pressed(key)
            elif self._question.take(key):
                question, self._question = self._question, None
                question.answer(None if question.typed is None else question.typed.strip())


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
