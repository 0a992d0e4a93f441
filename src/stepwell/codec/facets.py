"""Facets: the plain fields of an event, by which a wait can filter. Each is one text that stores can compare.

A facet is `order="42"`, for example. Under encryption, and for long values, it has a digest instead of the value. A
digest does not show the value, but a reader of the store can test guesses against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from stepwell.codec.base import ANY, Codec, Place
from stepwell.codec.secret import Secret
from stepwell.errors import InvalidOptionError, StepwellError
from stepwell.nearest import nearest

_SHOWN_MAX: Final = 200
_PLAIN: Final = (str, int, float, bool, type(None))


def facets_of(codec: Codec, topic: str, value: Any) -> tuple[str, ...]:
    """The facets of an event: one text for each plain field. Secrets are left out."""
    found = ((name, _plain(codec, topic, part)) for name, part in _fields_of(value))
    return tuple(sorted(_facet(codec, topic, name, part) for name, (part, is_plain) in found if is_plain))


def _fields_of(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, msgspec.Struct):
        yield from ((field.encode_name, getattr(value, field.name)) for field in msgspec.structs.fields(value))


def _plain(codec: Codec, topic: str, value: Any) -> tuple[Any, bool]:
    """A value as plain JSON, and whether it can be compared."""
    if isinstance(value, Secret):
        return None, False
    try:
        part = msgspec.json.decode(codec.encode_body(value, ANY, Place("", topic, "the event")))
    except StepwellError:
        return None, False
    return part, isinstance(part, _PLAIN)


def facets_wanted(codec: Codec, topic: str, where: Mapping[str, Any] | None, hint: Any) -> tuple[str, ...]:
    """The facets that a wait requires. Raises `InvalidOptionError` if no event could have them."""
    if not where:
        return ()
    if not isinstance(where, Mapping):
        raise InvalidOptionError(
            f"where is {where!r}",
            where=f"topic {topic}",
            why="the store chooses the event, and cannot call code",
            fix='write fields and their values: where={"order": "42"}',
        )
    known = None if hint is ANY else {field.name: field.encode_name for field in msgspec.structs.fields(hint)}
    return tuple(sorted(_wanted(codec, topic, name, value, known) for name, value in where.items()))


def _wanted(codec: Codec, topic: str, name: str, value: Any, known: dict[str, str] | None) -> str:
    if known is not None and name not in known:
        near = nearest(str(name), known)
        raise InvalidOptionError(
            f"events of {topic} have no field {name!r}",
            where=f"topic {topic}",
            fix=f"did you mean {near[0]!r}?" if near else f"use one of its fields: {', '.join(known) or 'none'}",
        )
    part, is_plain = _plain(codec, topic, value)
    if not is_plain:
        raise InvalidOptionError(
            f"where: {name} is a {type(value).__name__}",
            where=f"topic {topic}",
            why="only plain values of an event's own fields can be compared",
            fix="compare with a text, a number, True, False or None",
        )
    return _facet(codec, topic, str(name) if known is None else known[name], part)


def _facet(codec: Codec, topic: str, name: str, part: Any) -> str:
    if isinstance(part, float) and part.is_integer():
        part = int(part)
    text = msgspec.json.encode(part).decode()
    if not codec.conceals and len(text) <= _SHOWN_MAX:
        return f"{name}={text}"
    digest = hashlib.blake2b(f"{topic}\x1f{name}\x1f{text}".encode(), digest_size=16).hexdigest()
    return f"{name}#{digest}"
