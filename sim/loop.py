"""The simulated event loop: virtual time, several processes, and an order of events that a seed decides.

Handles belong to the *lane* (process) in whose context they were scheduled. Within a lane they run first in, first out,
as asyncio promises; which lane goes next is drawn. When nothing is ready, time jumps to the next timer. A dead lane's
handles are dropped and a paused lane's are kept back: killing or freezing a process needs no help from its code.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

HANDLES_MAX = 600_000  # of one seed: beyond it, something spins without ever letting time go on


class Deadlock(Exception):
    """Nothing is ready and no timer is set."""


class Spinning(Exception):
    """Events never end, and time does not go on."""


class Lane:
    """One simulated process as the loop sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[asyncio.Handle] = deque()
        self.is_dead = False
        self.is_paused = False
        self.fuse = -1  # handles until `on_fuse` is called; negative: never
        self.on_fuse: Callable[[], None] = lambda: None
        self.tasks: list[asyncio.Task[Any]] = []
        self.process: Any = None  # whom it belongs to

    def context(self) -> Context:
        """A context whose handles and tasks belong to this lane."""
        context = copy_context()
        context.run(LANE.set, self)
        return context

    def kill(self) -> None:
        """Drop everything: nothing of this lane ever runs again."""
        self.is_dead = True
        self.queue.clear()


WORLD = Lane("world")
LANE: ContextVar[Lane] = ContextVar("sim_lane", default=WORLD)


def _close(task: asyncio.Task[Any]) -> None:
    try:
        task.get_coro().close()
    except BaseException:
        pass  # it awaits in a `finally`: there is nobody left to wait for


class SimLoop(asyncio.AbstractEventLoop):
    """Runs the handles of all lanes, in an order drawn from `rng`, in virtual time."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now = 0.0
        self._timers: list[tuple[float, int, Lane, asyncio.TimerHandle]] = []
        self._count = 0
        self.world = Lane("world")
        self.lanes: list[Lane] = [self.world]
        self._all = [self.world]
        self.handles = 0
        self.problems: list[tuple[Lane, str, BaseException | None]] = []

    def add_lane(self, name: str) -> Lane:
        """A new process."""
        lane = Lane(name)
        self.lanes = [each for each in self.lanes if not each.is_dead] + [lane]
        self._all.append(lane)
        return lane

    def dispose(self) -> None:
        """End everything that is left: `finally` blocks of killed code run now, and reach nobody in any seed."""
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for lane in self._all:
                lane.kill()
            self._timers.clear()
            for lane in self._all:
                for task in lane.tasks:
                    if not task.done():
                        _close(task)
                lane.tasks.clear()
            self._all.clear()
            gc.collect()
        finally:
            events._set_running_loop(outer)

    # --- running ---

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` in the world's lane until it ends."""
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            task = self.world.context().run(self.create_task, main)
            while not task.done():
                self._run_one()
            return task.result()
        finally:
            events._set_running_loop(outer)

    def _run_one(self) -> None:
        lanes = [lane for lane in self.lanes if lane.queue and not lane.is_paused]
        if not lanes:
            self._jump()
            return
        lane = lanes[0] if len(lanes) == 1 else lanes[int(self._rng.random() * len(lanes))]
        handle = lane.queue.popleft()
        if handle._cancelled:
            return
        self.handles += 1
        if self.handles > HANDLES_MAX:
            raise Spinning(f"{HANDLES_MAX} events, and the seed has not ended at {self._now:.3f} s")
        if lane.fuse >= 0:
            lane.fuse -= 1
            if lane.fuse < 0:
                lane.on_fuse()
                if lane.is_dead:
                    return
        handle._run()

    def _jump(self) -> None:
        """Go to the next timer."""
        timers = self._timers
        while timers and (timers[0][2].is_dead or timers[0][3]._cancelled):
            heapq.heappop(timers)
        if not timers:
            raise Deadlock("nothing is ready and no timer is set")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            _, _, lane, handle = heapq.heappop(timers)
            if not lane.is_dead and not handle._cancelled:
                lane.queue.append(handle)

    # --- what asyncio asks of a loop ---

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        lane = self._lane(handle)
        if not lane.is_dead:
            lane.queue.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(delay, 0.0), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        lane = self._lane(handle)
        if not lane.is_dead:
            self._count += 1
            heapq.heappush(self._timers, (when, self._count, lane, handle))
        return handle

    def _lane(self, handle: asyncio.Handle) -> Lane:
        lane: Lane = handle._context.get(LANE, WORLD)  # type: ignore[attr-defined]
        return self.world if lane is WORLD else lane

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are passed over when their time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        # A killed process leaves its tasks where they are.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        lane = LANE.get() if context is None else context.get(LANE, WORLD)
        # Kept to the end of the seed: a task that vanished half-way would run its `finally` blocks.
        (self.world if lane is WORLD else lane).tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback raised: kept, because nobody else will ever hear of it."""
        self.problems.append((LANE.get(), str(context.get("message", "")), context.get("exception")))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    async def shutdown_asyncgens(self) -> None:
        return None
