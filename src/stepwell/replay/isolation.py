"""Step bodies that run in a process of their own: how that process finds the function, and what it may use."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

from stepwell.errors import InvalidOptionError

Isolation = Literal["process"]
Size = str | int

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B\s*")
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE_MIN: Final = 1_000_000
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?|\*")


class Isolated(functools.partial[Any]):
    """A function that runs in a process of its own when it is the body of a step. A direct call runs it here.

    Another process finds it by `module` and `file`, which are taken from the function in this process.
    """

    module: str
    file: str
    memory_max: int | None
    env: tuple[str, ...]


def isolated(
    fn: Callable[..., Any], isolate: str | None, memory_max: Size | None, env: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """The body of a step with these options. Raises `InvalidOptionError` if the function cannot be isolated."""
    fn = fn.func if isinstance(fn, Isolated) else fn
    name = getattr(fn, "__qualname__", repr(fn))
    if isolate is None and memory_max is None and not env:
        return fn
    if isolate != "process":
        alone = "env" if memory_max is None else "memory_max"
        title = f"isolate of step {name!r} is {isolate!r}" if isolate else f"step {name!r} has {alone} without isolate"
        why = "" if isolate else "a body has its own memory and environment only in a process of its own"
        raise InvalidOptionError(title, where=name, why=why, fix='write isolate="process"')
    bytes_max = None if memory_max is None else _bytes_of(memory_max, name)
    reason = _why_not(fn, name)
    if reason is not None:
        raise InvalidOptionError(
            f"step {name!r} cannot run in a process of its own",
            where=name,
            why=reason,
            fix="use a function at the top of a module, and pass it what it needs as arguments",
        )
    body = Isolated(fn)
    functools.update_wrapper(body, fn)
    home = inspect.unwrap(fn).__globals__
    body.module = _spec_name(home) if fn.__module__ == "__main__" else fn.__module__
    body.file = str(Path(home["__file__"]).resolve()) if home.get("__file__") else ""
    body.memory_max = bytes_max
    body.env = _checked_env(env, name)
    return body


def _why_not(fn: Callable[..., Any], name: str) -> str | None:
    """Why another process could not find this function; None if it can."""
    if os.name != "posix":
        return "it needs process groups and their signals, which this system does not have"
    if not inspect.isfunction(fn):
        return f"it is a {type(fn).__name__}: only a plain function is the same in every process"
    if "<lambda>" in name or "<locals>" in name:
        return "it is a lambda or a function inside a function, which another process cannot import by name"
    home = inspect.unwrap(fn).__globals__
    if (fn.__module__, _spec_name(home)) == ("__main__", "__main__") and not Path(home.get("__file__", "")).is_file():
        return "it was typed into an interpreter, so there is no file that another process could import"
    return None


def _spec_name(home: dict[str, Any]) -> str:
    """The name of the module that `python -m` started; `__main__` for a script."""
    return str(getattr(home.get("__spec__"), "name", "__main__"))


def _checked_env(env: tuple[Any, ...], name: str) -> tuple[str, ...]:
    for each in env:
        if not isinstance(each, str) or not _VARIABLE.fullmatch(each):
            raise InvalidOptionError(
                f"env of step {name!r} has {each!r}",
                where=name,
                why="env lists names of environment variables; a name may end with * as a wildcard",
                fix='write env=["DATABASE_URL", "AWS_*"], for example',
            )
    return env


def _bytes_of(size: Size, name: str) -> int:
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is not None:
        number, unit, binary = match.groups()
        count = int(Decimal(number) * (1024 if binary else 1000) ** _POWERS[unit.upper()])
    else:
        count = size if isinstance(size, int) and not isinstance(size, bool) else 0
    if count < _SIZE_MIN:
        raise InvalidOptionError(
            f"memory_max of step {name!r} is {size!r}",
            where=name,
            why="the size must be at least 1 MB",
            fix='write memory_max="512MB", for example, or a number of bytes',
        )
    return count
