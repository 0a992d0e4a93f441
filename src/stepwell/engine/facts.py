"""Facts: a view as plain data, for JSON. The views define the fields once; an audience decides how values are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from stepwell.advice import Advice
from stepwell.errors.records import FailureRecord

PAYLOAD: Final = {"is_payload": True}
"""On a field of a view: its value came from a workflow or a caller, and not every audience may see it."""
OMITTED: Final = {"is_omitted": True}
"""On a field of a view: it is shown elsewhere, so it is not part of the view's facts."""

FAILURE_FIELDS: Final = (
    "type",
    "message",
    "code",
    "path",
    "why",
    "fix",
    "advice",
    "recorded",
    "now",
    "attempts",
    "data",
    "trace",
    "causes",
)


@dataclass(frozen=True, slots=True)
class Audience:
    """How values are shown in the JSON of one audience."""

    moment: Callable[[datetime], Any]
    payload: Callable[[Any], Any]
    advice: Callable[[Advice], Any]
    fix: Callable[[Iterable[Advice]], str]


def facts_of(view: Any, audience: Audience) -> dict[str, Any]:
    """The fields of a view, and of the views inside it, in their order."""
    return {name: _fact(getattr(view, name), is_payload, audience) for name, is_payload in shown_fields(type(view))}


def _number(value: Decimal) -> Any:
    """A number that every JSON reader reads exactly: digits as text if a double cannot hold the value."""
    nearest = float(value)
    return nearest if Decimal(repr(nearest)) == value else str(value)


def failure_facts(failure: FailureRecord, audience: Audience) -> dict[str, Any]:
    """What is shown of a recorded error, with its causes."""
    shown = {name: getattr(failure, name) for name in FAILURE_FIELDS}
    shown["fix"] = audience.fix(failure.advice) or failure.fix
    shown["advice"] = [audience.advice(one) for one in failure.advice]
    shown["data"] = audience.payload(failure.data)
    shown["trace"] = audience.payload(failure.trace or None)
    shown["causes"] = {name: failure_facts(cause, audience) for name, cause in failure.causes.items()}
    return shown


def shown_fields(view: type[Any]) -> tuple[tuple[str, bool], ...]:
    """The names of the fields that are shown of a view, and whether each is a payload."""
    found = _FIELDS.get(view)
    if found is None:
        found = _FIELDS[view] = _shown_fields(view)
    return found


_FIELDS: Final[dict[type[Any], tuple[tuple[str, bool], ...]]] = {}


def _shown_fields(view: type[Any]) -> tuple[tuple[str, bool], ...]:
    return tuple((one.name, "is_payload" in one.metadata) for one in fields(view) if "is_omitted" not in one.metadata)


def _fact(value: Any, is_payload: bool, audience: Audience) -> Any:
    if is_payload:
        return audience.payload(value)
    match value:
        case None | str() | int() | float():
            return value
        case datetime():
            return audience.moment(value)
        case Decimal():
            return _number(value)
        case FailureRecord():
            return failure_facts(value, audience)
        case Advice():
            return audience.advice(value)
        case tuple() | list():
            return [_fact(one, False, audience) for one in value]
        case Mapping():
            return {name: _fact(one, False, audience) for name, one in value.items()}
        case _:
            return facts_of(value, audience) if is_dataclass(value) else value
