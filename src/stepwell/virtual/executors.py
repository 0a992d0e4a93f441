"""Executors of the processes of a virtual world: all work belongs to a lane, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol, TypeVar

from stepwell.environment import Answers, Holder, LockstepThread, LockstepThreads
from stepwell.virtual.lanes import LANE, Lane
from stepwell.virtual.loop import VirtualLoop
from stepwell.virtual.threads import LoopAnswers

T = TypeVar("T")


class BlockingCalls(Protocol):
    """How blocking calls run."""

    def begin(self, call: Callable[[], T], began: Callable[[], None] | None) -> asyncio.Future[T]:
        """Run a call; `began` is called when it begins."""
        ...


class InlineCalls:
    """Blocking calls that run on the loop: at once, or after a random delay, as if a thread became free then."""

    def __init__(self, loop: VirtualLoop, delay: Callable[[], float] | None = None) -> None:
        self._loop = loop
        self._delay = delay

    def begin(self, call: Callable[[], T], began: Callable[[], None] | None) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        if self._delay is None:
            _settle(future, call, began)
        else:
            self._loop.call_later(self._delay(), _settle, future, call, began)
        return future


def _settle(future: asyncio.Future[T], call: Callable[[], T], began: Callable[[], None] | None) -> None:
    try:
        if began is not None:
            began()
        value = call()
    except BaseException as error:  # noqa: BLE001  the exception of a call is its outcome
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(value)


class ProcessThreads(LockstepThreads):
    """Lockstep threads that end with their process."""

    is_dead = False

    def take(self, holder: Holder) -> LockstepThread:
        if self.is_dead:
            raise asyncio.CancelledError
        return super().take(holder)


class LaneExecutor:
    """Starts tasks in the lane of a process."""

    def __init__(self, loop: VirtualLoop, lane: Lane, calls: BlockingCalls, threads_max: int = 8) -> None:
        self._loop = loop
        self._lane = lane
        self._calls = calls
        self._threads = ProcessThreads(threads_max)
        self.lockstep_threads: LockstepThreads = self._threads
        self.answers: Answers = LoopAnswers(loop.wake)

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        context = None if LANE.get() is self._lane else self._lane.context()
        return self._loop.create_task(work, name=name, context=context)

    def begin(self, work: Coroutine[Any, Any, T], *, name: str, context: Context) -> asyncio.Task[T]:
        return self._loop.create_task(work, name=name, context=context)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Nothing to do: the lane keeps all of its tasks."""

    def call_blocking(self, call: Callable[[], T], *, began: Callable[[], None] | None = None) -> asyncio.Future[T]:
        return self._calls.begin(call, began)

    def close(self) -> None:
        self.lockstep_threads.close()

    def end(self) -> None:
        """The process is dead: its remaining tasks get no thread, and its threads no answer."""
        self.answers.close()
        self._threads.is_dead = True
