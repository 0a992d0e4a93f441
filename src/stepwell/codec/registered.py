"""Registered types: classes that an author tells the codec how to store and how to read back.

    codec.register(Money, encode=str, decode=Money.parse)

A registered class may be annotated wherever a value is stored: as an input, a result, a signal, and as a field of
another type. What `encode` returns is stored like any other value; `decode` gets it as plain JSON values. The class is
named by annotations in the code, and never by stored bytes.

An exception class may be registered, too: then a recorded failure has its attributes again when it is caught.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from stepwell.codec import pydantic_bridge
from stepwell.errors import DuplicateNameError, InvalidOptionError

T = TypeVar("T")

_BUILT_IN: Final = (
    *(str, int, float, bool, type(None), bytes, bytearray, list, tuple, dict, set, frozenset),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID),
)


class Registered(NamedTuple):
    """How values of one class are stored."""

    kind: type
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_KNOWN: dict[type, Registered] = {}


def register(kind: type[T], *, encode: Callable[[T], Any], decode: Callable[[Any], T]) -> None:
    """Tell the codec how values of a class are stored, and read back from plain JSON values. Call it once, where the
    class is defined: every process that reads such values needs it.

    `decode(encode(value))` must be the value: the code continues with what is read back, also the first time.

    Raises `InvalidOptionError` for a class that is stored without it, and `DuplicateNameError` if the class is
    registered already with other functions.
    """
    given: Any = kind
    if not isinstance(given, type):
        raise InvalidOptionError(
            f"{given!r:.60} is not a class", fix="codec.register(Money, encode=str, decode=Money.parse)"
        )
    functions: tuple[Any, ...] = (encode, decode)
    if not all(map(callable, functions)):
        raise InvalidOptionError(
            f"{kind.__qualname__} cannot be registered",
            why="encode and decode are functions of one value",
            fix=f"codec.register({kind.__qualname__}, encode=..., decode=...)",
        )
    reason = _why_stored_already(kind)
    if reason is not None:
        raise InvalidOptionError(
            f"{kind.__qualname__} is stored without being registered",
            where=kind.__module__,
            why=reason,
            fix="leave it out; for values of an older shape: codec.register_upcaster(type, function)",
        )
    known = _KNOWN.get(kind)
    if known is not None and (known.encode, known.decode) != (encode, decode):
        raise DuplicateNameError(
            f"{kind.__qualname__} is registered already with other functions",
            where=kind.__module__,
            fix="register it once, in the module that defines it",
        )
    _KNOWN[kind] = Registered(kind, encode, decode)


def _why_stored_already(kind: type) -> str | None:
    if issubclass(kind, BaseException):
        return None
    if kind in _BUILT_IN or issubclass(kind, enum.Enum):
        return "values of this class have a form in JSON"
    if dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__"):
        return "its values are stored by their fields"
    return "pydantic stores its values" if pydantic_bridge.is_model_type(kind) else None


def find(kind: type) -> Registered | None:
    """How values of a class are stored: as the nearest registered class says; None if there is none."""
    if not _KNOWN:
        return None
    return next((_KNOWN[base] for base in kind.__mro__ if base in _KNOWN), None)
