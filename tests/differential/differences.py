"""Where two values differ, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_SHOWN_MAX = 12
_WIDTH_MAX = 400


def differences(first: Any, second: Any) -> str:
    """The places at which two values differ, one in each line."""
    found = list(_walk(first, second, ""))
    lines = [f"  {path or 'it'}: {_short(one)} / {_short(other)}" for path, one, other in found[:_SHOWN_MAX]]
    if len(found) > _SHOWN_MAX:
        lines.append(f"  and {len(found) - _SHOWN_MAX} more")
    return "\n".join(lines)


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _walk(first: Any, second: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if first == second:
        return
    if isinstance(first, dict) and isinstance(second, dict):
        for name in sorted({*first, *second}):
            yield from _walk(first.get(name, _NOTHING), second.get(name, _NOTHING), f"{path}.{name}")
    elif isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        names = getattr(first, "_fields", None) if type(first) is type(second) else None
        for index in range(max(len(first), len(second))):
            one, other = (part[index] if index < len(part) else _NOTHING for part in (first, second))
            yield from _walk(one, other, f"{path}.{names[index]}" if names else f"{path}[{index}]")
    else:
        yield path.removeprefix("."), first, second


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _WIDTH_MAX else f"{text[:_WIDTH_MAX]}…"
