"""The event loop of a virtual world: time passes only when everything waits for it, and a process can be killed.

Handles belong to the *lane* (process) in whose context they were scheduled. Within a lane they run first in, first out,
as asyncio promises; a policy chooses the next lane. When nothing is ready, time jumps to the next timer. Handles of a
dead lane are dropped, and handles of a paused lane are held: killing or pausing a process needs no help from its code.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import sys
import warnings
from asyncio import events, tasks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any

from stepwell.clock import Clock
from stepwell.virtual.clock import ManualClock
from stepwell.virtual.lanes import LANE, Choose, Lane, first_in
from stepwell.virtual.threads import ThreadCall, note_question

ASKED_SECONDS = 0.02  # real time for a thread that may be waiting for the loop
IO_SECONDS = 0.05  # real time for the other end of a socket
_POLL_EVERY = 50  # handles, while there are sockets
_CLOSES_MAX = 100  # attempts to close one coroutine
_PURGE_AT = 100  # cancelled timers

OnIdle = Callable[[float | None], float | None]


class DeadlockError(Exception):
    """Nothing is ready and no timer is set."""


class SpinningError(Exception):
    """More handles have run than allowed: callbacks never end, and time does not advance."""


def jump(when: float | None) -> float:
    """When nothing is ready: go to the next timer. Raises `DeadlockError` if there is none."""
    if when is None:
        raise DeadlockError("nothing is ready and no timer is set")
    return when


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs the handles of all lanes, one at a time, in virtual time.

    With a clock that is not manual, the time is that clock's. `has_outside`: whether there may be threads and sockets.
    `on_idle` is called when nothing is ready, with the time of the next timer. It returns the time to jump to, or None
    to stop.
    """

    def __init__(self, clock: Clock | None = None, *, choose: Choose = first_in, has_outside: bool = True) -> None:
        self.clock: Clock = clock or ManualClock()
        self.manual = self.clock if isinstance(self.clock, ManualClock) else None
        self.world = Lane("world")  # for work that belongs to no process
        self.lanes = [self.world]  # of living processes
        self.handles = 0  # run so far
        self.handles_max = sys.maxsize
        self.on_idle: OnIdle = jump
        self._ended: list[Lane] = []
        self._choose = choose
        self._has_outside = has_outside
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, Lane, asyncio.TimerHandle]] = []
        self._cancelled = 0  # timers, approximately
        self._is_done: Callable[[], bool] = _never_done
        self._calls: dict[Any, ThreadCall] = {}
        self._resolution = 0.0 if self.manual is None else self.manual.resolution
        self.time = self.clock.monotonic  # type: ignore[method-assign]  # read at every timer
        super().__init__()

    def add_lane(self, name: str) -> Lane:
        """Add a lane for a new process."""
        lane = Lane(name)
        self._ended += (each for each in self.lanes if each.is_dead)
        self.lanes = [each for each in self.lanes if not each.is_dead] + [lane]
        return lane

    # --- running ---

    def drive(self, is_done: Callable[[], bool], on_idle: OnIdle = jump) -> None:
        """Run until `is_done`, or until `on_idle` stops it; their exceptions are raised here. The caller may be running
        on a loop of its own.
        """
        self._is_done, self.on_idle = is_done, on_idle
        with stepped_out():
            self.run_forever()

    def _run_once(self) -> None:
        if self._is_done():
            self._stopping = True
            return
        if self._has_outside:
            self._look_outside()
        lanes = [lane for lane in self.lanes if lane.queue and not lane.is_paused]
        if not lanes:
            self._rest()
            return
        lane = lanes[0] if len(lanes) == 1 else self._choose(lanes)
        _, handle = lane.queue.popleft()
        if handle._cancelled:
            return
        self.handles += 1
        if self.handles > self.handles_max:
            raise SpinningError(f"{self.handles_max} handles have run, without an end at {self.time():.3f} s")
        if lane.fuse >= 0:
            lane.fuse -= 1
            if lane.fuse < 0:
                lane.on_fuse()
                if lane.is_dead:
                    return
        handle._run()

    def _look_outside(self) -> None:
        """While something is ready: let real time pass, and poll sockets now and then."""
        if self.manual is None:
            self._wake_timers()
        if self.handles % _POLL_EVERY == 0 and self.has_sockets:
            self._poll(0)

    def _rest(self) -> None:
        """Nothing is ready: wait for threads and sockets, or let virtual time pass."""
        if self._has_outside:
            self._poll(self._patience())
            if any(lane.queue and not lane.is_paused for lane in self.lanes):
                return
        when = self.next_timer()
        if self.manual is None and (self.has_sockets or self.has_threads):
            # A result may arrive before the next timer, at an unknown time.
            soon = self.time() + IO_SECONDS
            when = soon if when is None else min(soon, when)
        moment = self.on_idle(when)
        if moment is None:
            self._stopping = True
        elif self.manual is None:
            self._poll(max(0.0, moment - self.time()))
        else:
            self.manual.go_to(moment)
            self._wake_timers()

    def _poll(self, timeout: float | None) -> None:
        self._process_events(self._selector.select(timeout))  # type: ignore[attr-defined]

    # --- timers ---

    def next_timer(self) -> float | None:
        """When the next timer is due; None if there is none."""
        timers = self._timers
        while timers and (timers[0][2].is_dead or timers[0][3]._cancelled):
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _wake_timers(self) -> None:
        timers, end = self._timers, self.time() + self._resolution
        while timers and timers[0][0] <= end:
            _, _, lane, handle = heapq.heappop(timers)
            if not lane.is_dead and not handle._cancelled:
                lane.queue.append((next(self._numbers), handle))

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        lane = handle._context.get(LANE) or self.world  # type: ignore[attr-defined]
        if not lane.is_dead:
            heapq.heappush(self._timers, (when, next(self._numbers), lane, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > _PURGE_AT and self._cancelled > len(self._timers) // 2:
            self._timers = [each for each in self._timers if not each[3]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    # --- handles and tasks ---

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        lane = handle._context.get(LANE) or self.world  # type: ignore[attr-defined]
        if not lane.is_dead:
            lane.queue.append((next(self._numbers), handle))
        return handle

    def _call_soon(self, callback: Callable[..., object], args: Any, context: Context | None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def _add_callback(self, handle: asyncio.Handle) -> None:
        """Schedule the handle of a socket that is ready."""
        lane = handle._context.get(LANE) or self.world  # type: ignore[attr-defined]
        if not lane.is_dead:
            lane.queue.append((next(self._numbers), handle))

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **more: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context, **more)
        lane = LANE.get() if context is None else context.get(LANE)
        (lane or self.world).keep(task)
        return task

    # --- threads and sockets ---

    @property
    def has_sockets(self) -> bool:
        """Whether a socket is registered, other than the loop's own."""
        return len(self._selector.get_map()) > 1  # type: ignore[attr-defined]

    @property
    def has_threads(self) -> bool:
        """Whether a call of a living process runs in a thread: virtual time does not pass meanwhile."""
        return any(not call.lane.is_dead for call in self._calls.values())

    def _patience(self) -> float | None:
        """How many real seconds to wait before virtual time passes: as long as threads are busy, and a moment for
        sockets and for threads that may wait for this loop.
        """
        if self.manual is None:
            return 0.0
        calls = [call for call in self._calls.values() if not call.lane.is_dead]
        if any(call.is_busy for call in calls):
            return None
        if any(call.has_asked for call in calls):
            return ASKED_SECONDS
        return IO_SECONDS if self.has_sockets else 0.0

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        note_question(callback)
        return super().call_soon_threadsafe(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        call = ThreadCall(partial(func, *args), LANE.get() or self.world)
        future = super().run_in_executor(executor, call)
        self._calls[future] = call
        future.add_done_callback(self._call_ended)
        return future

    def _call_ended(self, future: Any) -> None:
        self._calls.pop(future, None)

    def wake(self) -> None:
        """From another thread: check again what is ready and what waits."""
        self._write_to_self()  # type: ignore[attr-defined]

    # --- the end ---

    def end_processes(self) -> None:
        """Kill every process, and end its tasks: their `finally` blocks run now, without effect on the store."""
        self._end([lane for lane in (*self._ended, *self.lanes) if lane is not self.world])
        self._ended, self.lanes = [], [self.world]

    def _end(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.kill()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for lane in lanes:
                context = lane.context()  # work that `finally` blocks start belongs to the dead process, too
                while lane.tasks:
                    context.run(_close, lane.tasks.pop())

    def dispose(self) -> None:
        """End everything, and close."""
        with stepped_out():
            events._set_running_loop(self)
            self.end_processes()
        self._calls.clear()
        if self._has_outside:
            # Threads that wait for a dead process are released.
            self.drive(_never_done, lambda _: None)
        with stepped_out():
            events._set_running_loop(self)
            self._end([self.world])
        self.close()


def _never_done() -> bool:
    return False


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
    if task.done():
        return
    coroutine: Any = task.get_coro()
    for _ in range(_CLOSES_MAX):
        try:
            coroutine.close()
        except RuntimeError:
            continue  # it awaits in a `finally` block, where it is closed again
        except BaseException:  # noqa: BLE001  no code is left to handle it
            break
        break
    # The task never runs again, so it cannot end by itself. This notifies code outside that waits for it.
    asyncio.Future.cancel(task)
