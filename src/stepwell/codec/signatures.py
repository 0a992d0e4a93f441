"""The signatures of functions, and their calls as payloads.

A stored call is `{"a": [positional…], "k": {keyword…}}`, each argument typed by the function's own annotation. A
compensation gets the input of its step from such a call.
"""

from __future__ import annotations

import builtins
import collections.abc
import dataclasses
import functools
import inspect
import typing
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stepwell.codec import words
from stepwell.codec.base import ANY, JSON_V1, Codec, Payload, Place, PlaceLike, Unresolved, place_of

Kind = inspect._ParameterKind
MISSING: Final = inspect.Parameter.empty
"""The default of a parameter that has none."""

# Bound once: members of an enum are slow to look up, and these are read for every stored argument.
_VAR_POSITIONAL: Final = Kind.VAR_POSITIONAL
_VAR_KEYWORD: Final = Kind.VAR_KEYWORD
_NOT_POSITIONAL: Final = (Kind.KEYWORD_ONLY, Kind.VAR_KEYWORD)
_BY_NAME: Final = (Kind.POSITIONAL_OR_KEYWORD, Kind.KEYWORD_ONLY)
_AWAITABLES: Final = (collections.abc.Awaitable, collections.abc.Coroutine)


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, its hint (`ANY` if it has none), how it may be passed, and its default or `MISSING`."""

    name: str
    hint: Any
    kind: Kind
    default: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a callable and the hint of what it returns, awaited if it is asynchronous."""

    parameters: tuple[Parameter, ...]
    returns: Any

    def positional(self, index: int) -> Parameter | None:
        """The parameter that takes the positional argument `index`; None if there is none."""
        for position, parameter in enumerate(self.parameters):
            if parameter.kind is _VAR_POSITIONAL:
                return parameter
            if parameter.kind in _NOT_POSITIONAL:
                return None
            if position == index:
                return parameter
        return None

    def keyword(self, name: str) -> Parameter | None:
        """The parameter that takes the keyword argument `name`; None if there is none."""
        for parameter in self.parameters:
            if parameter.name == name and parameter.kind in _BY_NAME:
                return parameter
            if parameter.kind is _VAR_KEYWORD:
                return parameter
        return None


_UNKNOWN: Final = Signature(
    (Parameter("args", ANY, _VAR_POSITIONAL, MISSING), Parameter("kwargs", ANY, _VAR_KEYWORD, MISSING)), ANY
)
_signatures: weakref.WeakKeyDictionary[Any, Signature] = weakref.WeakKeyDictionary()


def hints_of(fn: Callable[..., Any]) -> Signature:
    """The signature of any callable, made once per function.

    An annotation that cannot be resolved becomes an `Unresolved` hint, which the codec rejects when it is used. A
    callable without a readable signature takes anything and returns anything.
    """
    try:
        signature = _signatures.get(fn)
    except TypeError:  # a callable object that cannot be hashed or referred to weakly
        return _read_signature(fn)
    if signature is None:
        signature = _signatures[fn] = _read_signature(fn)
    return signature


def _read_signature(fn: Callable[..., Any]) -> Signature:
    try:
        raw = inspect.signature(fn)
    except (TypeError, ValueError):
        return _UNKNOWN
    holder = _holder_of(fn)
    resolve = functools.partial(_resolve, holder, _name_of(fn))
    parameters = tuple(
        Parameter(item.name, resolve(item.name, item.annotation), item.kind, item.default)
        for item in raw.parameters.values()
    )
    if isinstance(fn, type):
        return Signature(parameters, fn)
    return Signature(parameters, _awaited(resolve("return", raw.return_annotation)))


