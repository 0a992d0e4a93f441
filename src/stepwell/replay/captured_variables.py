"""Finds changes that the body of a race, a loop or a `fail_fast` branch makes outside itself.

A replay does not run such a body again once its result is recorded, because its history may be gone. A change of a
variable or container outside the body would then be lost. So the captured variables are compared before and after each
slice of the body's own code, and a change stops the run before the result is recorded.

Compared are the variables of enclosing functions, default arguments, the object of a bound method, and the contents of
lists, dictionaries, sets, bytearrays, iterators, dataclasses and models. Other objects (clients, loggers) are compared
by identity. Globals are not compared, nor are variables that the workflow's own function captures: they belong to the
process, not to a run.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import CellType, FunctionType, MethodType, NoneType, SimpleNamespace
from typing import Any, Final, Literal
from uuid import UUID

from stepwell.errors import LostChangeError

BodyKind = Literal["race", "fail_fast", "loop", "plain"]

_DEPTH: Final = 5  # of nested containers
_NODES: Final = 2_000  # values in one comparison; of a larger container, the size and both ends are compared
_ENDS: Final = 16
_FUNCTIONS: Final = 32  # helper functions whose captured variables are compared as well
_ATOMS: Final = frozenset(
    {NoneType, bool, int, float, complex, str, bytes, date, datetime, time, timedelta, Decimal, UUID, range, type(...)}
)
_SOME: Final[tuple[Iterable[Any], ...]] = ([], (), "", b"", range(0), {}, set(), {}.values(), {}.items())
_ITERATORS: Final = tuple(type(iter(each)) for each in _SOME)
_EMPTY: Final = object()

WATCHED: ContextVar[VariableWatch | None] = ContextVar("stepwell_watched", default=None)

_FIXES: Final[dict[BodyKind, str]] = {
    "race": "return the value from the branch, and write outside: {name} = (await ctx.race(...)).value",
    "fail_fast": "return the value from the branch, and write outside: {name} = await ctx.{operation}(...)",
    "loop": "keep the value in the loop's state: return Continue({name}) or Break({name})",
    "plain": "return the value, and write outside: {name} = ctx.{operation}(...)",
}


class VariableWatch:
    """The captured variables of the bodies of one operation."""

    __slots__ = ("_before", "_roots", "changed", "parent")

    def __init__(self, roots: dict[str, Any], parent: VariableWatch | None) -> None:
        self._roots = roots
        self._before: list[list[Any]] = []
        self.parent = parent
        self.changed: str | None = None

    def enter(self) -> None:
        """The event loop begins to run a slice of a body, and so of every body around it."""
        self.begin()
        if self.parent is not None:
            self.parent.enter()

    def leave(self) -> None:
        """The slice is over."""
        self.compare()
        if self.parent is not None:
            self.parent.leave()

    def begin(self) -> None:
        """Remember the current values."""
        self._before = self._read()

    def compare(self) -> None:
        """Note whether a value has changed."""
        if self.changed is None:
            for name, was, now in zip(self._roots, self._before, self._read(), strict=True):
                if _differ(was, now):
                    self.changed = name
                    break

    def _read(self) -> list[list[Any]]:
        values = []
        for root in self._roots.values():
            found: list[Any] = []
            _flatten(_value_of(root), found, _DEPTH)
            values.append(found)
        return values

    def problem(self, kind: BodyKind, operation: str, path: str) -> LostChangeError | None:
        """The error to raise if the bodies have changed something outside themselves."""
        if self.changed is None:
            return None
        name = self.changed.strip()
        return LostChangeError(
            f"the code inside {operation} {path} changes {name}, a variable outside of it",
            where=path,
            why=f"a replay takes the recorded result of the {operation} and does not run the code inside it again, so "
            "the change would be lost",
            fix=_FIXES[kind].format(name=name, operation=operation),
        )


def watch_of(bodies: Iterable[Callable[..., Any]], code: Callable[..., Any] | None) -> VariableWatch | None:
    """A watch over the variables that these functions capture. Variables that the workflow's function (`code`)
    captures too are left out. None if there are none.
    """
    roots: dict[str, Any] = {}
    seen: set[int] = set()
    outside: list[Any] | None = None
    for body in bodies:
        for name, root in _captured(body, seen):
            if outside is None:
                outside = [] if code is None else [each for _, each in _captured(code, set())]
            if any(root is each for each in outside):
                continue
            label = name
            while label in roots and roots[label] is not root:
                label += " "  # another variable of the same name
            roots[label] = root
    return VariableWatch(roots, WATCHED.get()) if roots else None


def _captured(body: Any, seen: set[int], home: str | None = None) -> Iterator[tuple[str, Any]]:
    """The variables that a function captures, by name: cells, or values that code cannot rebind."""
    if id(body) in seen or len(seen) >= _FUNCTIONS:
        return
    seen.add(id(body))
    if isinstance(body, functools.partial):
        yield from ((f"args[{number}]", (value,)) for number, value in enumerate(body.args))
        yield from ((name, (value,)) for name, value in body.keywords.items())
        yield from _captured(body.func, seen, home)
    elif isinstance(body, MethodType):
        yield "self", (body.__self__,)
        yield from _captured(body.__func__, seen, home)
    elif isinstance(body, FunctionType) and "<locals>" in body.__qualname__:
        home = home or _package(body)
        yield from zip(body.__code__.co_freevars, body.__closure__ or (), strict=True)
        if body.__defaults__:
            names = body.__code__.co_varnames[: body.__code__.co_argcount][-len(body.__defaults__) :]
            yield from ((name, (value,)) for name, value in zip(names, body.__defaults__, strict=True))
        yield from ((name, (value,)) for name, value in (body.__kwdefaults__ or {}).items())
        for cell in body.__closure__ or ():
            helper = _value_of(cell)
            if isinstance(helper, MethodType | functools.partial) or (
                isinstance(helper, FunctionType) and _package(helper) == home
            ):
                yield from _captured(helper, seen, home)
    elif not isinstance(body, FunctionType | type) and callable(body) and not _is_own(type(body)):
        yield "self", (body,)
        yield from _captured(vars(type(body)).get("__call__"), seen, home)


def _package(fn: FunctionType) -> str:
    return (fn.__module__ or "").partition(".")[0]


def _value_of(root: Any) -> Any:
    if not isinstance(root, CellType):
        return root[0]
    try:
        return root.cell_contents
    except ValueError:
        return _EMPTY


def _is_own(kind: type) -> bool:
    return kind.__module__ == "stepwell" or kind.__module__.startswith("stepwell.")


def _flatten(value: Any, found: list[Any], depth: int) -> None:
    """A value as a flat list that can be compared: sizes and types of containers, and the values inside them."""
    kind = type(value)
    if kind in _ATOMS or depth == 0 or len(found) > _NODES:
        found.append(value)
    elif isinstance(value, dict):
        found += (kind, len(value))
        _inside((part for item in _ends(value.items(), len(value), found) for part in item), found, depth)
    elif isinstance(value, list | tuple | set | frozenset | collections.deque):
        found += (kind, len(value))
        _inside(_ends(value, len(value), found), found, depth)
    elif isinstance(value, bytearray):
        found += (kind, len(value), bytes(value) if len(value) <= _NODES else hash(bytes(value)))
    elif isinstance(value, _ITERATORS):
        found += (value, operator.length_hint(value))
    elif isinstance(value, itertools.count):
        found += (value, repr(value))
    elif isinstance(value, enum.Enum | type) or _is_own(kind):
        found.append(value)
    else:
        names = _fields_of(value, kind)
        found.append(kind if names else value)
        if names:
            _inside((getattr(value, name, _EMPTY) for name in names), found, depth)


def _inside(values: Iterable[Any], found: list[Any], depth: int) -> None:
    for each in values:
        if type(each) in _ATOMS:
            found.append(each)
        else:
            _flatten(each, found, depth - 1)


def _ends(values: Any, size: int, found: list[Any]) -> Iterable[Any]:
    """All values; of a container that is too large, only the first and the last."""
    if size + len(found) <= _NODES:
        return values  # type: ignore[no-any-return]
    if isinstance(values, list | tuple | collections.deque):
        return [*itertools.islice(values, _ENDS), *itertools.islice(reversed(values), _ENDS)]
    return itertools.islice(values, _ENDS)


def _fields_of(value: Any, kind: type) -> Iterable[str]:
    """The names of the fields of a value that only holds data."""
    if dataclasses.is_dataclass(kind):
        return kind.__dataclass_fields__
    if hasattr(kind, "__struct_fields__"):
        return kind.__struct_fields__  # type: ignore[no-any-return]
    if hasattr(kind, "__attrs_attrs__"):
        return [field.name for field in kind.__attrs_attrs__]
    if isinstance(value, SimpleNamespace) or hasattr(kind, "__pydantic_fields__"):
        return tuple(vars(value))
    return ()


def _differ(was: list[Any], now: list[Any]) -> bool:
    if len(was) != len(now):
        return True
    for before, after in zip(was, now, strict=True):
        if before is not after:
            kind = type(before)
            if kind is not type(after) or kind not in _ATOMS or before != after:
                return True
    return False
