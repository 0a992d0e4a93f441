"""Events of `stepwell dev` as lines: words for people, or JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from stepwell.cli.output import Output
from stepwell.cli.texts import clean, dump_json

SCHEMA: Final = "stepwell.dev/1"
LogFormat = Literal["text", "json"]

_ASCII: Final = str.maketrans(
    {
        "✓": "+",
        "✕": "x",
        "‖": "=",
        "↶": "<",
        "↻": "@",
        "⚠": "!",
        "⊘": "-",
        "●": "*",
        "·": "-",
        "→": "->",
        "…": "...",
    }
)


class Event(NamedTuple):
    """One thing that happened."""

    name: str  # in JSON
    words: str
    at: datetime
    run_id: str = ""
    run_name: str = ""  # its key, or its id
    facts: dict[str, Any] = {}  # noqa: RUF012  never changed


class Printer:
    """Prints events, one line for each. While a question is open they wait, so that the typed answer stays visible."""

    def __init__(self, out: Output, log_format: LogFormat) -> None:
        self._out = out
        self.is_json = log_format == "json"
        self._held: list[str] | None = None
        self._last_run = ""
        self.on_lost: Callable[[], None] = lambda: None  # called when the output is closed

    def tell(self, event: Event) -> None:
        """Print one event."""
        if self.is_json:
            body = {"schema": SCHEMA, "event": event.name, "at": event.at.isoformat()}
            if event.run_id:
                body["run_id"] = event.run_id
            self._print(dump_json({**body, **event.facts}, is_compact=True))
            return
        line = f"{event.at.astimezone():%H:%M:%S} {event.words}"
        if event.run_id and event.run_id != self._last_run and event.run_name not in event.words:
            line += f"  · run {event.run_name}"
        self._last_run = event.run_id or self._last_run
        self.say([line])

    def say(self, lines: Iterable[str]) -> None:
        """Print lines that are for people only."""
        if not self.is_json:
            for line in lines:
                bare = line.lstrip(" ")
                shown = " " * (len(line) - len(bare)) + clean(bare)
                self._print(shown.translate(_ASCII) if self._out.ascii else shown)

    def hold(self) -> None:
        """Collect lines instead of printing them."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Print the collected lines."""
        held, self._held = self._held or [], None
        for line in held:
            self._print(line)

    def _print(self, line: str) -> None:
        if self._held is not None:
            self._held.append(line)
            return
        try:
            self._out.line(line)
        except OSError:  # the terminal was closed, or the reader of the pipe has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.on_lost()
