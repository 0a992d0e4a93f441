"""Known secret texts of this process. They are masked in every text before it is written.

A `Secret` registers what it holds while it lives. Error texts, reasons and log lines pass through `redact` on their way
out. This does not catch everything: a text that code has cut, encoded or changed is not recognised, and texts of less
than four characters are not masked, because they would match everywhere.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, Final

MASK: Final = "***"
CHARS_MIN: Final = 4
RETIRED_MAX: Final = 256

# All loggers of stepwell: a filter of a logger does not apply to the loggers below it.
LOGGERS: Final = (
    "stepwell.codec",
    "stepwell.engine",
    "stepwell.worker",
    "stepwell.workflow",
    "stepwell.step",
    "stepwell.postgres",
    "stepwell.http",
    "stepwell.http.server",
    "stepwell.http.refused",
)

_lock = threading.Lock()
_live: Counter[str] = Counter()
# A finalizer may run at any point, so it takes no lock: it leaves its texts here.
_gone: deque[tuple[str, ...]] = deque()
# Code often keeps the text and drops its `Secret`: the latest texts stay known for a while.
_retired: deque[str] = deque(maxlen=RETIRED_MAX)


def register(texts: Iterable[str]) -> tuple[str, ...]:
    """Let `redact` mask these texts, in each spelling that an error may use. Pass the result to `retire` later."""
    spellings = tuple({form for text in texts if len(text) >= CHARS_MIN for form in _spellings(text)})
    with _lock:
        _live.update(spellings)
        _forget_retired()
    for name in LOGGERS if spellings else ():
        logging.getLogger(name).addFilter(FILTER)  # adding it twice changes nothing
    return spellings


def retire(spellings: tuple[str, ...]) -> None:
    """Their `Secret` is gone. They stay known until enough later secrets are gone, too."""
    _gone.append(spellings)


def _forget_retired() -> None:
    while _gone:
        for text in _gone.popleft():
            _live[text] -= 1
            if _live[text] <= 0:
                del _live[text]
                _retired.append(text)


def redact(text: str) -> str:
    """The text with every known secret in it replaced by asterisks."""
    if not _live and not _retired:
        return text
    with _lock:
        _forget_retired()
        found = {secret for secret in (*_live, *_retired) if secret in text}
    # The longest first, because one secret may be the beginning of another.
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def redact_json(body: bytes) -> bytes:
    """JSON with every known secret in its texts and numbers replaced; still JSON."""
    text = body.decode("utf-8", "replace")
    if redact(text) == text:
        return body
    return json.dumps(_redact_plain(json.loads(text)), ensure_ascii=False, separators=(",", ":")).encode()


def _redact_plain(value: Any) -> Any:
    match value:
        case dict():
            return {redact(key): _redact_plain(item) for key, item in value.items()}
        case list():
            return [_redact_plain(item) for item in value]
        case str():
            return redact(value)
        case int() | float() if redact(str(value)) != str(value):
            return MASK
        case _:
            return value


def _spellings(text: str) -> Iterable[str]:
    yield text
    yield repr(text)[1:-1]
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]


class RedactingFilter(logging.Filter):
    """Masks known secrets in log records, including their tracebacks.

    Stepwell's own loggers have it as soon as there is a secret. Add it to your handlers for your own loggers.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001  a broken record is reported by the handler
            return True
        if redact(message) != message:
            record.msg, record.args = redact(message), ()
        if record.exc_info and record.exc_info[0] is not None:
            trace = _FORMATTER.formatException(record.exc_info)
            if redact(trace) != trace:
                record.exc_text, record.exc_info = redact(trace), None
        return True


_FORMATTER: Final = logging.Formatter()
FILTER: Final = RedactingFilter()
