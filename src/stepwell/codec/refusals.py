"""Finds the field of a value that cannot be stored, and why.

This is the slow half of encoding: it visits every node. The codec calls it only for values whose bytes look suspicious
or that could not be encoded at all. On the way down nothing is formatted; the path is collected while unwinding.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.codec import pydantic_bridge, registered
from stepwell.codec.base import DEPTH_MAX
from stepwell.codec.fields import Segment, shorten, show_path, type_name
from stepwell.codec.not_stored import NotStored
from stepwell.codec.secret import Secret

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**64 - 1

_INERT: Final = frozenset(
    {bool, type(None), bytes, bytearray, memoryview, uuid.UUID, msgspec.Raw}
    | {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)


class Refusal(NamedTuple):
    """A field and the reason why it cannot be stored."""

    field: str
    why: str


class DuplicateKey(NamedTuple):
    """Replaces the value of a duplicate key in parsed JSON."""

    key: str


class _Refused(Exception):  # noqa: N818  control flow: carries the reason up to the root
    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.segments: list[Segment] = []


class _Rules(NamedTuple):
    lenient: bool = False  # inside a pydantic model, which has rules of its own
    secrets: bool = False  # may be stored


def find_refusal(value: Any, root: str, *, secrets: bool = False) -> Refusal | None:
    """The first field of `value` that has no faithful stored form, or None. With `secrets`, secrets have one."""
    try:
        _visit(value, 0, rules=_Rules(secrets=secrets))
    except _Refused as refused:
        return Refusal(show_path(root, refused.segments[::-1]), refused.why)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  the code of a value, such as a `__class__` property, may raise anything
        return Refusal(root, f"its own code raises {type(error).__name__}")
    return None


def _visit(value: Any, depth: int, *, rules: _Rules) -> None:
    kind = type(value)
    if kind in _INERT:
        return
    if isinstance(value, enum.Enum):
        _visit(value.value, depth, rules=rules)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int):
        _check_int(value)
    elif isinstance(value, float | decimal.Decimal):
        _check_finite(value)
    elif kind is DuplicateKey:
        raise _Refused(f"the key {shorten(value.key)} occurs twice; only one of them could be kept")
    else:
        _visit_container(value, depth + 1, rules=rules)


def _visit_container(value: Any, depth: int, *, rules: _Rules) -> None:
    if depth > DEPTH_MAX:
        raise _Refused(f"it is nested deeper than {DEPTH_MAX} levels, or contains itself")
    if isinstance(value, dict):
        _check_keys(value, rules=rules)
        _visit_all(_named(value), depth, rules=rules)
    elif isinstance(value, list | tuple | set | frozenset):
        _visit_all(enumerate(value), depth, rules=rules)
    elif pydantic_bridge.is_model(value):
        # Pydantic supports more types, and stores them by its own rules.
        _visit_all(pydantic_bridge.fields_of(value), depth, rules=rules._replace(lenient=True))
    elif pydantic_bridge.is_secret(value):
        raise _Refused("it is a pydantic secret, which is stored as asterisks and would be lost")
    elif isinstance(value, Secret):
        if not rules.secrets:
            raise _Refused("it is a Secret, which only an engine with `codec=Encrypted(...)` stores")
        _visit(value.reveal(), depth, rules=rules)
    elif isinstance(value, NotStored):
        return
    elif (known := registered.find(type(value))) is not None:
        _visit(known.encode(value), depth, rules=rules)
    elif (fields := _fields_of(value)) is not None:
        _visit_all(fields, depth, rules=rules)
    elif not rules.lenient:
        raise _Refused(
            f"it is a `{type_name(type(value))}`; stored values are JSON-like, dataclass, msgspec.Struct, TypedDict, "
            "NamedTuple, pydantic model, Enum, UUID, datetime, Decimal or bytes; for a class of your own write "
            f"stepwell.codec.register({type_name(type(value))}, encode=..., decode=...)"
        )


def _visit_all(items: Iterable[tuple[Segment, Any]], depth: int, *, rules: _Rules) -> None:
    for segment, item in items:
        try:
            _visit(item, depth, rules=rules)
        except _Refused as refused:
            refused.segments.append(segment)
            raise


def _named(mapping: Mapping[Any, Any]) -> Iterable[tuple[Segment, Any]]:
    return ((key if isinstance(key, str | int) else str(key), item) for key, item in mapping.items())


def _fields_of(value: Any) -> list[tuple[Segment, Any]] | None:
    """Names and values of a record's fields; None if it is not a record."""
    if isinstance(value, msgspec.Struct):
        names: Iterable[str] = value.__struct_fields__
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
    elif (attributes := getattr(type(value), "__attrs_attrs__", None)) is not None:
        names = (attribute.name for attribute in attributes)
    else:
        return None
    absent = object()
    pairs = ((name, getattr(value, name, absent)) for name in names)
    return [(name, item) for name, item in pairs if item is not absent and item is not msgspec.UNSET]


def _check_keys(mapping: dict[Any, Any], *, rules: _Rules) -> None:
    texts: dict[str, Any] = {}
    for key in mapping:
        text = _key_text(key, rules=rules)
        if text in texts:
            first, second = type(texts[text]).__name__, type(key).__name__
            raise _Refused(f"two of its keys are both written as {shorten(text)} ({first} and {second})")
        texts[text] = key


def _key_text(key: Any, *, rules: _Rules) -> str:
    """The key as it is written in JSON."""
    key = key.value if isinstance(key, enum.Enum) else key
    if isinstance(key, str):
        _check_text(key, what=f"its key {shorten(key)}")
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        _check_int(key, what="a key")
    if isinstance(key, float | decimal.Decimal):
        _check_finite(key, what="a key")
    try:
        text: str = next(iter(msgspec.json.decode(msgspec.json.encode({key: None}))))
    except TypeError:
        if rules.lenient:
            return repr(key)
        raise _Refused(f"a key is a `{type_name(type(key))}`; keys are text, numbers, dates or UUIDs") from None
    return text


def _check_text(text: str, *, what: str = "it") -> None:
    if "\0" in text:
        raise _Refused(f"{what} contains the character U+0000 at position {text.index(chr(0))}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        char = f"U+{ord(text[error.start]):04X}"
        raise _Refused(f"{what} contains half of a surrogate pair, {char}, at position {error.start}") from None


def _check_int(number: int, *, what: str = "it") -> None:
    if not INT_MIN <= number <= INT_MAX:
        raise _Refused(f"{what} is an int outside 64 bits ({shorten(number)}); use a str or a Decimal")


def _check_finite(number: float | decimal.Decimal, *, what: str = "it") -> None:
    is_finite = number.is_finite() if isinstance(number, decimal.Decimal) else math.isfinite(number)
    if not is_finite:
        raise _Refused(f"{what} is {number}, which JSON cannot hold; use None or leave it out")
