"""What a test does to step bodies: replaces them, fails them, slows them down, lets them run out of time."""

from __future__ import annotations

import asyncio
import fnmatch
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from stepwell.environment import Executor
from stepwell.errors import InvalidOptionError
from stepwell.replay.bodies import Body
from stepwell.replay.isolation import Isolated
from stepwell.replay.steps import Step

Target = str | Callable[..., Any]
Effect = Callable[..., Any]

NOTHING: Final = object()


class InjectedFailure(Exception):  # noqa: N818  it is a failure on purpose
    """What `fail` lets a step raise."""


def matches(target: Target, path: str, fn: Callable[..., Any] | None = None) -> bool:
    """Whether a target means this path: by the path itself, by a glob, or by the step's function."""
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
    """One thing that was asked for, and how often it is left."""

    target: Target
    effect: Effect | None = None  # stands for the body
    delay: float = 0.0  # before it, in seconds
    hangs: bool = False
    left: int | None = None  # None: always
    used: int = field(default=0, init=False)

    def is_due(self, path: str, fn: Callable[..., Any]) -> bool:
        """Whether it applies to a body that is about to run."""
        return self.left != 0 and matches(self.target, path, fn)

    def use(self) -> None:
        """It applies now."""
        self.used += 1
        if self.left is not None:
            self.left -= 1


class Faults:
    """All that was asked for. Of several that fit a body, the one that was asked for last counts."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Ask for something."""
        if fault.left is not None and fault.left < 1:
            raise InvalidOptionError(f"times is {fault.left}", why="it would never happen", fix="at least 1")
        if isinstance(fault.target, str) and not fault.target:
            raise InvalidOptionError("a fault has no path", fix='name a step: "payment/charge"')
        self._faults.append(fault)

    def copy(self) -> Faults:
        """The same faults, none of them used yet."""
        copied = Faults()
        for fault in self._faults:
            left = None if fault.left is None else fault.left + fault.used
            copied.add(Fault(fault.target, fault.effect, fault.delay, fault.hangs, left))
        return copied

    def clear(self) -> None:
        """From now on, everything is as it is."""
        self._faults.clear()

    def apply(self, body: Body, path: str, executor: Executor) -> None:
        """Let a body that is about to run meet what was asked for."""
        if isinstance(body.fn, Isolated):
            inside = body.fn.func  # a process of its own has a clock of its own
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
                f"step {path} has no timeout to run into",
                where=path,
                fix='give it one, as in @step(timeout="30s"), or use fail',
            )
        body.fn = _standing_in(body, outcome, slow.delay if slow is not None else 0.0, executor)
        body.is_async = True


def _standing_in(body: Body, outcome: Fault | None, delay: float, executor: Executor) -> Callable[..., Awaitable[Any]]:
    real, is_async = body.fn, body.is_async

    async def stand_in(*args: Any, **kwargs: Any) -> Any:
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

    return stand_in


def effect_of(returns: Any, raises: BaseException | type[BaseException] | None, side_effect: Effect | None) -> Effect:
    """What stands for a body, from exactly one of the three."""
    given = [returns is not NOTHING, raises is not None, side_effect is not None]
    if sum(given) != 1:
        raise InvalidOptionError(
            "a mock does one thing", why=f"{sum(given)} were given", fix="give one of returns, raises and side_effect"
        )
    if side_effect is not None:
        return side_effect
    if raises is None:
        return lambda *_, **__: returns
    error = raises

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail
