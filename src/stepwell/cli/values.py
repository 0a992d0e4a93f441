"""Recorded values as people read them: a signal with its payload, the result of a child, the results of branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.cli.texts import clean, dump_json

if TYPE_CHECKING:
    from stepwell.engine.views import EntryView


def shown_value(entry: EntryView) -> str:
    """The value of an entry on one line; empty if there is nothing to show."""
    value = entry.value
    if value is None:
        return ""
    match entry.kind, value:
        case "sleep", _:
            return ""  # its value is its deadline, which has passed
        case "receive" | "receive_many", list():
            return ", ".join(_message(*message) for message in value)
        case "topic", [name, _, payload]:
            return _message(name, payload)
        case "child", [_, result]:
            return clean(_json(result))
        case "spawn", str():
            return clean(f"run {value}")
        case "race", [winner, result]:
            return clean(f"{winner}: {_json(result)}")
        case "join", list():
            return clean(_json(dict(value)))
        case _:
            return clean(_json(value))


def _message(name: str, payload: Any) -> str:
    return clean(name if payload is None else f"{name} {_json(payload)}")


def _json(value: Any) -> str:
    return dump_json(value, is_compact=True)
