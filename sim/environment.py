"""What a simulated process sees of the world: clocks, ids, randomness and an executor, all from the seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from sim.loop import SimLoop
from stepwell.clock import Instant
from stepwell.environment import Answers, Environment, LockstepThreads
from stepwell.ids import format_uuid7
from stepwell.replay.bodies import Body

T = TypeVar("T")

BEGINNING = 1_700_000_000_000_000  # microseconds; a day in November 2023


class HostClock:
    """The wall clock that all processes of the host share. It may be set, forwards or back."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._offset = 0  # microseconds

    def now(self) -> Instant:
        """Wall time."""
        return Instant(BEGINNING + self._offset + round(self._loop.time() * 1_000_000))

    def jump(self, seconds: float) -> None:
        """Somebody set the clock."""
        self._offset += round(seconds * 1_000_000)


class SimClock:
    """The clocks of one process: the host's wall time, and a monotonic time with an origin of its own."""

    def __init__(self, host: HostClock, loop: SimLoop, origin: float) -> None:
        self._host = host
        self._loop = loop
        self._origin = origin

    def now(self) -> Instant:
        """Wall time."""
        return self._host.now()

    def monotonic(self) -> float:
        """Seconds since this process' own origin."""
        return self._loop.time() + self._origin

    def uptime(self) -> int:
        """Microseconds since the host was booted."""
        return round(self._loop.time() * 1_000_000)

    @property
    def boot(self) -> str:
        """The host is never booted again."""
        return "simulated"


class SimIds:
    """Version 7 UUIDs from the clock and the seed."""

    def __init__(self, clock: SimClock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng

    def uuid(self) -> str:
        """A new identifier."""
        return format_uuid7(self._clock.now() // 1_000, self._rng.getrandbits(74))


class SimExecutor:
    """Tasks of one process. Blocking calls run on the loop, a little later, and cannot be cancelled."""

    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self.answers = Answers()
        self.lockstep_threads = LockstepThreads(3)  # few, so that code often has to give one up and be run again

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start a coroutine in the process of the caller."""
        return self._loop.create_task(work, name=name)

    def begin(self, work: Coroutine[Any, Any, T], *, name: str, context: Context) -> asyncio.Task[T]:
        """Start a coroutine with these context variables."""
        return context.run(self._loop.create_task, work, name=name)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """The loop holds on to all of them."""

    def call_blocking(self, call: Callable[[], T], *, began: Callable[[], None] | None = None) -> asyncio.Future[T]:
        """Run a call as a thread would: it begins later, and nothing stops it but the end of the process."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_later(self._rng.choice((0.0, 0.001, 0.02)), self._run, call, began, future)
        return future

    def _run(self, call: Callable[[], T], began: Callable[[], None] | None, future: asyncio.Future[T]) -> None:
        try:
            if began is not None:
                began()
            value = call()
        except BaseException as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(value)

    def close(self) -> None:
        """Let go of threads."""
        self.lockstep_threads.close()


def make_environment(
    loop: SimLoop, host: HostClock, rng: random.Random, process: str, on_body: Callable[[Body, Any], None]
) -> Environment:
    """The environment of a process that starts now."""
    clock = SimClock(host, loop, origin=rng.uniform(0, 1e6))
    ids = SimIds(clock, random.Random(rng.getrandbits(64)))
    executor = SimExecutor(loop, random.Random(rng.getrandbits(64)))
    return Environment(clock, ids, random.Random(rng.getrandbits(64)), executor, process, on_body)
