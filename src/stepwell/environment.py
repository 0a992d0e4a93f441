"""The environment: everything nondeterministic comes from here, so that a simulation can replace it."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Protocol, TypeVar

from stepwell.clock import Clock, SystemClock
from stepwell.errors import NonDeterministicError, WrongLoopError
from stepwell.ids import Ids, SystemIds

T = TypeVar("T")


IDLE_SECONDS = 0.5  # how long threads for blocking calls stay after the last call

_HERE = threading.local()


_forks = 0  # of this process and its ancestors


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class Affinity:
    """The process, and the event loop if there is one, in which something was opened."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._forks = _forks
        self._loop = loop

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the process in which it was opened."""
        return self._forks != _forks

    def check(self, what: str) -> None:
        """Reject a call from another process or loop: it would wait for threads or a loop that cannot answer there."""
        if self._forks != _forks:
            raise WrongLoopError(
                f"{what} was opened before this process was forked",
                why="its threads and connections belong to the parent process",
                fix="open an engine in each child process, after the fork",
            )
        running = events._get_running_loop()  # outside any loop, nothing is awaited yet
        if self._loop is not None and running is not None and running is not self._loop:
            raise WrongLoopError(
                f"{what} was called from another event loop than its own",
                why="it is woken in its own loop, which cannot wake this one",
                fix="open an engine in this loop, pass the call to its loop with "
                "asyncio.run_coroutine_threadsafe(call, loop), or use SyncEngine, which any thread may call",
            )


def is_on_lockstep_thread() -> bool:
    """Whether the caller's thread is a lockstep thread: it runs the code of a plain workflow."""
    return getattr(_HERE, "is_lockstep", False)


