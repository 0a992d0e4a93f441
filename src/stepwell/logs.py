"""Log records with the run, path and attempt that wrote them: as lines for people, or as JSON for programs.

A record that a step's body writes, in any logger and in any of its threads, carries its place. Attach `PLACES` to your
own handlers to get the same there; `configure` sets up the root logger.
"""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol

from stepwell.printable import escape_json, escape_lines
from stepwell.redaction import FILTER, redact

LogFormat = Literal["text", "json"]

_KINDS_MAX: Final = 1_000
_KIND_CHARS: Final = 200

FIELDS: Final = ("run", "workflow", "path", "attempt")


class RunningBody(Protocol):
    """A running body."""

    @property
    def place(self) -> tuple[str, str, str, int]:
        """Run, workflow, path and attempt."""
        ...


RUNNING_BODY: Final[ContextVar[RunningBody | None]] = ContextVar("stepwell_running_body", default=None)


class PlaceFilter(logging.Filter):
    """Adds `run`, `workflow`, `path` and `attempt` of the body that wrote a record; None outside a body."""

    def filter(self, record: logging.LogRecord) -> bool:
        doing = RUNNING_BODY.get()
        place = (None, None, None, None) if doing is None else doing.place
        for name, value in zip(FIELDS, place, strict=True):
            # A value that the writer passed in `extra` is kept.
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


PLACES: Final = PlaceFilter()


class TextFormatter(logging.Formatter):
    """One line for people, with the place at its end. Quoted text cannot control a terminal: control characters are
    escaped, and further lines are indented.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return escape_lines(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        place = [f"{name}={value}" for name in FIELDS if (value := getattr(record, name, None)) is not None]
        return redact(" ".join([super().formatMessage(record), *place]))

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's own name
        return redact(super().formatException(ei))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, message; and run, workflow, path, attempt, error if known."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        facts |= {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if trace:
            facts["error"] = redact(trace)
        return escape_json(json.dumps(facts, ensure_ascii=False, default=str))


class Bounded(logging.Filter):
    """Limits the records of one kind in each window, and adds to the next record how many it dropped.

    For loggers that clients can trigger: a full disk does more harm than a lost line.
    """

    def __init__(self, *, lines_max: int = 20, window_seconds: float = 60.0) -> None:
        super().__init__()
        self._lines_max, self._window_seconds = lines_max, window_seconds
        self._seen: dict[tuple[str, int, str], list[float]] = {}  # → when its window began, passed, dropped

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.name, record.levelno, str(record.msg)[:_KIND_CHARS])
        if kind not in self._seen and len(self._seen) >= _KINDS_MAX:
            kind = (record.name, record.levelno, "")  # all others together
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
    """Let the root logger write to stderr in this form, instead of its present handlers. Without `force`, a root logger
    that has handlers is not changed.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(FILTER)
    handler.addFilter(PLACES)
    logging.basicConfig(level=level, handlers=[handler], force=force)
