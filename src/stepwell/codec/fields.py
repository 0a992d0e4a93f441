"""Field paths in error messages, such as `result.session[3].x`, and short forms of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

Segment: TypeAlias = str | int
SHOWN_SEGMENTS_MAX: Final = 12
SHOWN_CHARS_MAX: Final = 40


def show_path(root: str, segments: Sequence[Segment]) -> str:
    """`root` followed by its segments: names with dots, indexes and odd keys in brackets. A long path is cut."""
    shown = "".join(_show(segment) for segment in segments[:SHOWN_SEGMENTS_MAX])
    more = "…" if len(segments) > SHOWN_SEGMENTS_MAX else ""
    return (root + shown + more).removeprefix("." if not root else "")


def show_field(root: str, prefix: str, path: Sequence[Segment], inner: str = "") -> str:
    """A field in a list of violations: its path alone, or after `root` if the path alone would not read as a name."""
    text = (show_path(prefix, path) + inner).removeprefix("" if prefix else ".")
    return root + text if not text or text.startswith("[") else text


def _show(segment: Segment) -> str:
    if isinstance(segment, int):
        return f"[{segment}]"
    return f".{segment}" if segment.isidentifier() else f"[{shorten(segment)}]"


def shorten(value: object) -> str:
    """The repr of plain data in at most 40 characters; never calls code of a user's class."""
    if isinstance(value, str | bytes):
        text = repr(value[:SHOWN_CHARS_MAX])
    elif type(value) in (int, float, bool, type(None)):
        text = repr(value) if not isinstance(value, int) or value.bit_length() < 256 else "a huge int"
    elif isinstance(value, dict):
        text = f"an object with {len(value)} fields"
    elif isinstance(value, list | tuple | set | frozenset):
        text = f"an array of {len(value)}"
    else:
        text = f"a `{type_name(type(value))}`"
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


def type_name(hint: object) -> str:
    """The name of a type or annotation in a message."""
    if isinstance(hint, type) and not getattr(hint, "__args__", None):
        return hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
    return str(hint).replace("typing.", "")
