"""YAML that every reader understands alike: blocks for objects and lists, and JSON for everything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stepwell.cli.texts import dump_json

# A name that every YAML reader takes for text.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_][A-Za-z0-9_]*", re.IGNORECASE)


def dump_yaml(value: Any) -> str:
    """A value as YAML, without a line break at its end."""
    return "\n".join(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    match value:
        case dict() if value:
            for name, part in value.items():
                text = str(name)
                yield from _joined(f"{text if _PLAIN.fullmatch(text) else dump_json(text)}:", part)
        case list() | tuple() if value:
            for part in value:
                first, *others = _lines(part)
                yield f"- {first}"
                yield from (f"  {line}" for line in others)
        case _:
            yield dump_json(value, is_compact=True)


def _joined(head: str, part: Any) -> Iterator[str]:
    if isinstance(part, dict | list | tuple) and part:
        yield head
        yield from (f"  {line}" for line in _lines(part))
    else:
        yield f"{head} {dump_json(part, is_compact=True)}"
