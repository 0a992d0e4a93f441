"""What Python treats in a special way: odd exceptions to raise, and odd values to return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final


class Mute(Exception):
    """Cannot say what went wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Nobody(Exception):
    """Cannot say what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Thing:
    """A value that cannot say what it is."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Halt(BaseException):
    """Not caught by `except Exception`."""


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


# Ctrl-C is left out: it ends the process.
EXCEPTIONS: Final[dict[str, Callable[[], BaseException]]] = {
    "stop": StopIteration,
    "stop_async": StopAsyncIteration,
    "generator_exit": GeneratorExit,
    "cancelled": asyncio.CancelledError,
    "exit": SystemExit,
    "halt": Halt,
    "mute": Mute,
    "nobody": Nobody,
    "group": lambda: BaseExceptionGroup("several", [Mute(), Halt()]),
}
VALUES: Final[dict[str, Callable[[], Any]]] = {"thing": Thing, "object": object, "ring": _ring}


def raise_odd(name: str) -> Any:
    """Raise the exception of a name, or return the value of it."""
    if name in VALUES:
        return VALUES[name]()
    raise EXCEPTIONS[name]()
