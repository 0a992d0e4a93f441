"""How each hint is read and written: one plan per hint, made once.

A plan is msgspec's typed decoder where that supports the hint, pydantic's own validator for a model, and pydantic's
`TypeAdapter` for unions with models that msgspec rejects.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from stepwell.codec import pydantic_bridge, registered
from stepwell.codec.base import PlaceLike, Unresolved, place_of
from stepwell.codec.fields import type_name
from stepwell.codec.not_stored import NotStored
from stepwell.codec.secret import MASK, Secret
from stepwell.errors import UnsupportedTypeError

_PLANS_MAX: Final = 4096
_KNOWN_MAX: Final = 1024


class Plan:
    """How values of one hint are read; `adapter` is set if pydantic also has to write them."""

    __slots__ = ("adapter", "hint", "read")

    def __init__(self, hint: Any, read: Callable[[bytes], Any], adapter: pydantic_bridge.Adapter | None = None) -> None:
        self.hint = hint
        self.read = read
        self.adapter = adapter


_known: dict[int, Plan] = {}
_plans: dict[tuple[str, Any], Plan] = {}


def plan_for(hint: Any, place: PlaceLike) -> Plan:
    """The plan of this hint, made at its first use.

    Raises:
        UnsupportedTypeError: no codec can read such a value back; the message names the type.
    """
    # By identity: hashing a union costs more than decoding a small value. The plan keeps its hint alive, so no other
    # hint can get the same id.
    plan = _known.get(id(hint))
    if plan is None:
        plan = _equal_plan(hint, place)
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        _known[id(hint)] = plan
    return plan


def _equal_plan(hint: Any, place: PlaceLike) -> Plan:
    """A plan that keeps this hint alive. A function that is defined again for each run has new hints each time, equal
    to the earlier ones: they share a decoder, which takes some kilobytes.
    """
    key = (repr(hint), hint)  # unions are equal in any order, and pydantic prefers the first that fits
    try:
        plan = _plans.get(key)
    except TypeError:  # an annotation with something in it that cannot be hashed
        return _make_plan(hint, place)
    if plan is None:
        plan = _make_plan(hint, place)
        if len(_plans) >= _PLANS_MAX:
            _plans.clear()
        _plans[key] = plan
    return plan if plan.hint is hint else Plan(hint, plan.read, plan.adapter)


def _make_plan(hint: Any, place: PlaceLike) -> Plan:
    if isinstance(hint, Unresolved):
        raise _unresolved(hint, place)
    if pydantic_bridge.is_model_type(hint):
        return Plan(hint, pydantic_bridge.reader(hint))
    try:
        custom = _unknown_types(hint)
        if not custom:
            return Plan(hint, msgspec.json.Decoder(hint, dec_hook=read_custom).decode)
        reason = f"`{type_name(custom[0])}` has no codec"
    except (TypeError, NameError) as error:
        reason = str(error)
        if "pydantic" in sys.modules and _mentions_model(hint):
            adapter = pydantic_bridge.Adapter(hint)
            return Plan(hint, adapter.read, adapter)
    at = place_of(place)
    raise UnsupportedTypeError(
        f"{at.subject} is annotated with a type that cannot be read back: {type_name(hint)}",
        where=at.where,
        why=reason,
        fix="use JSON-like types, dataclasses, Structs with tags, pydantic models, or Any for plain JSON; for a "
        "class of your own: stepwell.codec.register(Class, encode=..., decode=...)",
    )


def _unresolved(hint: Unresolved, place: PlaceLike) -> UnsupportedTypeError:
    at = place_of(place)
    return UnsupportedTypeError(
        f"the annotation {hint.annotation!r} of `{hint.parameter}` in {hint.function} cannot be resolved",
        where=at.where,
        why=hint.reason,
        fix="define or import that type at the top of the module, not under TYPE_CHECKING",
    )


def write_custom(value: Any) -> Any:
    """msgspec's `enc_hook`: pydantic models, and subclasses of str, int and float by their plain value."""
    if pydantic_bridge.is_model(value):
        return pydantic_bridge.dump(value)
    known = registered.find(type(value))
    if known is not None:
        return known.encode(value)
    if isinstance(value, NotStored):
        return None
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(f"`{type_name(type(value))}` has no codec")