def _holder_of(fn: Any) -> Any:
    """The plain function whose globals the annotations of `fn` were written in."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if isinstance(fn, type):
        fn = getattr(fn, "__init__")  # noqa: B009  mypy: unsound on instances, and this is a class
    elif not inspect.isroutine(fn):
        fn = type(fn).__call__
    return inspect.unwrap(getattr(fn, "__func__", fn))


def _name_of(fn: Any) -> str:
    return str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)


def _resolve(holder: Any, function: str, name: str, annotation: Any) -> Any:
    """One annotation as a type. Each is resolved separately, so that a bad one does not affect the others."""
    if annotation is MISSING:
        return ANY
    if isinstance(annotation, str) and annotation.isidentifier():
        named = _named(holder, annotation)
        if named is not None:
            return named
    carrier = type("Annotations", (), {"__annotations__": {name: annotation}})
    try:
        scope = getattr(holder, "__globals__", {})
        hints = typing.get_type_hints(carrier, scope, _nonlocals(holder), include_extras=True)
    except Exception as error:  # noqa: BLE001  evaluating an author's annotation may raise anything
        return Unresolved(function, name, str(annotation), f"{type(error).__name__}: {error}")
    return hints[name]


def _named(holder: Any, name: str) -> type | None:
    """The class that an annotation names, which most do: evaluating one takes 50 times as long."""
    scope = getattr(holder, "__globals__", {})
    found = _nonlocals(holder).get(name, scope.get(name, getattr(builtins, name, None)))
    if not isinstance(found, type) or found in (typing.Generic, typing.Protocol):
        return None
    return found


def _nonlocals(holder: Any) -> dict[str, Any]:
    """Names of the enclosing function that the function itself uses."""
    found = {}
    code, cells = getattr(holder, "__code__", None), getattr(holder, "__closure__", None)
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _awaited(hint: Any) -> Any:
    """The type of the awaited result, for a plain `def` that is annotated to return an awaitable."""
    return typing.get_args(hint)[-1] if typing.get_origin(hint) in _AWAITABLES else hint


# --- calls as payloads ---------------------------------------------------------------------


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    a: list[msgspec.Raw]
    k: dict[str, msgspec.Raw]


def encode_call(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    fn: Callable[..., Any],
    *,
    place: PlaceLike,
    codec: Codec,
    skip: int = 0,
) -> Payload:
    """The arguments of one call of `fn` as a payload.

    `skip` is how many leading parameters the caller fills in itself, such as a step's context; they are not in `args`.

    Raises:
        UnserialisableError: an argument cannot be stored; the field starts with the parameter's name.
        PayloadTooLargeError: all arguments together are above the limit.
    """
    signature = hints_of(fn)
    positional = [
        _encode_argument(codec, value, signature.positional(index + skip), str(index), place)
        for index, value in enumerate(args)
    ]
    keyword = [
        msgspec.json.encode(name) + b":" + _encode_argument(codec, value, signature.keyword(name), name, place)
        for name, value in kwargs.items()
    ]
    body = b'{"a":[' + b",".join(positional) + b'],"k":{' + b",".join(keyword) + b"}}"
    if len(body) > codec.payload_bytes_max:
        raise words.too_large(place_of(place), len(body), codec.payload_bytes_max)
    return codec.seal(JSON_V1 + body, place=place)


def decode_call(
    payload: Payload, fn: Callable[..., Any], *, place: PlaceLike, codec: Codec, skip: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and keyword arguments that `encode_call` stored, typed as `fn` is annotated now.

    An argument for which `fn` no longer has a parameter comes back as plain JSON. Raises as `Codec.decode` does.
    """
    signature = hints_of(fn)
    call: _Call = codec.decode(payload, _Call, place=place)
    args = tuple(
        _decode_argument(codec, raw, signature.positional(index + skip), str(index), place)
        for index, raw in enumerate(call.a)
    )
    kwargs = {name: _decode_argument(codec, raw, signature.keyword(name), name, place) for name, raw in call.k.items()}
    return args, kwargs


def _encode_argument(codec: Codec, value: Any, parameter: Parameter | None, name: str, place: PlaceLike) -> bytes:
    hint = ANY if parameter is None else parameter.hint
    return codec.encode_body(value, hint, _argument_place(parameter, name, place))


def _decode_argument(codec: Codec, raw: msgspec.Raw, parameter: Parameter | None, name: str, place: PlaceLike) -> Any:
    hint = ANY if parameter is None else parameter.hint
    return codec.decode_body(bytes(raw), hint, _argument_place(parameter, name, place))


def _argument_place(parameter: Parameter | None, name: str, place: PlaceLike) -> PlaceLike:
    """The place of one argument: field paths start with the name of its parameter."""

    def make() -> Place:
        return place_of(place)._replace(root=parameter.name if parameter else f"argument {name}")

    return make
