"""The seam: everything that is not deterministic enters here, so that a simulation can replace it."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from stepwell.clock import Clock, SystemClock
from stepwell.ids import Ids, SystemIds

T = TypeVar("T")


class Executor(Protocol):
    """Starts concurrent work: coroutines on the loop, blocking calls beside it."""

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a coroutine as its own unit of work."""
        ...

    def call_blocking(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a blocking call without blocking the loop."""
        ...

    def close(self) -> None:
        """Let go of threads; work that still runs is not waited for."""
        ...


class SystemExecutor:
    """The running event loop, and threads."""

    def __init__(self, threads_max: int = 32) -> None:
        self._threads_max = threads_max
        self._pool: ThreadPoolExecutor | None = None
        self._live: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        # The loop keeps only weak references: without this one a unit of work may vanish half-way.
        self._live.add(task)
        task.add_done_callback(self._live.discard)
        return task

    def call_blocking(self, call: Callable[[], T]) -> asyncio.Future[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="stepwell-step")
        return asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


class LoopThread:
    """An event loop in a thread of its own, for callers that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stepwell-engine", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for its result in the caller's thread."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True, slots=True)
class Environment:
    """Clock, ids, randomness and executor of one process. The store and its wake-ups are handed over beside it."""

    clock: Clock
    ids: Ids
    random: random.Random
    executor: Executor
    process: str = field(default="")
    # Told of every step body that is about to start, and of the execution that starts it.
    on_body: Callable[[Any, Any], None] | None = None


def tune_process() -> None:
    """Settle a process that does nothing but execute runs: garbage is collected in larger portions.

    Thousands of runs at once are many small objects that live for a moment; Python's default looks through them after
    every 700. An application with an engine inside decides for itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def system_environment(*, threads_max: int = 32) -> Environment:
    """The real machine."""
    clock = SystemClock()
    return Environment(clock=clock, ids=SystemIds(clock), random=random.Random(), executor=SystemExecutor(threads_max))


def start_watcher(watch: Callable[[], None], *, name: str) -> None:
    """Watch something in a thread that never keeps its process alive; for processes that have no executor."""
    threading.Thread(target=watch, name=name, daemon=True).start()
