"""One supervisor over all loops of a worker: a loop that ends is started again, or the worker ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from stepwell.environment import Environment

_LOG = logging.getLogger("stepwell.worker")

RESTARTS_MAX: Final = 6  # of one loop without a calm stretch between them: within some three seconds
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
    """Keeps loops running. `on_give_up` is called with the reason when one of them ends again and again.

    When all of them are cancelled from outside, none is started again: that is how an event loop ends. If the event
    loop goes on nevertheless, `on_give_up` is called.
    """

    def __init__(self, environment: Environment, on_give_up: Callable[[str], None]) -> None:
        self._environment = environment
        self._on_give_up = on_give_up
        self._loops: dict[str, SupervisedLoop] = {}
        self._is_closed = False
        self._farewell: asyncio.TimerHandle | None = None

    def tend(self, name: str, make: Make, *, may_return: bool = False) -> None:
        """Run a loop from now on. One that `may_return` has ended in order when it does."""
        if self._is_closed:
            return
        tended = self._loops.get(name)
        if tended is None:
            tended = self._loops[name] = SupervisedLoop(name, make, may_return=may_return)
        tended.make = make
        self._start(tended)

    async def close(self) -> None:
        """End every loop."""
        self._stop()
        tasks = [tended.task for tended in self._loops.values() if tended.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_torn_down(self) -> bool:
        """Whether every loop that still runs was told to end. Asked by what was cancelled itself, and not by us."""
        lasting = [tended.task for tended in self._loops.values() if not tended.may_return]
        return all(task.cancelling() for task in lasting if task is not None and not task.done())

    def _stop(self) -> None:
        self._is_closed = True
        if self._farewell is not None:
            self._farewell.cancel()
            self._farewell = None
        for tended in self._loops.values():
            if tended.timer is not None:
                tended.timer.cancel()
            if tended.task is not None:
                tended.task.cancel()

    def _start(self, tended: SupervisedLoop) -> None:
        tended.timer = None
        if self._is_closed:
            return
        task = tended.task = self._environment.executor.spawn(tended.make(), name=f"stepwell-{tended.name}")
        task.add_done_callback(lambda done: self._ended(tended, done))

    def _ended(self, tended: SupervisedLoop, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        is_in_order = error is None and not task.cancelled() and tended.may_return
        if self._is_closed or is_in_order or tended.task is not task:
            return
        if task.cancelling() and self.is_torn_down:
            self._stop()
            # An event loop that ends reaches no timer, and a task that is begun now would be destroyed half-way.
            reason = "all of its loops were cancelled from outside"
            self._farewell = asyncio.get_running_loop().call_later(PAUSE_FIRST, self._on_give_up, reason)
            return
        why = "it was cancelled" if task.cancelled() else "it returned" if error is None else type(error).__name__
        now = self._environment.clock.monotonic()
        if now - tended.ended_at > CALM_SECONDS:
            tended.ends = 0
        tended.ends, tended.ended_at = tended.ends + 1, now
        if tended.ends > RESTARTS_MAX:
            _LOG.critical("the worker's loop %s ended %d times: %s", tended.name, tended.ends, why, exc_info=error)
            self._on_give_up(f"its loop {tended.name} ended {tended.ends} times: {why}")
            return
        pause = min(PAUSE_FIRST * 2 ** (tended.ends - 1), PAUSE_MAX)
        _LOG.error("the worker's loop %s ended: %s; again in %.2f s", tended.name, why, pause, exc_info=error)
        tended.timer = asyncio.get_running_loop().call_later(pause, self._start, tended)