class LockstepThread:
    """A thread that runs only while its owner waits for it: at any moment, only one of the two runs.

    So together they are as deterministic as a call, and need no locks.
    """

    def __init__(self) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._call: Callable[[], None] | None = None
        self.is_busy = False  # its call has begun and has not ended
        self.is_lost = False  # its owner was interrupted while it ran, so the two no longer take turns
        self._thread = threading.Thread(target=self._serve, name="stepwell-code", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return threading.get_ident() == self._thread.ident

    def begin(self, call: Callable[[], None]) -> None:
        """Run a call until it pauses or ends. The call must not raise."""
        self._call, self.is_busy = call, True
        self.resume()

    def resume(self) -> None:
        """Continue the call until it pauses again or ends."""
        self._go.release()
        try:
            self._back.acquire()
        except BaseException:
            self.is_lost = True
            raise

    def pause(self) -> None:
        """Inside the call: return control to the owner until it calls `resume`."""
        self._back.release()
        self._go.acquire()

    def end(self) -> None:
        """End the thread. It must not be busy."""
        self._go.release()

    def _serve(self) -> None:
        _HERE.is_lockstep = True
        while True:
            self._go.acquire()
            if self._call is None:
                return
            self._call()
            self._call, self.is_busy = None, False
            self._back.release()


class Holder(Protocol):
    """Code that waits on a lockstep thread, and can release the thread at any time."""

    @property
    def cost(self) -> int:
        """How much work it takes to get to the same point on another thread."""
        ...

    def leave(self) -> None:
        """Release the thread at once."""
        ...


class LockstepThreads:
    """A bounded number of lockstep threads. If all are in use, the holder with the least cost releases its thread."""

    def __init__(self, threads_max: int = 8) -> None:
        self._threads_max = threads_max
        self._idle: list[LockstepThread] = []
        self._held: dict[Holder, LockstepThread] = {}

    def take(self, holder: Holder) -> LockstepThread:
        """A lockstep thread for this holder."""
        if not self._idle and len(self._held) >= self._threads_max:
            min(self._held, key=lambda held: held.cost).leave()
        thread = self._held[holder] = self._idle.pop() if self._idle else LockstepThread()
        return thread

    def give_back(self, holder: Holder) -> None:
        """Return the thread of a holder whose call has ended."""
        thread = self._held.pop(holder)
        if not thread.is_lost:
            self._idle.append(thread)

    def close(self) -> None:
        """Take back and end every thread."""
        for holder in tuple(self._held):
            holder.leave()
        while self._idle:
            self._idle.pop().end()


class Answers:
    """The answers of the loop for which blocking calls wait. Without an answer, a call would outlive its loop."""

    def __init__(self) -> None:
        self._awaited: set[Future[Any]] = set()
        self._is_closed = False

    def wait(self, answer: Future[T]) -> T:
        """In a thread: wait for the loop's answer. Raises `concurrent.futures.CancelledError` if there will be none."""
        self._awaited.add(answer)
        try:
            if self._is_closed:
                answer.cancel()
            return answer.result()
        finally:
            self._awaited.discard(answer)

    def close(self) -> None:
        """End every wait: the loop no longer answers."""
        self._is_closed = True
        for answer in tuple(self._awaited):
            answer.cancel()


class Executor(Protocol):
    """Starts concurrent work: coroutines on the loop, blocking calls in threads."""

    lockstep_threads: LockstepThreads
    answers: Answers

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a coroutine as a task of its own."""
        ...

    def begin(self, work: Coroutine[Any, Any, T], *, name: str, context: Context) -> asyncio.Task[T]:
        """`spawn`, with these context variables. The caller keeps a reference to the task, or calls `keep`."""
        ...

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task until it has ended."""
        ...

    def call_blocking(self, call: Callable[[], T], *, began: Callable[[], None] | None = None) -> asyncio.Future[T]:
        """Run a blocking call without blocking the loop; `began` is called on the loop when a thread starts it."""
        ...

    def close(self) -> None:
        """Release the threads, without waiting for calls that still run."""
        ...


class SystemExecutor:
    """The running event loop, and threads."""

    def __init__(self, threads_max: int = 32) -> None:
        self._threads_max = threads_max
        self._pool: ThreadPool | None = None
        self._calls = 0  # made so far
        self._running = 0  # calls that have not ended
        self._rest: asyncio.TimerHandle | None = None
        self._live: set[asyncio.Task[Any]] = set()
        self.lockstep_threads = LockstepThreads()
        self.answers = Answers()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.keep(task)
        return task

    def begin(self, work: Coroutine[Any, Any, T], *, name: str, context: Context) -> asyncio.Task[T]:
        return asyncio.get_running_loop().create_task(work, name=name, context=context)

    def keep(self, task: asyncio.Task[Any]) -> None:
        # The loop keeps only weak references: without this one, a running task may be garbage collected.
        self._live.add(task)
        task.add_done_callback(self._live.discard)

    def call_blocking(self, call: Callable[[], T], *, began: Callable[[], None] | None = None) -> asyncio.Future[T]:
        if self._pool is None:
            self._pool = ThreadPool(self._threads_max)
        self._calls += 1
        self._running += 1
        loop = asyncio.get_running_loop()
        if began is not None:
            call = partial(_call_begun, loop, began, call)
        future = asyncio.wrap_future(self._pool.submit(call), loop=loop)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: asyncio.Future[Any]) -> None:
        self._running -= 1
        if self._running == 0 and self._rest is None and self._pool is not None:
            self._rest = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._let_go, self._calls)

    def _let_go(self, calls: int) -> None:
        """End the threads if no call was made for a while: runs that only wait need none."""
        self._rest = None
        if calls == self._calls:
            self._end_pool()
        elif self._running == 0:
            self._rest = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._let_go, self._calls)

    def close(self) -> None:
        self.lockstep_threads.close()
        self.answers.close()
        self.answers = Answers()  # for a later use after a restart
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self._end_pool()

    def _end_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def _call_begun(loop: asyncio.AbstractEventLoop, began: Callable[[], None], call: Callable[[], T]) -> T:
    loop.call_soon_threadsafe(began)
    return call()


