"""Copies of the arguments of a body: the body may change them, and the workflow code does not see it.

A copy has the types of the original, whatever the annotations of the body: containers and records are rebuilt part by
part. Objects that the codec cannot encode, such as a client, a lock or a connection, are passed without a copy.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import fractions
import pathlib
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, Final

import msgspec

from stepwell.codec.base import Codec, Place
from stepwell.errors import StepwellError

# Immutable types: values of these are passed without a copy.
FIXED: Final = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, type, range, type(Ellipsis)),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID, pathlib.PurePath, pathlib.PosixPath, pathlib.PurePosixPath),
    }
)
_SMALL_MAX: Final = 1_000
_PLACE: Final = Place("", "", "the arguments")
_MAPS: Final = (OrderedDict, defaultdict, Counter)


def is_fixed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call passes only values that a body cannot change."""
    for value in args:
        if type(value) not in FIXED:
            return False
    return not kwargs or all(type(value) in FIXED for value in kwargs.values())


def are_small(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call passes only values that a body cannot change, and that may be kept for a while."""
    for value in args:
        kind = type(value)
        if kind not in FIXED or ((kind is str or kind is bytes) and len(value) > _SMALL_MAX):
            return False
    return not kwargs or are_small(tuple(kwargs.values()), {})


class PassedArguments:
    """The arguments of one call, as the code passed them. Every attempt takes a copy of its own."""

    __slots__ = ("_args", "_codec", "_kwargs", "_opaque")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], codec: Codec) -> None:
        self._codec: Codec | None = codec
        self._opaque: dict[int, Any] = {}  # records that cannot be stored, by their identity
        self._args, self._kwargs = args, kwargs
        self._args, self._kwargs = self.take()
        self._codec = None  # which records are data is known now

    def take(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """New copies of the positional and keyword arguments."""
        return tuple([self._copy(one) for one in self._args]), {
            name: self._copy(one) for name, one in self._kwargs.items()
        }

    def _copy(self, value: Any) -> Any:
        try:
            return self._copied(value)
        except RecursionError:  # it contains itself, and could not be stored either
            return value

    def _copied(self, value: Any) -> Any:
        kind = type(value)
        if kind in FIXED:
            return value
        if kind is list:
            return [self._copied(one) for one in value]
        if kind is dict:
            return {key: self._copied(one) for key, one in value.items()}
        if kind is tuple:
            return tuple([self._copied(one) for one in value])
        if kind is set or kind is bytearray:
            return kind(value)
        if kind is deque:
            return deque([self._copied(one) for one in value], value.maxlen)
        if kind in _MAPS:
            made = copy.copy(value)
            for key, one in value.items():
                made[key] = self._copied(one)
            return made
        if isinstance(value, tuple) and hasattr(kind, "_make"):
            return kind._make(self._copied(one) for one in value)
        names = _fields(value)
        return value if names is None or not self._is_data(value) else self._copied_record(value, names)

    def _is_data(self, record: Any) -> bool:
        """Whether a record can be stored. A record that holds a connection or a lock is not copied."""
        if self._codec is None:
            return id(record) not in self._opaque
        codec, self._codec = self._codec, None
        try:
            codec.encode_body(record, type(record), _PLACE)
        except StepwellError:
            self._opaque[id(record)] = record
            return False
        finally:
            self._codec = codec
        return True

    def _copied_record(self, record: Any, names: tuple[str, ...]) -> Any:
        held = [(name, getattr(record, name)) for name in names if hasattr(record, name)]
        codec, self._codec = self._codec, None  # its parts are data, because it is
        try:
            made = copy.copy(record)
            for name, one in held:
                if type(one) not in FIXED:
                    _set(made, name, self._copied(one))
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001  a class that allows no copies
            return record
        finally:
            self._codec = codec
        return made


def _fields(value: Any) -> tuple[str, ...] | None:
    """The names of a record's fields: of a dataclass, a msgspec struct, an attrs class or a pydantic model."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(str(field.name) for field in kind.__attrs_attrs__)
    if hasattr(kind, "model_fields") and hasattr(kind, "__pydantic_validator__"):
        return tuple(kind.model_fields)
    return None


def _set(record: Any, name: str, value: Any) -> None:
    if isinstance(record, msgspec.Struct):
        msgspec.structs.force_setattr(record, name, value)
    else:
        object.__setattr__(record, name, value)
