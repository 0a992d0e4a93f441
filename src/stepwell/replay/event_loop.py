"""The event loop inside a workflow: it never waits, does no I/O, and always runs callbacks in the same order.

Workflow code may use `asyncio.gather`, tasks, task groups, locks, queues, events and timeouts, and libraries that are
made of them. They run here, first in first out, until nothing is left to run. The turn, which drives the loop, then
knows exactly what the workflow waits for. Timers are durable (`replay/timers.py`). Calls that need the outside world
(sockets, threads, processes) are rejected, with the fix.
"""

from __future__ import annotations

import asyncio
import math
import sys
from asyncio import events, tasks
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from threading import Thread
from types import CoroutineType
from typing import Any, Final, NoReturn, Protocol, cast

from stepwell.clock import SECOND, SPAN_MAX, Instant
from stepwell.errors import NonDeterministicError
from stepwell.replay.captured_variables import WATCHED

# Since Python 3.14 a thread has one current task, not one per loop. The driver leaves its own task to drive this loop.
_HAS_ONE_TASK = sys.version_info >= (3, 14)


class _Call:
    """The handle that `call_soon` returns: asyncio's, without the parts for debuggers and timers."""

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


class Timer(_Call):
    """The handle that `call_later` and `call_at` return."""

    __slots__ = ("_when", "disarm")

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        super().__init__(callback, args, context)
        self._when = when
        self.disarm: Callable[[], None] | None = None

    def when(self) -> float:
        """When it is due, in the time of the loop."""
        return self._when

    def cancel(self) -> None:
        self.is_cancelled = True
        disarm, self.disarm = self.disarm, None
        if disarm is not None:
            disarm()


class Numbers:
    """Numbers the tasks, futures and operations that the code of one scope makes."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """The next number."""
        self._last += 1
        return self._last


class CodeScope(Protocol):
    """What the loop needs from the scope whose code it runs."""

    @property
    def numbers(self) -> Numbers:
        """Code that a replay may skip has numbers of its own. Otherwise later code would get other numbers in a
        replay.
        """
        ...

    def read_time(self) -> Instant:
        """The value of `ctx.now()`."""
        ...

    def arm(self, timer: Timer, due_at: Instant) -> None:
        """Call the callback of a timer when it is due."""
        ...


# The scope whose code the current task or callback runs.
SCOPE: ContextVar[CodeScope | None] = ContextVar("stepwell_scope", default=None)

_NEVER: Final = float(SPAN_MAX // SECOND)  # a longer delay never ends


def _due_at(when: float) -> Instant:
    """The first instant at which the loop's time has reached `when`. Code that compares them does not wait again."""
    due_at = math.ceil(when * SECOND)
    return Instant(due_at if due_at / SECOND >= when else due_at + 1)


