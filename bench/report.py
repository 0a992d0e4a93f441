"""What is printed: lines of figures with their targets on stdout, and on stderr what is being measured."""

from __future__ import annotations

import sys

from tools.progress import Line


def at_most(value: float, allowed: float | None, words: str = "") -> tuple[str, bool | None]:
    """The target of a line, and whether a value meets it."""
    return ("", None) if allowed is None else (f"{words}<= {allowed:,g}", value <= allowed)


def at_least(value: float, needed: float, words: str = "") -> tuple[str, bool | None]:
    """As `at_most`, the other way round."""
    return f">= {needed:,.2f}{words}" if needed < 10 else f">= {needed:,.0f}{words}", value >= needed


class Report:
    """Remembers whether all targets held. What is timed is not judged where the workload is too small for that."""

    def __init__(self, *, judges_times: bool = True) -> None:
        self.is_good = True
        self._judges_times = judges_times
        self._progress = Line(sys.stderr)

    def heading(self, text: str) -> None:
        """Begin the figures of one store."""
        self._clear()
        print(text, flush=True)

    def line(self, name: str, figure: str, target: str = "", holds: bool | None = None) -> None:
        """Print a count, and whether it is what it must be; nothing is asked of it if `holds` is None."""
        mark = "" if holds is None else ("  ok" if holds else "  MISSED")
        self.is_good = self.is_good and holds is not False
        self._clear()
        print(f"  {name:<50}  {figure:>15}   {target:<38}{mark}".rstrip(), flush=True)

    def timed(self, name: str, figure: str, target: str = "", holds: bool | None = None) -> None:
        """`line`, for a figure that depends on the machine and on how much is measured."""
        self.line(name, figure, target, holds if self._judges_times else None)

    def detail(self, text: str) -> None:
        """Say what the line before is made of."""
        self._clear()
        print(f"      {text}", flush=True)

    def say(self, what: str) -> None:
        """Tell whoever watches what is being measured now."""
        self._progress.tell(f"… {self._progress.seconds:4.0f} s  {what}", at_once=True)

    def _clear(self) -> None:
        """A figure takes the place of what was said last."""
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
