"""Text for terminals: stored text cannot steer one, long values are shortened, times are easy to read."""

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
# Control characters, half surrogates, and marks that reorder the text after them.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_WRAP_MIN = 20  # characters of text on a line, however narrow the terminal is
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@%+-]*")


def clean(text: str) -> str:
    """The text on one line, without the sequences that a terminal would obey."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub("", _BREAKS.sub(" ", _ESCAPES.sub("", text)))


def clean_lines(text: str) -> list[str]:
    """The lines of a text, each cleaned, with the blanks in front of it kept."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    return [" " * (len(line) - len(line.lstrip(" "))) + clean(line.strip()) for line in lines]


def is_plain_word(text: str) -> bool:
    """Whether every shell reads the text as one word: no quotes, blanks, expansions, options or newlines."""
    return _PLAIN_WORD.fullmatch(text) is not None


def shell_word(text: str) -> str:
    """The text as one word of a command that people copy into a shell; the shell executes nothing in it."""
    if is_plain_word(text):
        return text
    from shlex import quote

    return quote(clean(text))


def wrap(text: str, width: int | None, *, first: str = "", rest: str = "") -> list[str]:
    """The text on as many lines as it takes: the first begins with `first`, the others with `rest`.

    Without a width it stays on one line. A word that is longer than a line is broken, so nothing is left out.
    """
    if width is None or len(first) + len(text) <= width:
        return [first + text]
    from textwrap import TextWrapper

    room = max(width, len(first) + _WRAP_MIN, len(rest) + _WRAP_MIN)
    wrapper = TextWrapper(room, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return wrapper.wrap(text)


def dump_json(value: Any, *, is_compact: bool = False) -> str:
    """JSON that keeps every character, the harmful ones as escapes."""
    separators = (",", ":") if is_compact else None
    text = json.dumps(value, ensure_ascii=False, separators=separators, indent=None if is_compact else 2, default=str)
    return escape_json(text)


def brief(value: Any, limit: int = 60, *, gap: str = "…") -> str:
    """A value on one line, shortened in the middle."""
    return shorten(clean(dump_json(value, is_compact=True)), limit, gap=gap)


def shorten(text: str, limit: int, *, gap: str = "…") -> str:
    """At most `limit` characters; the middle is left out, because both ends say more."""
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
