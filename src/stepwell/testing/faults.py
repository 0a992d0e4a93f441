"""Faults of step bodies: replaced, failing, slow or timing out."""

from __future__ import annotations

import asyncio
import fnmatch
import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from stepwell.environment import Executor
from stepwell.errors import InvalidOptionError
from stepwell.model.failures import words_of
from stepwell.replay.bodies import Body
from stepwell.replay.isolation import Isolated
from stepwell.replay.revival import known_type
from stepwell.replay.steps import Step

Target = str | Callable[..., Any]
Effect = Callable[..., Any]

NOTHING: Final = object()


class InjectedFailure(Exception):  # noqa: N818  it is a failure on purpose
    """The exception of a step that `fail` makes fail."""


def recorded_error(qualified: str, message: str) -> Exception:
    """An exception for `mock(raises=...)` that is recorded as one of this type and text, such as
    `recorded_error("shop.CardDeclined", "no funds")`. Its own class need not be importable, nor take one argument.
    """
    kind = known_type(qualified)
    if kind is not None:
        try:
            error = kind(message)
        except Exception:  # noqa: BLE001  a class that takes other arguments
            error = None
        if error is not None and words_of(error) == message:
            return error
    module, name = (kind.__module__, kind.__qualname__) if kind is not None else _parted(qualified)
    parts = {"__module__": module, "__qualname__": name}
    made: type[Exception] = type(name.rpartition(".")[2], (Exception,), parts)
    return made(message)


def _parted(qualified: str) -> tuple[str, str]:
    """Module and name of a type: the module is the longest part that is loaded."""
    parts = qualified.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if ".".join(parts[:end]) in sys.modules:
            return ".".join(parts[:end]), ".".join(parts[end:])
    return ".".join(parts[:-1]), parts[-1]


def matches(target: Target, path: str, fn: Callable[..., Any] | None = None) -> bool:
    """Whether a target matches this path: by the path itself, by a glob, or by the step's function."""
    if isinstance(target, str):
        return target == path or fnmatch.fnmatchcase(path, target)
    wanted = target.fn if isinstance(target, Step) else target
    while isinstance(fn, functools.partial):
        fn = fn.func
    while isinstance(wanted, functools.partial):
        wanted = wanted.func
    return fn is wanted


@dataclass(slots=True)
class Fault:
    """One fault, and how often it still applies."""

    target: Target
    effect: Effect | None = None  # replaces the body
    delay: float = 0.0  # before it, in seconds
    hangs: bool = False
    left: int | None = None  # None: always
    used: int = field(default=0, init=False)

    def is_due(self, path: str, fn: Callable[..., Any]) -> bool:
        """Whether it applies to a body that is about to run."""
        return self.left != 0 and matches(self.target, path, fn)

    def use(self) -> None:
        """Count one use."""
        self.used += 1
        if self.left is not None:
            self.left -= 1


class Faults:
    """All faults of a test. If several match a body, the last added fault applies."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Add a fault."""
        if fault.left is not None and fault.left < 1:
            raise InvalidOptionError(f"times is {fault.left}", why="the fault would never apply", fix="write times=1")
        if isinstance(fault.target, str) and not fault.target:
            raise InvalidOptionError("a fault has no path", fix='write the path of a step, as in "payment/charge"')
        self._faults.append(fault)

    def copy(self) -> Faults:
        """The same faults, all unused."""
        copied = Faults()
        for fault in self._faults:
            left = None if fault.left is None else fault.left + fault.used
            copied.add(Fault(fault.target, fault.effect, fault.delay, fault.hangs, left))
        return copied

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def apply(self, body: Body, path: str, executor: Executor) -> None:
        """Apply the matching faults to a body that is about to run."""
        if isinstance(body.fn, Isolated):
            inside = body.fn.func  # run it in this process, on the clock of the test
            body.fn, body.is_async = inside, inspect.iscoroutinefunction(inside)
        if not self._faults:
            return
        due = [fault for fault in reversed(self._faults) if fault.is_due(path, body.fn)]
        outcome = next((fault for fault in due if fault.effect is not None or fault.hangs), None)
        slow = next((fault for fault in due if fault.delay), None)
        for fault in (outcome, slow):
            if fault is not None:
                fault.use()
        if outcome is None and slow is None:
            return
        if outcome is not None and outcome.hangs and body.timeout is None:
            raise InvalidOptionError(
                f"step {path} has no timeout, so it cannot time out",
                where=path,
                fix='write @step(timeout="30s"), or use stepwell.fail',
            )
        body.fn = _replacement(body, outcome, slow.delay if slow is not None else 0.0, executor)
        body.is_async = True


def _replacement(body: Body, outcome: Fault | None, delay: float, executor: Executor) -> Callable[..., Awaitable[Any]]:
    real, is_async = body.fn, body.is_async

    async def replacement(*args: Any, **kwargs: Any) -> Any:
        if delay:
            await asyncio.sleep(delay)
        if outcome is None:
            if is_async:
                return await real(*args, **kwargs)
            result = await executor.call_blocking(functools.partial(real, *args, **kwargs))
        elif outcome.hangs:
            result = await asyncio.get_running_loop().create_future()
        else:
            assert outcome.effect is not None
            result = outcome.effect(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return replacement


def effect_of(returns: Any, raises: BaseException | type[BaseException] | None, side_effect: Effect | None) -> Effect:
    """The replacement of a body, from exactly one of the three arguments."""
    given = [returns is not NOTHING, raises is not None, side_effect is not None]
    if sum(given) != 1:
        raise InvalidOptionError(
            "a mock needs exactly one effect",
            why=f"{sum(given)} were given",
            fix="write one of returns=, raises= and side_effect=",
        )
    if side_effect is not None:
        return side_effect
    if raises is None:
        return lambda *_, **__: returns
    error = raises

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail
