"""How far a long command is: on a terminal one line that is written over and over, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_TERMINAL_SECONDS = 0.2
_ELSEWHERE_SECONDS = 10.0
_LINE_WIDTH = 78
_BAR_WIDTH = 30


class Line:
    """One line of news."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._begun_at = self._told_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun_at

    def tell(self, text: str, *, at_once: bool = False, ends: bool = False) -> None:
        """Say how things are, unless that was said a moment ago."""
        now = time.monotonic()
        if now - self._told_at < (_TERMINAL_SECONDS if self._is_terminal else _ELSEWHERE_SECONDS) and not at_once:
            return
        self._told_at = now
        if self._is_terminal:
            print(f"\r{text:<{_LINE_WIDTH}}", end="\n" if ends else "", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)


class Bar:
    """How many of a known number are done."""

    def __init__(self, count: int, what: str, stream: TextIO | None = None) -> None:
        self._count = count
        self._what = what
        self._line = Line(sys.stderr if stream is None else stream)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._line.seconds

    def show(self, done: int, *news: str) -> None:
        """Say how far it is, and the news beside it."""
        bar = "#" * round(_BAR_WIDTH * done / max(self._count, 1))
        pace = f"{done / max(self.seconds, 1e-9):,.0f}/s"
        parts = [f"[{bar:<{_BAR_WIDTH}}] {done:,}/{self._count:,} {self._what}", *news, pace]
        is_over = done >= self._count
        self._line.tell(" · ".join(parts), at_once=is_over, ends=is_over)
