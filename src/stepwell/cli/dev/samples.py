"""A first command to type: start a workflow with an input of its type."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from stepwell.cli.texts import shell_word
from stepwell.codec.signatures import MISSING
from stepwell.replay.workflows import Workflow

_VALUES: Final[dict[Any, str]] = {str: "=ann", int: ":=42", float: ":=4.2", bool: ":=true"}


def sample_start(workflow: Workflow[Any, Any]) -> str:
    """A command that starts the workflow; with `@input.json` if no example input can be made."""
    command = f"stepwell start {shell_word(workflow.name)}"
    if not workflow.takes_input or workflow.input_default is not MISSING:
        return command
    fields = _fields(workflow.input_hint)
    return f"{command} @input.json" if fields is None else " ".join([command, *fields])


def _fields(hint: Any) -> list[str] | None:
    if not (dataclasses.is_dataclass(hint) and isinstance(hint, type)):
        return None
    found = list(_needed(hint))
    return None if None in found else [field for field in found if field is not None]


def _needed(hint: type[Any]) -> Iterator[str | None]:
    from typing import get_type_hints

    try:
        hints = get_type_hints(hint)
    except Exception:  # noqa: BLE001  reading an annotation runs the author's code
        hints = {}
    for field in dataclasses.fields(hint):
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            value = _VALUES.get(hints.get(field.name))
            yield None if value is None else f"{field.name}{value}"
