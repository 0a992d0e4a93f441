"""Plain data: named tuples of the model as JSON objects that people can read, and back, derived from their fields.

A field that has its default is left out, and so is None where a field has no default. Enumerations are written by their
names and locations in hexadecimal. Other bytes are written as text. Bytes that are not UTF-8, or that begin with
`base64:`, are written as `base64:` followed by their Base64. A reader ignores fields that it does not know.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from stepwell.model.locations import Location

T = TypeVar("T")
Spell = Callable[[Location], str]

_BASE64: Final = "base64:"


def to_plain(value: Any, spell: Spell | None = None) -> dict[str, Any]:
    """A named tuple as an object. With `spell`, the path of each `location` is written before it, for people only."""
    return dict(_object(type(value), value, spell))


def from_plain(model: type[T], plain: Any) -> T:
    """The named tuple that `to_plain` wrote. Raises `ValueError` or `KeyError` for data that it cannot have written."""
    return _load(model, plain)  # type: ignore[no-any-return]


@cache
def _fields(model: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(model)
    return tuple((name, hints[name]) for name in model._fields)


def _object(model: Any, value: Any, spell: Spell | None) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for (name, hint), field in zip(_fields(model), value, strict=True):
        if field != model._field_defaults.get(name):
            if spell is not None and name == "location":
                found.append(("path", spell(field)))
            found.append((name, _dump(hint, field, spell)))
    return found


def _dump(hint: Any, value: Any, spell: Spell | None) -> Any:
    if value is None:
        return None
    hint = _required(hint)
    if hint is Location:
        return value.hex()
    if hint is bytes:
        return _text(value)
    if get_origin(hint) is tuple:
        return [_dump(item, one, spell) for item, one in zip(_items(hint, len(value)), value, strict=True)]
    if hasattr(hint, "_fields"):
        return dict(_object(hint, value, spell))
    return value.name.lower() if isinstance(value, StrEnum) else value


def _load(hint: Any, plain: Any) -> Any:
    if plain is None and hint != _required(hint):
        return None
    hint = _required(hint)
    if hint is Location:
        return bytes.fromhex(_checked(str, plain))
    if hint is bytes:
        return _bytes(_checked(str, plain))
    if get_origin(hint) is tuple:
        items = _checked(list, plain)
        return tuple(_load(item, one) for item, one in zip(_items(hint, len(items)), items, strict=True))
    if get_origin(hint) is Literal:
        if plain not in get_args(hint):
            raise ValueError(f"{plain!r} is not one of {', '.join(get_args(hint))}")
        return plain
    if hasattr(hint, "_fields"):
        plain = _checked(dict, plain)
        absent = {
            name: None for name, one in _fields(hint) if name not in hint._field_defaults and one != _required(one)
        }
        given = {name: _load(one, plain[name]) for name, one in _fields(hint) if name in plain}
        missing = [name for name in hint._fields if name not in {**hint._field_defaults, **absent, **given}]
        if missing:
            raise KeyError(missing[0])
        return hint(**(absent | given))
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if not issubclass(hint, StrEnum):
        return _checked(hint, plain)
    name = str(_checked(str, plain)).upper()
    if name not in hint.__members__:
        raise ValueError(f"{plain!r} is not of type {hint.__name__}")
    return hint[name]


def _required(hint: Any) -> Any:
    """The type without None."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    return hint


def _items(hint: Any, count: int) -> tuple[Any, ...]:
    items = get_args(hint)
    return (items[0],) * count if len(items) == 2 and items[1] is ... else items


def _checked(kind: type, plain: Any) -> Any:
    if type(plain) is not kind:
        raise ValueError(f"{plain!r:.80} is not of type {kind.__name__}")
    return plain


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = _BASE64
    return _BASE64 + base64.b64encode(value).decode() if text.startswith(_BASE64) else text


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.removeprefix(_BASE64)) if text.startswith(_BASE64) else text.encode()
