"""Recorded failures as exceptions, so that the `except` clause that caught them the first time catches them again.

Types come from a closed registry (builtins, and what steps declare), never from an import by stored name.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from stepwell.codec.error_fields import rebuilt
from stepwell.errors import (
    ChildFailed,
    JoinError,
    RaceError,
    RecordedError,
    RunError,
    StepFailed,
    WaitTimeout,
)
from stepwell.errors.records import FailureRecord

_CLASSES_MAX = 4  # of one name: a cell of a notebook may define a class any number of times

_KNOWN: dict[str, list[type[Exception]]] = {
    f"builtins.{name}": [kind]
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration))
}


def register_types(types: Iterable[type[Exception]]) -> None:
    """Register types, so that code can catch them after a replay."""
    for kind in types:
        if not issubclass(kind, StepFailed):
            _add(_KNOWN.setdefault(_name_of(kind), []), kind)


def register_raised(error: BaseException) -> None:
    """Register the class of a raised error if its name is known: the class may have been defined again."""
    known = _KNOWN.get(_name_of(type(error)))
    if known is not None and isinstance(error, Exception):
        _add(known, type(error))


def known_type(qualified: str) -> type[Exception] | None:
    """The registered exception type of that module and name; the newest, if it was defined again."""
    known = _KNOWN.get(qualified)
    return _current(known)[0] if known else None


def _current(known: list[type[Exception]]) -> list[type[Exception]]:
    """The classes of one name, the newest first: code that was loaded earlier may still catch an older class."""
    module, path = sys.modules.get(known[0].__module__), known[0].__qualname__
    found: Any = None if module is None else module.__dict__.get(path)
    is_newer = isinstance(found, type) and issubclass(found, Exception) and found not in known
    if is_newer and _name_of(found) == _name_of(known[0]):
        _add(known, found)
    return known


def _add(known: list[type[Exception]], kind: type[Exception]) -> None:
    if kind not in known:
        known.insert(0, kind)
        del known[_CLASSES_MAX:]


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@cache
def _also(base: type[RunError], kinds: tuple[type[Exception], ...]) -> type[RunError]:
    """A class that inherits from all of them: `except StepFailed` and `except KeyError` catch it."""
    if issubclass(base, kinds[0]):
        return base
    try:
        return type(
            base.__name__,
            (base, *kinds),
            {"__module__": base.__module__, "__doc__": base.__doc__, "__str__": base.__str__},
        )
    except TypeError:  # the layouts of the two cannot be combined
        return base if len(kinds) == 1 else _also(base, kinds[:1])  # type: ignore[arg-type]  # as below


def _attributes(kind: type[Exception], failure: FailureRecord) -> dict[str, Any]:
    """The attributes that the original exception had, as far as they are recorded exactly."""
    if failure.data is None:
        return {}
    found = rebuilt(kind, failure.data)
    if found is None:
        recorded = failure.data if isinstance(failure.data, dict) else {}
        found = {name: recorded[name] for name in failure.fields if name in recorded}
    # `StepFailed` and its kin have names of their own, which the code of a workflow relies on.
    return {name: value for name, value in found.items() if not hasattr(RunError, name) and name != "data"}


def _build(base: type[RunError], failure: FailureRecord, *args: object) -> RunError:
    qualified = failure.qualified
    plain = base(*args)  # type: ignore[arg-type]
    known = _KNOWN.get(qualified)
    if known is None:
        return plain
    try:
        error = _bare(_also(base, tuple(_current(known))))  # type: ignore[arg-type]  # classes are hashable
        error.args = plain.args
        for name, value in (_attributes(known[0], failure) | vars(plain)).items():
            setattr(error, name, value)
    except Exception:  # noqa: BLE001  an author's class may prevent any of this
        return plain
    return error


def _bare(kind: type[RunError]) -> RunError:
    """An instance whose own `__init__` was not called: its arguments are not recorded."""
    try:
        return Exception.__new__(kind)
    except TypeError:  # a builtin with a layout of its own
        return kind.__new__(kind)


def step_failed(path: str, failure: FailureRecord, attempts: int) -> RunError:
    """The exception of a step that failed permanently."""
    return _build(StepFailed, failure, path, failure, attempts)


def revive(failure: FailureRecord) -> RunError:
    """The exception of a recorded failure."""
    match failure.code:
        case StepFailed.code if "step" in failure.causes:
            return step_failed(failure.path, failure.causes["step"], failure.attempts)
        case JoinError.code:
            return JoinError(failure.path, _revive_all(failure.causes), title=failure.message)
        case RaceError.code:
            return RaceError(failure.path, _revive_all(failure.causes), title=failure.message)
        case ChildFailed.code:
            return ChildFailed(failure.path, failure.run_id, failure.status, failure.causes.get("child"))
        case WaitTimeout.code:
            return WaitTimeout(failure.path)
        case _:
            return _build(RecordedError, failure, failure)


def _revive_all(causes: dict[str, FailureRecord]) -> dict[str, Exception]:
    return {name: revive(cause) for name, cause in causes.items()}