class TurnFuture(asyncio.Future[Any]):
    """A future whose hash is its number in its scope: a set of futures has the same order on every replay."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class TurnTask(asyncio.Task[Any]):
    """A task whose hash is its number in its scope: `asyncio.wait` and task groups iterate over tasks in the same order
    on every replay.
    """

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        try:
            return self.number
        except AttributeError:
            # During construction, asyncio adds the task to a set of all tasks of the process, where tasks of many
            # turns would share one number.
            return object.__hash__(self)

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """As a task's. anyio lets the end of a task stop the thread that it started for it: here the thread is stopped
        at once, before it gets anything to do, and refused.
        """
        if isinstance(getattr(fn, "__self__", None), Thread):
            fn(self)
            _refuse(cast("TurnLoop", self.get_loop()), "a thread (anyio.to_thread or anyio.open_file)", _OUTSIDE)
        super().add_done_callback(fn, context=context)


_ENSURE = {fn.__code__ for name in ("ensure_future", "_ensure_future") if (fn := getattr(tasks, name, None))}
_AS_COMPLETED = {tasks.as_completed.__code__} | {
    cls.__init__.__code__ for name in ("_AsCompletedIterator",) if (cls := getattr(tasks, name, None))
}


def _is_of_a_set() -> bool:
    """Whether `asyncio.as_completed` is the caller. It iterates over a set of its arguments."""
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
        self.watches = 0  # running bodies whose captured variables are compared
        self.numbers = Numbers()  # of the workflow itself
        self.problem: BaseException | None = None
        self.is_recording = False  # the current call is made once, and its result is recorded
        # It is driven inside the loop that it was made in. Looking that up costs a system call on Python 3.11.
        self._around = events._get_running_loop()

    def move(self) -> None:
        """Let it be driven inside the loop that is running now, or inside none."""
        self._around = events._get_running_loop()

    def run_until_idle(self) -> None:
        """Run callbacks until none is ready."""
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

    # --- what asyncio calls ---

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
        """A future that workflow code never sees. asyncio awaits its own class faster than any other."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        if isinstance(coro, CoroutineType) and _is_of_a_set():
            self.problem = NonDeterministicError(
                "workflow code passed coroutines to asyncio.as_completed",
                why="it puts them into a set, so a replay would begin them in another order",
                fix="make the tasks first: asyncio.as_completed([asyncio.create_task(each) for each in coroutines])",
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
        """The number of the task, future or operation that the code makes now: the same on every replay."""
        scope = SCOPE.get()
        return (self.numbers if scope is None else scope.numbers).next()

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def time(self) -> float:
        scope = SCOPE.get()
        return 0.0 if scope is None else scope.read_time() / SECOND

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Timer:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Timer:
        timer, scope = Timer(when, callback, args, context), SCOPE.get()
        if scope is None:
            _refuse(self, "a timer outside the code of a branch or workflow", _TIMER)
        now = scope.read_time()
        if when - now / SECOND >= _NEVER:
            return timer
        due_at = _due_at(when)
        if due_at <= now:
            self.ready.append(timer)
        else:
            scope.arm(timer, due_at)
        return timer

    def get_task_factory(self) -> None:
        """None: tasks are made as usual. Libraries look here for eager tasks."""

    def get_exception_handler(self) -> None:
        """None: errors that nothing awaits are kept, and pause the run."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an error that the workflow does not await, for the driver. Destroyed pending tasks have none."""
        if self.problem is None:
            self.problem = context.get("exception")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)


# --- what a workflow must not do ---


def refuse_in_workflow(what: str) -> None:
    """Raise if the caller is workflow code, which must not call this."""
    loop = events._get_running_loop()
    if isinstance(loop, TurnLoop):
        # Kept as well: code that swallows the exception does not continue.
        loop.problem = NonDeterministicError(
            f"{what} was called in the code of a workflow",
            why="each recovery would call it again, and its result cannot reach this code",
            fix="call it inside a step, or use ctx.child, ctx.spawn and ctx.receive",
        )
        raise loop.problem


_TIMER = 'await ctx.sleep("name", ...), or give the operation a timeout='
_OUTSIDE = "do it inside a step: await ctx.step(function, ...)"


def _refuse(loop: TurnLoop, what: str, fix: str) -> NoReturn:
    # Kept as well: code that swallows the exception does not continue.
    loop.problem = NonDeterministicError(
        f"workflow code used {what} outside a step",
        why="each recovery would see another result than the first run",
        fix=fix,
    )
    raise loop.problem


def _refusal(name: str) -> Callable[..., NoReturn]:
    """The replacement of a method that needs the outside world."""

    def refuse(self: TurnLoop, *_: Any, **__: Any) -> NoReturn:
        _refuse(self, f"the outside world ({name})", _OUTSIDE)

    return refuse


for _name in [
    name for name in vars(asyncio.AbstractEventLoop) if not name.startswith("_") and name not in vars(TurnLoop)
]:
    setattr(TurnLoop, _name, _refusal(_name))
