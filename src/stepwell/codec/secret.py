"""`Secret`: a value that is never shown, and stored only encrypted."""

from __future__ import annotations

import base64
import weakref
from collections.abc import Iterator
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from stepwell.redaction import MASK, register, retire

T_co = TypeVar("T_co", covariant=True)

__all__ = ["MASK", "Secret"]


class Secret(Generic[T_co]):
    """A value that only `reveal()` shows.

        @dataclass
        class Login:
            user: str
            password: Secret[str]

    As a field, an input or a result it needs an engine with an encrypting codec; any other codec rejects it. While the
    object exists, its text is masked in recorded failures and in stepwell's own log lines (see `stepwell.redaction` for
    what that misses).

    It must be annotated as a `Secret` to be decoded as one: stored under `Any`, it is decoded as the plain value.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: T_co) -> None:
        self._value = value
        spellings = register(_texts(value))
        if spellings:
            weakref.finalize(self, retire, spellings).atexit = False

    def reveal(self) -> T_co:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret[T_co]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret[T_co]:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: its value would leave this process in the clear")


def _texts(value: object) -> Iterator[str]:
    """Every text inside a value."""
    match value:
        case None | bool():
            return
        case str():
            yield value
        case bytes() | bytearray():
            yield value.decode("utf-8", "ignore")
            yield repr(bytes(value))[2:-1]
            yield base64.b64encode(value).decode()
            yield value.hex()
        case int() | float():
            yield str(value)
        case list() | tuple() | set() | frozenset():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
        case Secret():
            return  # it has registered itself
        case _:
            try:
                plain = msgspec.to_builtins(value)
            except Exception:  # noqa: BLE001  a class may raise anything
                plain = str(value) if type(value).__str__ is not object.__str__ else None
            yield from _texts(plain) if not isinstance(plain, type(value)) else ()
