"""Everything that touches pydantic. This module never imports it, so programs that do not use it have no cost.

Models are written by field name and read by field name or alias, so that models with aliases round-trip. Needs
pydantic ≥ 2.11.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stepwell.codec.fields import Segment, shorten, show_field
from stepwell.errors.requests import Violation


def is_model(value: object) -> bool:
    """Whether `value` is an instance of a pydantic model."""
    return is_model_type(type(value))


def is_model_type(hint: object) -> bool:
    """Whether `hint` is a pydantic model class."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def is_secret(value: object) -> bool:
    """Whether `value` is a pydantic secret, which dumps as asterisks."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(value, pydantic.SecretStr | pydantic.SecretBytes | pydantic.Secret)


def fields_of(model: Any) -> Iterable[tuple[Segment, Any]]:
    """Names and values of a model's fields, extra ones included."""
    yield from vars(model).items()
    yield from (model.__pydantic_extra__ or {}).items()


def dump(model: Any) -> Any:
    """The model as plain JSON types."""
    return model.model_dump(mode="json", by_alias=False, round_trip=True)


def reader(model: Any) -> Callable[[bytes], Any]:
    """A function from JSON to that model."""

    def read(body: bytes) -> Any:
        return model.model_validate_json(body, by_alias=True, by_name=True)

    return read


def read_plain(model: Any, data: Any) -> Any:
    """A model from plain JSON types. It goes through JSON text, so that strict models accept what they wrote."""
    return model.model_validate_json(msgspec.json.encode(data), by_alias=True, by_name=True)


class Adapter:
    """Reads and writes a hint that msgspec rejects, such as a union of two models, by pydantic's `TypeAdapter`.

    Each value is read back when it is written: two members of a union may look alike in JSON.
    """

    def __init__(self, hint: Any) -> None:
        self._adapter: Any = sys.modules["pydantic"].TypeAdapter(hint)

    def read(self, body: bytes) -> Any:
        """The value in this JSON; raises pydantic's `ValidationError`."""
        return self._adapter.validate_json(body, by_alias=True, by_name=True)

    def dump(self, value: Any) -> Any:
        """The value as plain JSON types; raises `ValueError` if it would read back as another value."""
        plain = self._adapter.dump_python(value, mode="json", by_alias=False, round_trip=True, warnings="error")
        back = self.read(msgspec.json.encode(plain))
        if type(back) is not type(value) or back != value:
            raise ValueError("it reads back as another value; give the types of the union a distinct Literal field")
        return plain

    def accept(self, value: Any) -> Any:
        """A Python value, of instances or plain data, converted to this hint; raises pydantic's `ValidationError`."""
        return self._adapter.validate_python(value, by_alias=True, by_name=True)


def violations_of(error: Any, root: str, prefix: str, path: tuple[Segment, ...] = ()) -> list[Violation]:
    """Every violation of a pydantic `ValidationError`, one sentence each; empty for other errors."""
    core = sys.modules.get("pydantic_core")
    if core is None or not isinstance(error, core.ValidationError):
        return []
    found = []
    for item in error.errors(include_url=False, include_context=False):
        field = show_field(root, prefix, (*path, *item["loc"]))
        got = "" if item["type"] == "missing" else f", got {shorten(item['input'])}"
        text = "missing" if item["type"] == "missing" else item["msg"][:1].lower() + item["msg"][1:]
        # The message of a validator may quote the value; the name of the rule does not.
        found.append(Violation(f"`{field}`: {text}{got}", f"`{field}`: {item['type'].replace('_', ' ')}"))
    return found
