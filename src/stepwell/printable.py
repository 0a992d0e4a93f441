"""Characters that a terminal or a reader of lines would obey, spelled so that they are only seen."""

from __future__ import annotations

import re
from typing import Final

# Control characters but for tab and newline, half surrogates, separators of lines, and marks that reorder text.
_HARMFUL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
_IN_JSON: Final = re.compile("[\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def escape(text: str) -> str:
    """The text with every harmful character as `\\x1b` or `\\u202e`; tabs and newlines stay."""
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub(_spell, text)


def escape_lines(text: str) -> str:
    """The same, and lines after the first are indented: none of them can be taken for another record."""
    return escape(text).replace("\n", "\n    ")


def escape_json(text: str) -> str:
    """JSON with every harmful character as an escape of JSON; it means the same."""
    return text if text.isascii() and "\x7f" not in text else _IN_JSON.sub(lambda found: _as_json(found[0]), text)


def _spell(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _as_json(character: str) -> str:
    return f"\\u{ord(character):04x}"
