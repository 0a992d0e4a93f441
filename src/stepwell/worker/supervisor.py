"""The supervisor of all loops of a worker: it restarts a loop that ends, or ends the worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from stepwell.environment import Environment

_LOG = logging.getLogger("stepwell.worker")

RESTARTS_MAX: Final = 6  # of one loop without a calm period between them: within about three seconds
CALM_SECONDS: Final = 60.0
PAUSE_FIRST, PAUSE_MAX = 0.05, 5.0

Make = Callable[[], Coroutine[Any, Any, None]]


class SupervisedLoop:
    """A loop, and how often it has ended."""

    def __init__(self, name: str, make: Make, *, may_return: bool) -> None:
        self.name = name
        self.make = make
        self.may_return = may_return
        self.ends = 0
        self.ended_at = float("-inf")
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class Supervisor:
    """Keeps loops running. Calls `on_give_up` with the reason when a loop ends too often.

    When all loops are cancelled from outside, none is restarted: that is how an event loop ends. If the event loop
    continues nevertheless, `on_give_up` is called.
    """

    def __init__(self, environment: Environment, on_give_up: Callable[[str], None]) -> None:
        self._environment = environment
        self._on_give_up = on_give_up
        self._loops: dict[str, SupervisedLoop] = {}
        self._is_closed = False
        self._give_up_timer: asyncio.TimerHandle | None = None

    def supervise(self, name: str, make: Make, *, may_return: bool = False) -> None:
        """Run a loop from now on. With `may_return`, it is not restarted when it returns."""
        if self._is_closed:
            return
        loop = self._loops.get(name)
        if loop is None:
            loop = self._loops[name] = SupervisedLoop(name, make, may_return=may_return)
        loop.make = make
        self._start(loop)

    async def close(self) -> None:
        """End every loop."""
        self._stop()
        tasks = [loop.task for loop in self._loops.values() if loop.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_torn_down(self) -> bool:
        """Whether every running loop was cancelled from outside. Used by tasks that were cancelled themselves."""
        lasting = [loop.task for loop in self._loops.values() if not loop.may_return]
        return all(task.cancelling() for task in lasting if task is not None and not task.done())

    def _stop(self) -> None:
        self._is_closed = True
        if self._give_up_timer is not None:
            self._give_up_timer.cancel()
            self._give_up_timer = None
        for loop in self._loops.values():
            if loop.timer is not None:
                loop.timer.cancel()
            if loop.task is not None:
                loop.task.cancel()

    def _start(self, loop: SupervisedLoop) -> None:
        loop.timer = None
        if self._is_closed:
            return
        task = loop.task = self._environment.executor.spawn(loop.make(), name=f"stepwell-{loop.name}")
        task.add_done_callback(lambda done: self._ended(loop, done))

    def _ended(self, loop: SupervisedLoop, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        is_in_order = error is None and not task.cancelled() and loop.may_return
        if self._is_closed or is_in_order or loop.task is not task:
            return
        if task.cancelling() and self.is_torn_down:
            self._stop()
            # An event loop that ends runs no timers, and would destroy a task that begins now.
            reason = "all of its loops were cancelled from outside"
            self._give_up_timer = asyncio.get_running_loop().call_later(PAUSE_FIRST, self._on_give_up, reason)
            return
        why = "it was cancelled" if task.cancelled() else "it returned" if error is None else type(error).__name__
        now = self._environment.clock.monotonic()
        if now - loop.ended_at > CALM_SECONDS:
            loop.ends = 0
        loop.ends, loop.ended_at = loop.ends + 1, now
        if loop.ends > RESTARTS_MAX:
            _LOG.critical("the worker's loop %s ended %d times: %s", loop.name, loop.ends, why, exc_info=error)
            self._on_give_up(f"its loop {loop.name} ended {loop.ends} times: {why}")
            return
        pause = min(PAUSE_FIRST * 2 ** (loop.ends - 1), PAUSE_MAX)
        _LOG.error("the worker's loop %s ended: %s; restart in %.2f s", loop.name, why, pause, exc_info=error)
        loop.timer = asyncio.get_running_loop().call_later(pause, self._start, loop)
