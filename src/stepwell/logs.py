"""Log records that name the run, path and attempt they come from: as text for people, or as JSON for programs.

A record that a step's body writes carries its place, in any logger and also from a thread of the body. Attach `PLACES`
to your own handlers to get the same fields there; `configure` sets up the root logger.
"""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol

from stepwell.printable import escape_json, escape_lines
from stepwell.redaction import FILTER, redact

LogFormat = Literal["text", "json"]

_KINDS_MAX: Final = 1_000
_KIND_CHARS: Final = 200
_PLAIN: Final = re.compile(r"[^\s\"=]+")

FIELDS: Final = ("run", "key", "workflow", "path", "attempt")
OUTCOME: Final = "outcome"  # of a record about a run or a step: what became of it. Text has it in the message.


class RunningBody(Protocol):
    """A body that is running."""

    @property
    def place(self) -> tuple[str, str | None, str, str, int]:
        """Run, key, workflow, path and attempt."""
        ...


RUNNING_BODY: Final[ContextVar[RunningBody | None]] = ContextVar("stepwell_running_body", default=None)


class PlaceFilter(logging.Filter):
    """Gives every record `run`, `key`, `workflow`, `path` and `attempt` of the body that wrote it; None outside."""

    def filter(self, record: logging.LogRecord) -> bool:
        body = RUNNING_BODY.get()
        place = (None,) * len(FIELDS) if body is None else body.place
        for name, value in zip(FIELDS, place, strict=True):
            # A field that the caller passed with `extra` stays.
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


PLACES: Final = PlaceFilter()


class TextFormatter(logging.Formatter):
    """One line for people, with the place at its end.

    Quoted text cannot control a terminal or forge a record: control characters are escaped, and lines after the first
    are indented.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return escape_lines(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        place = [f"{name}={_quoted(value)}" for name in FIELDS if (value := getattr(record, name, None)) is not None]
        return redact(" ".join([super().formatMessage(record), *place]))

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's own name
        return redact(super().formatException(ei))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger and message; where known also run, key, workflow, path, attempt,
    outcome and error.
    """

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name in (*FIELDS, OUTCOME):
            value = getattr(record, name, None)
            if value is not None:
                facts[name] = redact(value) if isinstance(value, str) else value
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if trace:
            facts["error"] = redact(trace)
        return escape_json(json.dumps(facts, ensure_ascii=False, default=str))


def _quoted(value: object) -> str:
    """A field as text. A value with spaces or quotes is quoted, so that it cannot look like several fields."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class Bounded(logging.Filter):
    """Passes a limited number of records of one kind in each window. The next record reports how many were dropped.

    For loggers that remote callers can make write: dropped lines are better than a full disk.
    """

    def __init__(self, *, lines_max: int = 20, window_seconds: float = 60.0) -> None:
        super().__init__()
        self._lines_max, self._window_seconds = lines_max, window_seconds
        self._seen: dict[tuple[str, int, str], list[float]] = {}  # → start of its window, passed, dropped

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.name, record.levelno, str(record.msg)[:_KIND_CHARS])
        if kind not in self._seen and len(self._seen) >= _KINDS_MAX:
            kind = (record.name, record.levelno, "")  # one window for all others
        window = self._seen.setdefault(kind, [record.created, 0, 0])
        if not 0 <= record.created - window[0] < self._window_seconds:
            window[0], window[1] = record.created, 0
        if window[1] >= self._lines_max:
            window[2] += 1
            return False
        window[1] += 1
        if window[2]:
            record.msg, record.args = f"{record.getMessage()} ({int(window[2])} more like this were dropped)", ()
            window[2] = 0
        return True


def configure(form: LogFormat, *, level: int = logging.WARNING, force: bool = True) -> None:
    """Let the root logger write to stderr in this form. Its other handlers are removed; without `force`, a root logger
    that has handlers is left as it is.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(FILTER)
    handler.addFilter(PLACES)
    logging.basicConfig(level=level, handlers=[handler], force=force)
