"""Templates: values that are read from a payload, as data. `order.id` is a path, `order-{order.id}` is a text with
paths in it. There is nothing else in the language, so a stored template cannot run anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from stepwell.errors import InvalidInputError, InvalidOptionError

LENGTH_MAX: Final = 500
DEPTH_MAX: Final = 8

Template: TypeAlias = "str | int | float | bool | dict[str, Template] | None"
"""A path or a text with paths; or fields, each with a template. Other plain values stand for themselves."""

_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


class _Piece(NamedTuple):
    text: str
    is_path: bool


def check_template(template: Any, *, what: str) -> Template:
    """A template that can be stored. Raises `InvalidOptionError`."""
    _check(template, what, 0)
    return template  # type: ignore[no-any-return]


def _check(template: Any, what: str, depth: int) -> None:
    if callable(template):
        raise InvalidOptionError(
            f"{what} is a function",
            why="it is stored, so that every process that publishes uses it; a function cannot be stored",
            fix=f'write a path into the event, {what}="order.id", or a text with paths, {what}="order-{{order.id}}"',
        )
    match template:
        case None | bool() | int() | float():
            return
        case str():
            _read(template, what)
        case dict() if depth < DEPTH_MAX:
            for name, part in template.items():
                if not isinstance(name, str):
                    raise InvalidOptionError(f"{what} has a field {name!r:.60}", fix="names of fields are texts")
                _check(part, f"{what}.{name}", depth + 1)
        case _:
            raise InvalidOptionError(
                f"{what} is {template!r:.60}", fix='a path such as "order.id", a text such as "order-{order.id}"'
            )


def render(template: Template, payload: Any, *, what: str) -> Any:
    """The value of a template for a payload of plain JSON. Raises `InvalidInputError` if the payload lacks it."""
    if isinstance(template, dict):
        return {name: render(part, payload, what=f"{what}.{name}") for name, part in template.items()}
    if not isinstance(template, str):
        return template
    pieces = _read(template, what)
    if len(pieces) == 1 and pieces[0].is_path and "{" not in template:
        return _look_up(pieces[0].text, payload, what)
    return "".join(_text(piece.text, payload, what) if piece.is_path else piece.text for piece in pieces)


def render_text(template: Template, payload: Any, *, what: str) -> str:
    """The same, as a text. Raises `InvalidInputError` if it is neither a text nor a whole number."""
    found = render(template, payload, what=what)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise _no_text(f"`{template}`", found, what)
    return str(found)


def first_names(template: Template) -> Iterator[str]:
    """The fields of the payload that a template reads."""
    if isinstance(template, dict):
        for part in template.values():
            yield from first_names(part)
    elif isinstance(template, str):
        yield from (piece.text.partition(".")[0] for piece in _read(template, "template") if piece.is_path)


def _read(template: str, what: str) -> list[_Piece]:
    """The pieces of a template. A text without braces is one path."""
    if len(template) > LENGTH_MAX:
        raise InvalidOptionError(f"{what} is too long", fix=f"at most {LENGTH_MAX} characters")
    if "{" not in template and "}" not in template:
        return [_Piece(_path(template, template, what), True)]
    pieces: list[_Piece] = []
    for found in _PART.finditer(template):
        part = found[0]
        if part in ("{", "}"):
            raise InvalidOptionError(
                f"{what}: a brace is alone in {template!r:.80}",
                fix='write "order-{order.id}"; a brace itself is {{ or }}',
            )
        if found[1] is not None:
            pieces.append(_Piece(_path(found[1], template, what), True))
        else:
            pieces.append(_Piece({"{{": "{", "}}": "}"}.get(part, part), False))
    return pieces


def _path(path: str, template: str, what: str) -> str:
    if not path or any(not part or part != part.strip() for part in path.split(".")):
        raise InvalidOptionError(
            f"{what}: {template!r:.80} has no readable path",
            why="a path is the names of fields with dots between them",
            fix=f'{what}="order.id", or {what}="order-{{order.id}}"',
        )
    return path


def _look_up(path: str, payload: Any, what: str) -> Any:
    found = payload
    for part in path.split("."):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isascii() and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise InvalidInputError(f"the event has no `{path}`", where=what)
    return found


def _text(path: str, payload: Any, what: str) -> str:
    found = _look_up(path, payload, what)
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise _no_text(f"`{path}`", found, what)
    return str(found)


def _no_text(place: str, found: Any, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what} cannot be made from this event",
        [f"{place}: expected a text or a whole number, got `{type(found).__name__}`"],
        where=what,
    )
