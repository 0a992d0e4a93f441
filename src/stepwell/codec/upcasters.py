"""Up-casters: they convert stored values of an old shape to the shape that the code has now.

An up-caster is a function from the plain JSON of one shape to the plain JSON of the next. The up-casters of a type are
registered oldest first, and called only if a stored value does not fit:

    codec.register_upcaster(Order, from_v1)   # v1 → v2
    codec.register_upcaster(Order, from_v2)   # v2 → v3, which is `Order` now

A value of version 2 then passes through `from_v2` alone, a value of version 1 through both: the shortest end of the
chain whose result fits is used. So an up-caster must raise, or return something that does not fit, for other shapes.
The stored value is not changed.

Up-casters also apply inside lists, dicts, unions and the fields of dataclasses, Structs and TypedDicts. They do not
apply inside a pydantic model, which has validators for that.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Final

from stepwell.codec.base import Upcaster
from stepwell.codec.fields import type_name
from stepwell.codec.violations import fits, parts_with_hints
from stepwell.errors import InvalidOptionError

CALLS_MAX: Final = 100_000
"""Calls of up-casters for one payload: a recursive type may have an unlimited number of combinations."""

NOTES_MAX: Final = 5


class Upcasters:
    """The up-casters of one codec, by type."""

    def __init__(self) -> None:
        self._chains: dict[Any, list[Upcaster]] = {}

    def __bool__(self) -> bool:
        return bool(self._chains)

    def register(self, hint: Any, upcaster: Upcaster) -> None:
        """Add the newest up-caster of a type."""
        if not callable(upcaster):
            raise InvalidOptionError(f"the up-caster of {type_name(hint)} is not callable", fix="pass a function")
        try:
            self._chains.setdefault(hint, []).append(upcaster)
        except TypeError:
            raise InvalidOptionError(f"{hint!r} cannot have up-casters", fix="pass a class") from None

    def lift(self, data: Any, hint: Any, notes: list[str]) -> Any:
        """Plain JSON that fits the hint, if up-casters can make it; otherwise the data unchanged, with notes why."""
        return _Upcast(self._chains, notes).lift(data, hint)


class _Unsuited(Exception):  # noqa: N818  control flow
    """An up-caster was not made for this value."""


class _Upcast:
    """The conversion of one payload."""

    def __init__(self, chains: dict[Any, list[Upcaster]], notes: list[str]) -> None:
        self._chains = chains
        self._notes = notes
        self._calls = 0

    def lift(self, data: Any, hint: Any) -> Any:
        if fits(data, hint):
            return data
        for candidate in self._candidates(data, hint):
            lifted = self._lift_parts(candidate, hint)
            if fits(lifted, hint):
                return lifted
        return data

    def _candidates(self, data: Any, hint: Any) -> Iterator[Any]:
        """The data itself, then the results of ever longer ends of the chain of its type."""
        yield data
        try:
            chain = self._chains.get(hint, ())
        except TypeError:  # a hint that cannot be hashed
            return
        for start in range(len(chain) - 1, -1, -1):
            self._calls += len(chain) - start
            if self._calls > CALLS_MAX:
                return
            try:
                yield self._cast(copy.deepcopy(data), chain[start:], hint)
            except _Unsuited:
                continue

    def _cast(self, data: Any, chain: Sequence[Upcaster], hint: Any) -> Any:
        for upcaster in chain:
            try:
                data = upcaster(data)
            except Exception as error:  # any error means that this up-caster is not for this value
                self._note(f"the up-caster `{_name(upcaster)}` of {type_name(hint)} failed: {type(error).__name__}")
                raise _Unsuited from error
        return data

    def _lift_parts(self, data: Any, hint: Any) -> Any:
        lifted = data
        for segments, part, part_hint in parts_with_hints(data, hint):
            raised = self.lift(part, part_hint)
            if raised is part:
                continue
            if not segments:  # the same data as a member of a union
                return raised
            if lifted is data:
                lifted = copy.copy(data)
            lifted[segments[-1]] = raised
        return lifted

    def _note(self, text: str) -> None:
        if text not in self._notes and len(self._notes) < NOTES_MAX:
            self._notes.append(text)


def _name(upcaster: Upcaster) -> str:
    return str(getattr(upcaster, "__qualname__", None) or type(upcaster).__qualname__)
