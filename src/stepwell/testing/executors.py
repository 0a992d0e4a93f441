"""What one process of a test starts work with: everything belongs to its lane, and ends with it."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, TypeVar

from stepwell.clock import Clock, Instant
from stepwell.environment import Answers, Holder, LockstepThread, LockstepThreads
from stepwell.ids import format_uuid7
from stepwell.replay.step_context import StepContext
from stepwell.testing.loop import LANE, Lane, VirtualLoop

T = TypeVar("T")


class SkewedClock:
    """The clock of one process: that of the world, and what its own is wrong by."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.skew = 0  # microseconds

    def now(self) -> Instant:
        return Instant(self._clock.now() + self.skew)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def uptime(self) -> int:
        return self._clock.uptime()

    @property
    def boot(self) -> str:
        return self._clock.boot


class CountedIds:
    """Time-sorted ids that are the same in every execution of a test."""

    def __init__(self, clock: Clock, first: int = 1) -> None:
        self._clock = clock
        self._count = itertools.count(first)

    def uuid(self) -> str:
        return format_uuid7(self._clock.now() // 1_000, next(self._count))


class MortalThreads(LockstepThreads):
    """LockstepThreads that end with their process."""

    is_dead = False

    def take(self, holder: Holder) -> LockstepThread:
        if self.is_dead:
            raise asyncio.CancelledError
        return super().take(holder)


class Threads:
    """Threads for the blocking calls of a whole test."""

    def __init__(self) -> None:
        self._one: ThreadPoolExecutor | None = None
        self._many: ThreadPoolExecutor | None = None

    @property
    def one(self) -> ThreadPoolExecutor:
        """For calls that the loop waits for: they end in the order in which they began."""
        if self._one is None:
            self._one = ThreadPoolExecutor(1, thread_name_prefix="stepwell-step")
        return self._one

    @property
    def many(self) -> ThreadPoolExecutor:
        """For calls that need the loop while they run."""
        if self._many is None:
            self._many = ThreadPoolExecutor(32, thread_name_prefix="stepwell-step")
        return self._many

    def close(self) -> None:
        for pool in (self._one, self._many):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)


class LaneExecutor:
    """Tasks in the lane of a process. Blocking calls run in a thread, and time stands still meanwhile."""

    def __init__(self, loop: VirtualLoop, lane: Lane, threads: Threads) -> None:
        self._loop = loop
        self._lane = lane
        self._threads = threads
        self.lockstep_threads: LockstepThreads = MortalThreads()
        self.answers = Answers()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        context = None if LANE.get() is self._lane else self._lane.context.copy()
        return self._loop.create_task(work, name=name, context=context)

    def begin(self, work: Coroutine[Any, Any, T], *, name: str, context: Context) -> asyncio.Task[T]:
        return self._loop.create_task(work, name=name, context=context)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """The lane holds on to all of its tasks."""

    def call_blocking(self, call: Callable[[], T], *, began: Callable[[], None] | None = None) -> asyncio.Future[T]:
        future: asyncio.Future[T]
        if began is not None:
            began()  # there are threads enough
        if self._loop.virtual is None or _needs_loop(call):
            future = self._loop.run_in_executor(self._threads.many, call)
            return future
        # The loop waits for it: concurrent steps then end in the same order in every execution.
        future = self._loop.create_future()
        try:
            future.set_result(self._threads.one.submit(call).result())
        except BaseException as error:  # noqa: BLE001  whatever a call raises is its outcome
            future.set_exception(error)
        return future

    def close(self) -> None:
        self.lockstep_threads.close()

    def end(self) -> None:
        """The process is no more: whatever is left of its tasks gets no thread, and its threads no answer."""
        self.answers.close()
        assert isinstance(self.lockstep_threads, MortalThreads)
        self.lockstep_threads.is_dead = True


def _needs_loop(call: Callable[[], Any]) -> bool:
    """Whether a call talks to the engine while it runs: a body with a context may wait for a checkpoint."""
    return isinstance(call, functools.partial) and any(isinstance(each, StepContext) for each in call.args)
