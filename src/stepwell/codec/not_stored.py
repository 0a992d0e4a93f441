"""`NotStored`: a part of a record that is never stored, such as a cache."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from stepwell.errors import InvalidOptionError

T = TypeVar("T")

_NOTHING: Final[Any] = object()


class NotStored(Generic[T]):
    """A field of a record that is left out of what is stored.

        @dataclass
        class Order:
            number: str
            cache: NotStored[dict[str, str]] = field(default_factory=NotStored)

    The record comes back without the value: from a step, from a signal, and after a replay. So it is for what can be
    computed again: `order.cache.get(lambda: load(order.number))`. Equal to every other `NotStored`, so two records
    that differ only in it are equal.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T = _NOTHING) -> None:
        self._value = value

    @property
    def is_there(self) -> bool:
        """Whether it has a value."""
        return self._value is not _NOTHING

    def set(self, value: T) -> None:
        """Keep a value, as long as this object lives."""
        self._value = value

    def get(self, make: Any = None) -> T:
        """The value; if there is none, what `make()` returns, which is kept.

        Without `make`, raises `InvalidOptionError` if there is no value.
        """
        if self._value is _NOTHING:
            if make is None:
                raise InvalidOptionError(
                    "this value was not stored",
                    why="a NotStored is empty after the record that holds it was stored and read back",
                    fix="field.get(lambda: make_it_again())",
                )
            self._value = make()
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NotStored)

    def __hash__(self) -> int:
        return hash(NotStored)

    def __repr__(self) -> str:
        return f"NotStored({self._value!r})" if self.is_there else "NotStored()"
