"""The attributes of an exception, as they are recorded with its failure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from stepwell.codec import registered
from stepwell.codec.base import Codec, Place
from stepwell.errors import StepwellError

FIELDS_BYTES_MAX: Final = 8_000  # of all attributes of one exception
_OWN: Final = frozenset({"args", "with_traceback", "add_note"})


class ErrorFields(NamedTuple):
    """What is recorded of the attributes: JSON, and the names of the attributes that it holds exactly."""

    data: bytes = b"null"
    names: tuple[str, ...] = ()


NO_FIELDS: Final = ErrorFields()


def fields_of(error: BaseException, codec: Codec, place: Place) -> ErrorFields:
    """The attributes of an author's exception, as far as they fit into JSON.

    A registered class is stored by its own function. Otherwise public attributes are stored, except with an encrypting
    codec: a failure is stored in plain.
    """
    if isinstance(error, StepwellError):
        return NO_FIELDS
    known = registered.find(type(error))
    if known is not None:
        return ErrorFields(codec.encode_readable(known.encode(error), place=place))
    if codec.conceals:
        return NO_FIELDS
    try:
        own = {name: value for name, value in vars(error).items() if name[:1] != "_" and name not in _OWN}
    except Exception:  # noqa: BLE001  an exception's own code may raise anything
        return NO_FIELDS
    stored: dict[str, msgspec.Raw] = {}
    exact: list[str] = []
    size = 0
    for name, value in own.items():
        try:
            body = codec.encode_readable(value, place=place)
            is_exact = _is_same(msgspec.json.decode(body), value)
        except Exception:  # noqa: BLE001  it has no form in JSON, so it is left out
            continue
        size += len(name) + len(body)
        if size > FIELDS_BYTES_MAX:
            break
        stored[name] = msgspec.Raw(body)
        if is_exact:
            exact.append(name)
    return ErrorFields(msgspec.json.encode(stored), tuple(exact)) if stored else NO_FIELDS


def _is_same(plain: Any, value: Any) -> bool:
    """Whether two values are equal, and of the same plain types at every level."""
    if type(plain) is not type(value):
        return False
    if type(plain) is list:
        return len(plain) == len(value) and all(map(_is_same, plain, value))
    if type(plain) is dict:
        return list(plain) == list(value) and all(map(_is_same, plain.values(), value.values()))
    return bool(plain == value)


def rebuilt(kind: type[BaseException], data: Any) -> dict[str, Any] | None:
    """The attributes of a recorded exception of a registered class; None if it is not registered, or does not fit."""
    known = registered.find(kind)
    if known is None:
        return None
    try:
        return dict(vars(known.decode(data)))
    except Exception:  # noqa: BLE001  the record is older than the function, or the function is broken
        return None
