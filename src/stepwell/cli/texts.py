"""Text for terminals: nothing stored may steer one, long values are shortened, times are read at a glance."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from stepwell.printable import escape_json

# Escape sequences as a whole (CSI, then OSC and the other strings up to their end, then two-byte ones).
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile(r"\s*[\n\r\t\v\f\x85\u2028\u2029]\s*")
# Control characters, half surrogates, and marks that reorder what follows them.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def clean(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub("", _BREAKS.sub(" ", _ESCAPES.sub("", text)))


def dump_json(value: Any, *, is_compact: bool = False) -> str:
    """JSON that keeps every character, the harmful ones as escapes."""
    separators = (",", ":") if is_compact else None
    text = json.dumps(value, ensure_ascii=False, separators=separators, indent=None if is_compact else 2, default=str)
    return escape_json(text)


def brief(value: Any, limit: int = 60, *, gap: str = "…") -> str:
    """A value on one line, shortened in the middle."""
    return shorten(clean(dump_json(value, is_compact=True)), limit, gap=gap)


def shorten(text: str, limit: int, *, gap: str = "…") -> str:
    """At most `limit` characters; the middle is left out, because both ends tell more."""
    if len(text) <= limit:
        return text
    if limit <= len(gap):
        return text[: max(limit, 0)]
    kept = limit - len(gap)
    return text[: kept - kept // 2] + gap + text[len(text) - kept // 2 :]


def duration(seconds: float) -> str:
    """A length of time: 0.41 s, 2 m 10 s, 3 h 5 m, 2 d 3 h."""
    if seconds < 60:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    for (large, size), (small, part) in (
        (("d", 86_400), ("h", 3_600)),
        (("h", 3_600), ("m", 60)),
        (("m", 60), ("s", 1)),
    ):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {large}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def moment(when: datetime | None) -> str:
    """A point in time, in UTC, to the second."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"
