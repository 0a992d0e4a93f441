"""Input from a command line: `name=text`, `name:=json`, `@file` and `-` for standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwell.errors import InvalidInputError, RequestError

if TYPE_CHECKING:
    from stepwell.replay.workflows import Workflow

_ITEM = re.compile(r"([^=]*?)(:?=)(.*)", re.DOTALL)
_ATTRIBUTE_FORM = "write --attr region=eu, --attr amount:=42.10, --attr vip:=true or --attr due:=2026-12-01T09:30"
_FORM = "write name=text, name:=json, @file.json, or - for standard input"


def read_input(words: Sequence[str], *, what: str) -> Any:
    """The plain JSON value that the words spell; None without words.

    JSON text is read strictly: no duplicate keys, no NaN. Raises `InvalidInputError` with all violations.
    """
    whole = [word for word in words if word == "-" or word.startswith("@")]
    if len(whole) > 1:
        raise RequestError("only one @file or - can be the input", why=" ".join(whole), fix=_FORM)
    fields = _read_fields([word for word in words if word not in whole], what)
    if not whole:
        return fields or None
    document = _decode(_read_text(whole[0]), what)
    if not fields:
        return document
    if not isinstance(document, dict):
        raise RequestError(f"{whole[0]} is not a JSON object, so single fields cannot be added to it", fix=_FORM)
    return {**document, **fields}


def read_attributes(words: Sequence[str]) -> dict[str, Any]:
    """The attributes that the words spell: `name=text`, or `name:=` and a number, `true`, `false` or a time."""
    found: dict[str, Any] = {}
    for word in words:
        parts = _ITEM.fullmatch(word)
        if parts is None or not parts[1] or parts[1] in found:
            what = "is there twice" if parts is not None and parts[1] in found else "has no name or no value"
            raise RequestError(f"--attr {word} {what}", fix=_ATTRIBUTE_FORM)
        found[parts[1]] = parts[3] if parts[2] == "=" else _typed(word, parts[3])
    return found


def _typed(word: str, text: str) -> bool | Decimal | datetime:
    if text in ("true", "false"):
        return text == "true"
    try:
        return Decimal(text)
    except ArithmeticError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        why = f"{text!r} is neither a number nor true, false or a time"
        raise RequestError(f"--attr {word} cannot be read", why=why, fix=_ATTRIBUTE_FORM) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def read_time(text: str, *, what: str) -> datetime:
    """A point in time; without an offset, UTC."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        fix = f"write {what} 2026-12-24T08:00+01:00"
        raise RequestError(f"{what} {text} cannot be read", why=f"{text!r} is not a point in time", fix=fix) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def read_json(text: str, *, what: str) -> Any:
    """The plain value of JSON text, of `@file`, or of standard input for `-`."""
    return _decode(
        _read_text(text) if text == "-" or text.startswith("@") else text.encode("utf-8", "surrogatepass"), what
    )


def check_input(workflow: Workflow[Any, Any], value: Any) -> Any:
    """The input as the workflow's annotation declares it. Raises `InvalidInputError` with all violations."""
    from stepwell.cli.texts import brief, dump_json
    from stepwell.codec.base import Place
    from stepwell.codec.json_codec import JsonCodec

    if value is not None and not workflow.takes_input:
        raise InvalidInputError(f"{workflow.name} takes no input", [f"the input is {brief(value)}"], fix="leave it out")
    if value is None:
        return value
    place = Place(workflow.name, "", "the input")
    return JsonCodec().decode_external(dump_json(value, is_compact=True), workflow.input_hint, place=place)


def _read_fields(words: Iterable[str], what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for word in words:
        parts = _ITEM.fullmatch(word)
        if parts is None or not parts[1].strip():
            wrong.append(f"{word!r} has no name: {_FORM}")
        elif parts[1] in found:
            wrong.append(f"`{parts[1]}` is given twice")
        elif parts[2] == "=":
            found[parts[1]] = parts[3]
        else:
            found[parts[1]] = None
            try:
                found[parts[1]] = _decode(parts[3].encode("utf-8", "surrogatepass"), f"{what} {parts[1]!r}")
            except InvalidInputError as error:
                wrong += [f"`{parts[1]}`: {violation}" for violation in error.violations]
    if wrong:
        raise InvalidInputError(f"{what} cannot be read", wrong, fix=_FORM)
    return found


def _read_text(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    file = Path(source[1:])
    try:
        return file.read_bytes()
    except OSError as error:
        raise RequestError(f"cannot read {file}: {error.strerror or error}", where=str(file)) from error


def _decode(text: bytes, what: str) -> Any:
    from stepwell.codec.base import Place
    from stepwell.codec.json_codec import JsonCodec

    return JsonCodec().decode_external(text, Any, place=Place("", "", what))
