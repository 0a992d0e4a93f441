"""Escapes characters that would control a terminal or start a new line."""

from __future__ import annotations

import re
from typing import Final

# Control characters except tab and newline, half surrogates, line separators, and marks that reorder text.
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
    """As `escape`, with lines after the first indented, so that they cannot be mistaken for another record."""
    return escape(text).replace("\n", "\n    ")


def escape_json(text: str) -> str:
    """JSON with every harmful character as a JSON escape; its value is the same."""
    return text if text.isascii() and "\x7f" not in text else _IN_JSON.sub(lambda found: _as_json(found[0]), text)


def _spell(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _as_json(character: str) -> str:
    return f"\\u{ord(character):04x}"
