"""Recorded failures, raised again so that the `except` clause that caught them the first time still does.

Types come from a closed registry (builtins, and what steps declare), never from an import by stored name.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from functools import cache

from stepwell.errors import (
    ChildFailed,
    JoinError,
    RaceError,
    RecordedError,
    RunError,
    StepFailed,
    WaitTimeout,
)
from stepwell.model.failures import FailureRecord

_KNOWN: dict[str, type[Exception]] = {
    f"builtins.{name}": kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration))
}


def know_types(types: Iterable[type[Exception]]) -> None:
    """Let failures of these types be caught by their own name after a replay."""
    for kind in types:
        if not issubclass(kind, StepFailed):
            _KNOWN.setdefault(f"{kind.__module__}.{kind.__qualname__}", kind)


def known_type(qualified: str) -> type[Exception] | None:
    """The exception type of that module and name, if it is in the registry."""
    return _KNOWN.get(qualified)


@cache
def _also(base: type[RunError], kind: type[Exception]) -> type[RunError]:
    """A class that is both: `except StepFailed` and `except KeyError` catch it."""
    if issubclass(base, kind):
        return base
    try:
        return type(
            base.__name__,
            (base, kind),
            {"__module__": base.__module__, "__doc__": base.__doc__, "__str__": base.__str__},
        )
    except TypeError:  # the layouts of the two cannot be combined
        return base


def _build(base: type[RunError], kind: type[Exception] | None, *args: object) -> RunError:
    plain = base(*args)  # type: ignore[arg-type]
    if kind is None:
        return plain
    try:
        error = _bare(_also(base, kind))  # type: ignore[arg-type]  # classes are hashable
        error.args = plain.args
        for name, value in vars(plain).items():
            setattr(error, name, value)
    except Exception:  # noqa: BLE001  an author's class that allows none of this
        return plain
    return error


def _bare(kind: type[RunError]) -> RunError:
    """An instance whose own `__init__` was not called: what that wants is not known any more."""
    try:
        return Exception.__new__(kind)
    except TypeError:  # a builtin with a layout of its own
        return kind.__new__(kind)


def step_failed(path: str, failure: FailureRecord, attempts: int) -> RunError:
    """The exception of a step that failed for good."""
    return _build(StepFailed, known_type(failure.qualified), path, failure, attempts)


def revive(failure: FailureRecord) -> RunError:
    """The exception of a recorded failure."""
    match failure.code:
        case StepFailed.code if "step" in failure.causes:
            return step_failed(failure.path, failure.causes["step"], failure.attempts)
        case JoinError.code:
            return JoinError(failure.path, {name: revive(cause) for name, cause in failure.causes.items()})
        case RaceError.code:
            return RaceError(failure.path, {name: revive(cause) for name, cause in failure.causes.items()})
        case ChildFailed.code:
            return ChildFailed(failure.path, failure.run_id, failure.status, failure.causes.get("child"))
        case WaitTimeout.code:
            return WaitTimeout(failure.path)
        case _:
            return _build(RecordedError, known_type(failure.qualified), failure)
