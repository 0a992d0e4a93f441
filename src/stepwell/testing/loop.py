"""The event loop of a test: time passes only when everything waits for it, and a process can be stopped dead."""

from __future__ import annotations

import asyncio
import math
import selectors
import warnings
from asyncio import events, tasks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any

from stepwell.clock import Clock, Instant, SystemClock

BEGINNING = Instant(1_767_225_600_000_000)  # the first moment of 2026: a test sees the same times whenever it runs


TALK_SECONDS = 0.02  # for a thread that may be waiting for the loop
IO_SECONDS = 0.05  # for somebody at the other end of a socket


class Lane:
    """What belongs to one process of a test. Nothing of a dead one ever runs again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.context = copy_context()
        self.context.run(LANE.set, self)


LANE: ContextVar[Lane | None] = ContextVar("stepwell_lane", default=None)


class VirtualClock:
    """Wall and monotonic time that only the loop moves."""

    def __init__(self) -> None:
        self._passed = 0  # microseconds

    def now(self) -> Instant:
        return Instant(BEGINNING + self._passed)

    def monotonic(self) -> float:
        return self._passed / 1_000_000

    def uptime(self) -> int:
        return self._passed

    @property
    def boot(self) -> str:
        return "virtual"

    def go_to(self, seconds: float) -> None:
        """Let time pass up to this reading of `monotonic`: rounded up, so that no timer is a hair too early."""
        self._passed = max(self._passed, math.ceil(seconds * 1_000_000 - 0.001))


class _Selector(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        return self.loop.between_rounds(super().select, is_idle=timeout is None or timeout > 0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Driven from outside, from a test that may have a running loop of its own: `drive` returns when it is done.

    With `clock` None the time is virtual: when nothing is ready, `on_idle` decides whether to jump to the next timer.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.virtual = VirtualClock() if clock is None else None
        self.clock: Clock = clock or self.virtual or SystemClock()
        self._has_talked = False  # a thread has asked for something
        self._calls: dict[Any, Lane | None] = {}  # that run in threads
        self._is_done: Callable[[], bool] = lambda: True
        self._on_idle: Callable[[float | None], bool] = lambda _: False
        self._strays: set[asyncio.Task[Any]] = set()
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-6
        self.set_exception_handler(_ignore)

    def time(self) -> float:
        return self.clock.monotonic()

    # --- driving ---

    def drive(self, is_done: Callable[[], bool], on_idle: Callable[[float | None], bool]) -> None:
        """Run until `is_done`. When nothing is ready, `on_idle` gets the time of the next timer, and says whether to go
        there; if not, this returns. What it raises comes out here.
        """
        self._is_done, self._on_idle = is_done, on_idle
        with stepped_out():
            self.run_forever()

    def between_rounds(self, select: Callable[[float | None], Any], *, is_idle: bool) -> Any:
        """Called by the loop before each round: decide whether there is another one, and at what time."""
        if self._is_done():
            self.stop()
            return []
        if not is_idle:
            return select(0)
        found = select(self._patience())
        if found or self._ready:  # type: ignore[attr-defined]
            return found
        when = self.next_timer()
        if self.virtual is None and (self.has_sockets or self.has_threads):
            # Something may come of that before the next timer, and nobody knows when.
            soon = self.time() + IO_SECONDS
            when = soon if when is None else min(soon, when)
        if not self._on_idle(when):
            self.stop()
            return []
        if self.virtual is None:
            return select(None if when is None else max(0.0, when - self.time()))
        if when is not None:
            self.virtual.go_to(when)
        return []

    def _patience(self) -> float | None:
        """How long to wait, in real seconds, before virtual time passes: for threads as long as they run, unless they
        may be waiting for something that takes time here; for sockets a moment.
        """
        if self.virtual is None:
            return 0.0
        if self._calls and self.has_threads:
            return TALK_SECONDS if self._has_talked else None
        return IO_SECONDS if self.has_sockets else 0.0

    @property
    def has_sockets(self) -> bool:
        """Whether anything waits for the outside world; the loop itself always has one."""
        return len(self._selector.get_map()) > 1  # type: ignore[attr-defined]

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self._has_talked = True
        return super().call_soon_threadsafe(callback, *args, context=context)

    def next_timer(self) -> float | None:
        """When the next timer is due; None if there is none."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return min((timer.when() for timer in timers if not timer.cancelled()), default=None)

    # --- processes ---

    def kill(self, lane: Lane) -> None:
        """Stop a process at once and for ever: no `finally` block, no last word."""
        lane.is_dead = True
        for handle in (*self._ready, *self._scheduled):  # type: ignore[attr-defined]
            if handle._context.get(LANE) is lane:
                handle.cancel()
        for task in lane.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        lane = LANE.get() if context is None else context.get(LANE)
        handle: asyncio.Handle
        if lane is not None and lane.is_dead:
            handle = asyncio.Handle(callback, args, self, context)
            handle.cancel()
            return handle
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        lane = LANE.get() if context is None else context.get(LANE)
        if lane is not None and lane.is_dead:
            handle.cancel()
        return handle

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **more: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context, **more)
        lane = LANE.get() if context is None else context.get(LANE)
        kept = self._strays if lane is None else lane.tasks
        kept.add(task)
        task.add_done_callback(kept.discard)
        if lane is not None and lane.is_dead:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._calls[future] = LANE.get()
        future.add_done_callback(self._call_ended)
        return future

    def _call_ended(self, future: Any) -> None:
        self._calls.pop(future, None)
        self._has_talked = False

    @property
    def has_threads(self) -> bool:
        """Whether a call of a living process runs beside the loop: time stands still meanwhile."""
        return any(lane is None or not lane.is_dead for lane in self._calls.values())

    # --- the end ---

    def dispose(self, lanes: list[Lane]) -> None:
        """End everything that is left, and close. `finally` blocks of killed code run now, and reach nobody."""
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for lane in lanes:
                self.kill(lane)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                for kept in (self._strays, *(lane.tasks for lane in lanes)):
                    while kept:
                        _close(kept.pop())
        finally:
            events._set_running_loop(outer)
        # Threads that wait for a dead process are told that they need not.
        self._calls.clear()
        self.drive(lambda: False, lambda _: False)
        self.close()


@contextmanager
def stepped_out() -> Iterator[None]:
    """Leave the caller's own running loop for a while, so that another one can run in its place."""
    outer = events._get_running_loop()
    task = None if outer is None else tasks.current_task(outer)
    if outer is not None and task is not None:
        tasks._leave_task(outer, task)
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(outer)
        if outer is not None and task is not None:
            tasks._enter_task(outer, task)


def _close(task: asyncio.Task[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine: Any = task.get_coro()
    try:
        coroutine.close()
    except BaseException:  # noqa: BLE001  it awaits in a `finally`, or raises there: there is nobody left to tell
        return


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody awaits inside a killed process is nobody's concern."""
    error = context.get("exception")
    if error is not None and not isinstance(error, asyncio.CancelledError):
        loop.default_exception_handler(context)
