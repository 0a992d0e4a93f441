"""Values that come back as another type, because their annotation does not say what they are.

A value is always read back as its annotation says, so the first execution and a replay see the same. Without an
annotation a Decimal comes back as text, a tuple as a list, a dataclass as a dict; and a subclass comes back as the
annotated class, without its own fields. That is reported at the first execution, with the annotation to write.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from stepwell.codec import pydantic_bridge
from stepwell.codec.base import ANY, Place
from stepwell.codec.fields import show_path, type_name
from stepwell.errors import UnserialisableError

LOG: Final = logging.getLogger("stepwell.codec")
_REPORTED_MAX: Final = 1_000
_NUMBERS: Final = re.compile(r"[#~]\d+")
_PLAIN: Final = frozenset({type(None), bool, int, float, str})

_reported: set[tuple[str, str]] = set()


def find_change(value: Any, settled: Any, hint: Any, place: Place) -> UnserialisableError | None:
    """What of a value differs once it is read back, as an error; None if nothing that an annotation could keep."""
    if hint is ANY:
        found = _difference(value, settled)
        if found is None:
            return None
        path, was, comes = found
        return UnserialisableError(
            f"{place.subject} comes back as another type",
            where=place.where,
            why=f"`{show_path(place.field, path)}` has the type {type_name(type(was))}; without an annotation it is "
            f"read back as {'nothing' if comes is None else type_name(type(comes))}",
            fix=f"annotate it: -> {type_name(type(value))}",
        )
    kind = type(value)
    if type(settled) is not kind and isinstance(value, type(settled)) and _is_record(value):
        return UnserialisableError(
            f"{place.subject} comes back as another type",
            where=place.where,
            why=f"it is a {type_name(kind)}, and its annotation says {type_name(type(settled))}: the fields that only "
            f"{type_name(kind)} has are lost",
            fix=f"annotate it: -> {type_name(kind)}",
        )
    lost = _excluded(value)
    if lost:
        return UnserialisableError(
            f"{place.subject} comes back without `{lost}`",
            where=place.where,
            why=f"{type_name(kind)} excludes this field from what is stored",
            fix=f"leave out exclude=True of `{lost}`, or give it a default that can replace it",
        )
    return None


def report(problem: UnserialisableError, place: Place) -> None:
    """Log a change, once for each workflow and path."""
    key = place.workflow, _NUMBERS.sub("", place.path)
    if key in _reported or len(_reported) >= _REPORTED_MAX:
        return
    _reported.add(key)
    LOG.warning("%s (%s): %s; %s", problem.title, problem.where, problem.why, problem.fix)


def _difference(value: Any, settled: Any) -> tuple[tuple[str | int, ...], Any, Any] | None:
    """The first part whose type has changed, with its path; the whole value if it is not a container."""
    kind = type(value)
    if kind is not type(settled):
        return (), value, settled
    if kind in _PLAIN:
        return None
    if kind is dict:
        if list(map(str, value)) != list(settled):
            return (), value, settled
        for key, part in value.items():
            if type(key) is not str:
                return (str(key),), key, str(key)
            found = _difference(part, settled[key])
            if found is not None:
                return (key, *found[0]), *found[1:]
        return None
    if kind is list:
        for number, (part, other) in enumerate(zip(value, settled, strict=True)):
            found = _difference(part, other)
            if found is not None:
                return (number, *found[0]), *found[1:]
    return None


def _is_record(value: Any) -> bool:
    kind = type(value)
    fields = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__", "model_fields")
    return any(hasattr(kind, name) for name in fields)


def _excluded(value: Any) -> str:
    """A field of a pydantic model that is excluded from what is stored, and that the default does not replace."""
    if not pydantic_bridge.is_model(value):
        return ""
    for name, info in type(value).model_fields.items():
        if info.exclude and getattr(value, name, None) != info.get_default(call_default_factory=False):
            return str(name)
    return ""
