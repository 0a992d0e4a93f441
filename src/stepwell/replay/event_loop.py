"""The event loop inside a workflow: it never waits, never does I/O, and always runs things in the same order.

Workflow code may use `asyncio.gather`, tasks, task groups, locks, queues and events; all of that runs here, first in
first out, until nothing is left to run. Whoever drives the loop then knows exactly what the workflow waits for.
Anything that
would need the outside world (sockets, threads, real timers) is refused with the fix.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events, tasks
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from types import CoroutineType
from typing import Any, NoReturn

from stepwell.errors import NonDeterministicError
from stepwell.replay.captured_variables import WATCHED

# Since Python 3.14 a thread has one current task, and not one for each loop: who drives this one steps out of its own.
_HAS_ONE_TASK = sys.version_info >= (3, 14)


class _Call:
    """What `call_soon` gives: as asyncio's handle, without what only a debugger or a timer needs."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        self.callback = callback
        self.args = args
        self.context = context if context is not None else copy_context()
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class Numbers:
    """Counts what the code of one scope makes: tasks, futures and operations."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """The number of what is made now."""
        self._last += 1
        return self._last


# Code that a replay may pass over counts for itself, or what comes after it would have other numbers in a replay.
NUMBERS: ContextVar[Numbers | None] = ContextVar("stepwell_numbers", default=None)


class TurnFuture(asyncio.Future[Any]):
    """A future whose hash is its number in its scope: a set of futures has the same order on every replay."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class TurnTask(asyncio.Task[Any]):
    """A task whose hash is its number in its scope, so `asyncio.wait` and task groups go through it in the same order
    on every replay.
    """

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        try:
            return self.number
        except AttributeError:
            # While it is being made. asyncio keeps it then in a set of all tasks of the process, where the tasks of
            # many turns would share one number.
            return object.__hash__(self)


_ENSURE = {fn.__code__ for name in ("ensure_future", "_ensure_future") if (fn := getattr(tasks, name, None))}
_AS_COMPLETED = {tasks.as_completed.__code__} | {
    cls.__init__.__code__ for name in ("_AsCompletedIterator",) if (cls := getattr(tasks, name, None))
}


def _is_of_a_set() -> bool:
    """Whether `asyncio.as_completed` asks for a task. It goes through a set of what it was given."""
    frame = sys._getframe(2)
    if frame.f_code not in _ENSURE:
        return False
    for _ in range(4):
        if frame.f_code in _AS_COMPLETED:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


class TurnLoop(asyncio.AbstractEventLoop):
    """Runs the coroutines of one workflow until all of them wait."""

    def __init__(self) -> None:
        self.ready: deque[_Call] = deque()
        self.watches = 0  # bodies under way whose captured variables are compared
        self._numbers = Numbers()  # of the workflow itself
        self.problem: BaseException | None = None
        self.is_recording = False  # what is called now is called once, and its result is recorded
        # Whoever drives it does so in the loop that it was made in. Python 3.11 asks the system before it tells.
        self._around = events._get_running_loop()

    def move(self) -> None:
        """From now on it is driven in the loop that runs now, or in none."""
        self._around = events._get_running_loop()

    def run_until_idle(self) -> None:
        """Run what is ready, and what that makes ready, until nothing is."""
        ready, around, outer = self.ready, self._around, None
        if _HAS_ONE_TASK and around is not None:
            outer = tasks._swap_current_task(around, None)  # type: ignore[attr-defined]
        events._set_running_loop(self)
        try:
            while ready:
                call = ready.popleft()
                if call.is_cancelled:
                    continue
                if self.watches and (watch := call.context.get(WATCHED)) is not None:
                    watch.enter()
                try:
                    call.context.run(call.callback, *call.args)
                except SystemExit:
                    pass  # kept by the task that raised it: it ends that run, not the worker
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001  of a plain callback: kept, as asyncio does it
                    self.call_exception_handler({"exception": error})
                if self.watches and (watch := call.context.get(WATCHED)) is not None:
                    watch.leave()
        finally:
            events._set_running_loop(around)
            if outer is not None:
                tasks._swap_current_task(around, outer)  # type: ignore[attr-defined]

    # --- what asyncio itself asks of a loop ---

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Call:
        call = _Call(callback, args, context)
        self.ready.append(call)
        return call

    def create_future(self) -> asyncio.Future[Any]:
        future = TurnFuture(loop=self)
        future.number = self.next_number()
        return future

    def own_future(self) -> asyncio.Future[Any]:
        """A future that workflow code never gets to see. asyncio awaits its own class faster than any other."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        if isinstance(coro, CoroutineType) and _is_of_a_set():
            self.problem = NonDeterministicError(
                "workflow code gave coroutines to asyncio.as_completed",
                why="it puts them into a set and begins them in another order after each recovery",
                fix="begin them yourself: asyncio.as_completed([asyncio.create_task(each) for each in coroutines])",
            )
            coro.close()
            raise self.problem
        task = TurnTask(coro, loop=self, name=name, context=context)
        task.number = self.next_number()
        return task

    def own_task(self, coro: Any) -> asyncio.Task[Any]:
        """A task of a primitive. It has no number: a replay that has the primitive's result does not make it."""
        task = TurnTask(coro, loop=self)
        task.number = 0
        return task

    def next_number(self) -> int:
        """The number of what the code makes now: the same on every replay."""
        return (NUMBERS.get() or self._numbers).next()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def time(self) -> float:
        return 0.0

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody awaits inside the workflow: kept for the driver. Destroyed pending tasks carry none."""
        if self.problem is None:
            self.problem = context.get("exception")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)


# --- what a workflow must not do ---


def refuse_in_workflow(what: str) -> None:
    """Raise if the caller is the code of a workflow, which must not call this."""
    loop = events._get_running_loop()
    if isinstance(loop, TurnLoop):
        # Kept as well: code that swallows the exception does not go on.
        loop.problem = NonDeterministicError(
            f"{what} was called in the code of a workflow",
            why="each recovery would call it again, and what it waits for never comes to this code",
            fix="call it inside a step, or use ctx.child, ctx.spawn and ctx.receive",
        )
        raise loop.problem


_TIMER = 'await ctx.sleep("name", ...), or give the operation a timeout='
_OUTSIDE = "do it inside a step"


def _refusal(name: str, fix: str) -> Callable[..., NoReturn]:
    """What stands in for a method of the outside world."""

    def refuse(self: TurnLoop, *_: Any, **__: Any) -> NoReturn:
        what = "a timer (asyncio.sleep, timeout or wait_for)" if fix is _TIMER else f"the outside world ({name})"
        # Kept as well: code that swallows the exception does not go on.
        self.problem = NonDeterministicError(
            f"workflow code used {what} outside a step",
            why="each recovery would see something else than the first run did",
            fix=fix,
        )
        raise self.problem

    return refuse


for _name in [
    name for name in vars(asyncio.AbstractEventLoop) if not name.startswith("_") and name not in vars(TurnLoop)
]:
    setattr(TurnLoop, _name, _refusal(_name, _TIMER if _name in ("call_later", "call_at") else _OUTSIDE))