def write_revealed(value: Any) -> Any:
    """`write_custom` for payloads that are encrypted or never stored: secrets are written in the clear."""
    return value.reveal() if isinstance(value, Secret) else write_custom(value)


def write_masked(value: Any) -> Any:
    """`write_custom` for places that are not encrypted: secrets become asterisks."""
    return MASK if isinstance(value, Secret) else write_custom(value)


def read_custom(kind: type, data: Any) -> Any:
    """msgspec's `dec_hook`: pydantic models and secrets; `object` means anything."""
    if is_secret_type(kind):
        inner = (*typing.get_args(kind), Any)[0]
        return Secret(msgspec.convert(data, inner, strict=True, dec_hook=read_custom, str_keys=True))
    if kind is object or (typing.get_origin(kind) is None and isinstance(data, kind)):
        return data
    if pydantic_bridge.is_model_type(kind):
        return pydantic_bridge.read_plain(kind, data)
    if is_not_stored_type(kind):
        return NotStored()
    known = registered.find(kind)
    if known is not None:
        return known.decode(data)
    raise TypeError(f"`{type_name(kind)}` has no codec")


def is_secret_type(hint: Any) -> bool:
    """Whether `hint` is `Secret`, with or without a type argument."""
    return hint is Secret or typing.get_origin(hint) is Secret


def is_not_stored_type(hint: Any) -> bool:
    """Whether `hint` is `NotStored`, with or without a type argument."""
    return hint is NotStored or typing.get_origin(hint) is NotStored


def _unknown_types(hint: Any) -> list[Any]:
    """Classes within `hint` that neither msgspec nor pydantic can read; raises `TypeError` where msgspec does."""
    found: list[Any] = []
    seen: set[int] = set()
    stack: list[Any] = [msgspec.inspect.type_info(hint)]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, msgspec.inspect.CustomType):
            if is_secret_type(node.cls):
                # msgspec does not report the type argument of a secret.
                stack.extend(msgspec.inspect.type_info(inner) for inner in _contents_of_secrets(hint))
            elif node.cls is not object and not _is_described(node.cls):
                found.append(node.cls)
        elif isinstance(node, tuple):
            stack.extend(node)
        elif isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field):
            stack.extend(getattr(node, name) for name in node.__struct_fields__ if "default" not in name)
    return found


def _is_described(kind: Any) -> bool:
    """Whether pydantic or an author describes how a class is stored."""
    is_registered = isinstance(kind, type) and registered.find(kind) is not None
    return is_registered or is_not_stored_type(kind) or pydantic_bridge.is_model_type(kind)


def _mentions_model(hint: Any) -> bool:
    return any(pydantic_bridge.is_model_type(item) for item in _within(hint))


def _contents_of_secrets(hint: Any) -> Iterator[Any]:
    for item in _within(hint):
        if typing.get_origin(item) is Secret:
            yield from typing.get_args(item)


def _within(hint: Any) -> Iterator[Any]:
    """The hint and every hint inside it."""
    seen: list[Any] = []
    stack = [hint]
    while stack:
        item = stack.pop()
        yield item
        if not any(item is other for other in seen):
            seen.append(item)
            stack.extend(parts_of(item))


def parts_of(hint: Any) -> Iterator[Any]:
    """The hints directly inside this hint."""
    yield from typing.get_args(hint)
    record = typing.get_origin(hint) or hint
    is_record = dataclasses.is_dataclass(record) or typing.is_typeddict(record) or hasattr(record, "__struct_fields__")
    if (is_record or hasattr(record, "_fields")) and not isinstance(record, types.UnionType):
        yield from typing.get_type_hints(record, include_extras=True).values()