class LoopWatch:
    """Notices in a thread of its own that an event loop is blocked, and shows what its thread executes.

    While `is_needed`, it pings the loop. If the loop does not answer within `limit` seconds, `blocked` is called with
    the frame that the loop's thread executes, once until the loop answers again.
    """

    def __init__(
        self, limit: float, is_needed: Callable[[], bool], blocked: Callable[[FrameType | None, float], object]
    ) -> None:
        self._limit = limit
        self._is_needed = is_needed
        self._blocked = blocked
        self._rung = threading.Event()  # by the loop's answer, and by the end
        self._is_ended = False

    def start(self) -> None:
        """Watch the running loop."""
        args = (asyncio.get_running_loop(), threading.get_ident())
        threading.Thread(target=self._watch, args=args, name="stepwell-watch", daemon=True).start()

    def end(self) -> None:
        """Watch no longer. The thread ends at once."""
        self._is_ended = True
        self._rung.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._rung.wait(self._limit):
            if not self._is_needed():
                continue
            began = time.monotonic()
            try:
                loop.call_soon_threadsafe(self._rung.set)
            except RuntimeError:  # the loop is closed
                return
            if not self._rung.wait(self._limit):
                self._blocked(sys._current_frames().get(thread), time.monotonic() - began)
                while not self._rung.wait(self._limit):
                    if loop.is_closed():
                        return
            self._rung.clear()
            if self._is_ended:
                return


Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class ThreadPool:
    """A bounded number of threads for blocking calls. They never keep their process alive, whereas the standard pool
    waits at the end of the process for abandoned calls. They end when the pool is closed or garbage collected.
    """

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._calls: Calls = SimpleQueue()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call in one of the threads, in the order of submission."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        if not self._idle.acquire(blocking=False) and self._threads < self._threads_max:
            self._threads += 1
            name = f"stepwell-step_{self._threads - 1}"
            threading.Thread(target=_serve, args=(self._calls, self._idle), name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """End the threads when they are free. Calls that have not begun never run."""
        while True:
            try:
                waiting = self._calls.get_nowait()
            except Empty:
                break
            if waiting is not None:
                waiting[0].cancel()
        self._end_threads()

    def __del__(self) -> None:
        # An event loop may end before its engine is closed.
        self._end_threads()

    def _end_threads(self) -> None:
        threads, self._threads = self._threads, 0
        for _ in range(threads):
            self._calls.put(None)


def _serve(calls: Calls, idle: threading.Semaphore) -> None:
    """The main function of a thread. It has no reference to its pool, so that the pool can be garbage collected."""
    while True:
        try:
            work = calls.get_nowait()
        except Empty:
            idle.release()
            work = calls.get()
        if work is None:
            return
        future, call = work
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except StopIteration as error:  # asyncio futures reject it
                raised = RuntimeError("a blocking call raised StopIteration")
                raised.__cause__ = error
                future.set_exception(raised)
            except BaseException as error:  # noqa: BLE001  the exception of a call is its outcome
                future.set_exception(error)
        del work, future, call  # an idle thread keeps no references


class LoopThread:
    """An event loop in its own thread, for callers without a loop."""

    def __init__(self) -> None:
        self._home = Affinity()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stepwell-engine", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T], timeout_seconds: float | None = None) -> T:
        """Run a coroutine on the loop, and wait for its result in the caller's thread.

        Raises `TimeoutError` if the result does not come in time.
        """
        if is_on_lockstep_thread():
            work.close()
            raise NonDeterministicError(
                "a blocking engine was called in the code of a workflow",
                why="each recovery would call it again, and the engine that runs the workflow would wait for itself",
                fix="call it inside a step, or use ctx.child, ctx.spawn and ctx.receive",
            )
        try:
            self._home.check("this engine")
        except WrongLoopError:
            work.close()
            raise
        if threading.get_ident() == self._thread.ident:
            work.close()
            raise WrongLoopError(
                "a blocking engine was called from its own event loop",
                why="the call would wait for the thread that it blocks",
                fix="call it from another thread, or use Engine in asynchronous code",
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_seconds)
        except BaseException:
            future.cancel()
            raise

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the process that has the loop."""
        return self._home.is_forked

    def settle(self, seconds: float) -> None:
        """Wait until no task is left on the loop, at most so long: what was cancelled may end first."""
        future = asyncio.run_coroutine_threadsafe(_until_alone(seconds), self._loop)
        with suppress(TimeoutError):
            future.result(seconds)

    def stop(self, timeout_seconds: float | None = None) -> None:
        """End the loop and its thread. Does nothing in a child of the process that has them.

        With a timeout, a loop that a callback blocks is left behind: its thread never keeps the process alive.
        """
        if self._home.is_forked:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_seconds)
        if not self._thread.is_alive():
            self._loop.close()


async def _until_alone(seconds: float) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=seconds)


@dataclass(frozen=True, slots=True)
class Environment:
    """Clock, ids, randomness and executor of one process. The store and its wake-ups are passed separately."""

    clock: Clock
    ids: Ids
    random: random.Random
    executor: Executor
    process: str = field(default="")
    # Called with every step body that is about to start, and the execution that starts it.
    on_body: Callable[[Any, Any], None] | None = None


def system_environment(*, threads_max: int = 32) -> Environment:
    """The real machine."""
    clock = SystemClock()
    return Environment(clock=clock, ids=SystemIds(clock), random=random.Random(), executor=SystemExecutor(threads_max))


def start_watcher(watch: Callable[[], None], *, name: str) -> None:
    """Run a watcher in a thread that never keeps its process alive; for processes without an executor."""
    threading.Thread(target=watch, name=name, daemon=True).start()


async def wait_set(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, or until the time has passed."""
    with suppress(TimeoutError):
        # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
        async with asyncio.timeout(None if seconds == float("inf") else seconds):
            await event.wait()
