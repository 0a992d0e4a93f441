"""Lists every way in which plain data does not fit a hint.

msgspec stops at the first; people who correct an input want them all. This runs only after a failure, so it may convert
the same data at each level on its way down to the invalid fields.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.codec import pydantic_bridge
from stepwell.codec.fields import Segment, shorten, show_field, type_name
from stepwell.codec.plans import is_secret_type, read_custom
from stepwell.errors.requests import Violation

VIOLATIONS_MAX: Final = 100

_Path = tuple[Segment, ...]
_LOCATED: Final = re.compile(r"^(?P<text>.*?)(?: - at `(?P<key>key` in `)?\$(?P<inner>.*)`)?$", re.DOTALL)
_EXPECTED: Final = re.compile(r"^Expected `(?P<expected>.*)`, got `(?P<got>.*)`$", re.DOTALL)


class _Names(NamedTuple):
    root: str
    prefix: str


class _Field(NamedTuple):
    name: str
    hint: Any
    is_required: bool


class _Child(NamedTuple):
    path: _Path
    data: Any
    hint: Any


def list_violations(data: Any, hint: Any, *, root: str, prefix: str = "", str_keys: bool) -> list[Violation]:
    """One sentence per violation, such as "`lines[2].amount`: expected int, got '4O'"; empty if the data fits.

    `root` is the name of the whole value, and `prefix` the beginning of its fields' paths. With `str_keys`, the data is
    from JSON, where every key is text. At most 100 violations are listed, followed by a line "… and more".
    """
    found: list[Violation] = []
    _collect(_Child((), data, hint), _Names(root, prefix), str_keys, found)
    if len(found) > VIOLATIONS_MAX:
        found[VIOLATIONS_MAX:] = [Violation("… and more", "… and more")]
    return found


def fits(data: Any, hint: Any) -> bool:
    """Whether plain JSON can be read as this hint."""
    return _failure(_Child((), data, hint), str_keys=True) is None


def parts_with_hints(data: Any, hint: Any) -> Iterator[tuple[_Path, Any, Any]]:
    """The parts of plain JSON, each with its key or index and the hint that it must fit. The data itself, as a member
    of a union, has no key.
    """
    return _children(_Child((), data, hint))


def _collect(child: _Child, names: _Names, str_keys: bool, found: list[Violation]) -> None:
    if len(found) > VIOLATIONS_MAX:
        return
    error = _failure(child, str_keys)
    if error is None:
        return
    before = len(found)
    found.extend(pydantic_bridge.violations_of(error, *names, child.path))
    for name in _missing(child):
        missing = f"`{show_field(*names, (*child.path, name))}`: missing"
        found.append(Violation(missing, missing))
    for inner in _children(child):
        _collect(inner, names, str_keys, found)
    if len(found) == before:
        found.append(_sentence(child, error, names))


def _failure(child: _Child, str_keys: bool) -> Exception | None:
    try:
        if pydantic_bridge.is_model_type(child.hint):
            pydantic_bridge.read_plain(child.hint, child.data)
        else:
            msgspec.convert(child.data, child.hint, strict=True, dec_hook=read_custom, str_keys=str_keys)
    except Exception as error:  # noqa: BLE001  a validator of the user's class may raise anything
        return error
    return None


def _sentence(child: _Child, error: Exception, names: _Names) -> Violation:
    located = _LOCATED.match(str(error))
    assert located is not None  # every part of the pattern may be empty
    text, inner = located["text"], located["inner"] or ""
    field = show_field(names.root, names.prefix, child.path, inner)
    expected = _EXPECTED.match(text)
    if any(is_secret_type(hint) for hint in (child.hint, *typing.get_args(child.hint))):
        words = f"`{field}`: expected {expected['expected'] if expected else type_name(child.hint)}, got something else"
        return Violation(words, words)
    if expected is None:
        text = text[:1].lower() + text[1:] if isinstance(error, msgspec.ValidationError) else f"{error!r}"
        words = f"`{field}`: {text}" + ("" if inner else f", got {shorten(child.data)}")
        # The message of a validator may quote the value.
        return Violation(words, f"`{field}`: expected {type_name(child.hint)}")
    got = f"`{expected['got']}`" if inner or located["key"] else shorten(child.data)
    what = "a key of type " if located["key"] else ""
    words = f"`{field}`: expected {what}{expected['expected']}"
    return Violation(f"{words}, got {got}", words)


def _missing(child: _Child) -> Iterator[str]:
    if isinstance(child.data, dict):
        for field in _fields_of(child.hint) or ():
            if field.is_required and field.name not in child.data:
                yield field.name


def _children(child: _Child) -> Iterator[_Child]:
    """The parts of the data with the hints that they must fit; nothing if the hint has no parts."""
    path, data, hint = child
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        yield _Child(path, data, args[0])
    elif origin in (typing.Union, types.UnionType):
        members = [arg for arg in args if _has_shape(arg, data)]
        if len(members) == 1:
            yield _Child(path, data, members[0])
    elif isinstance(data, dict):
        yield from _dict_children(child, origin, args)
    elif isinstance(data, list | tuple | set | frozenset):
        yield from _array_children(child, origin, args)


def _dict_children(child: _Child, origin: Any, args: tuple[Any, ...]) -> Iterator[_Child]:
    path, data, hint = child
    fields = _fields_of(hint)
    if fields is not None:
        for field in fields:
            if field.name in data:
                yield _Child((*path, field.name), data[field.name], field.hint)
    elif isinstance(origin, type) and issubclass(origin, Mapping) and len(args) == 2:
        for key, item in data.items():
            yield _Child((*path, key if isinstance(key, str | int) else str(key)), item, args[1])


def _array_children(child: _Child, origin: Any, args: tuple[Any, ...]) -> Iterator[_Child]:
    path, data, hint = child
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        hints = tuple(typing.get_type_hints(hint, include_extras=True).values())
    elif origin is tuple and not (len(args) == 2 and args[1] is Ellipsis):
        hints = args
    elif isinstance(origin, type) and issubclass(origin, Sequence | AbstractSet) and args:
        hints = (args[0],) * len(data)
    else:
        return
    for index, (item, item_hint) in enumerate(zip(data, hints, strict=False)):
        yield _Child((*path, index), item, item_hint)


def _has_shape(hint: Any, data: Any) -> bool:
    """Whether this data was probably meant for this member of a union."""
    base = typing.get_origin(hint) or hint
    if isinstance(data, dict):
        is_mapping = isinstance(base, type) and issubclass(base, Mapping)
        return is_mapping or pydantic_bridge.is_model_type(base) or _fields_of(hint) is not None
    if isinstance(data, list | tuple):
        return isinstance(base, type) and issubclass(base, Sequence | AbstractSet) and base not in (str, bytes)
    return False


def _fields_of(hint: Any) -> list[_Field] | None:
    """The fields of a record type by their JSON names; None if it is not a record type."""
    record = typing.get_origin(hint) or hint
    if not isinstance(record, type):
        return None
    if issubclass(record, msgspec.Struct):
        return [_Field(field.encode_name, field.type, field.required) for field in msgspec.structs.fields(hint)]
    if dataclasses.is_dataclass(record):
        required = {
            field.name
            for field in dataclasses.fields(record)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        names = {field.name for field in dataclasses.fields(record)}
    elif typing.is_typeddict(record):
        required = set(getattr(record, "__required_keys__", ()))
        names = set(record.__annotations__)
    else:
        return None
    hints = typing.get_type_hints(record, include_extras=True)
    return [_Field(name, _filled(hints[name], hint), name in required) for name in hints if name in names]


def _filled(hint: Any, generic: Any) -> Any:
    """A field's hint with the type variables of its generic class filled in."""
    if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        hint = typing.get_args(hint)[0]
    variables = getattr(typing.get_origin(generic), "__parameters__", ())
    filling: dict[Any, Any] = dict(zip(variables, typing.get_args(generic), strict=False))
    if isinstance(hint, typing.TypeVar):
        return filling.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(filling.get(parameter, Any) for parameter in parameters)]
