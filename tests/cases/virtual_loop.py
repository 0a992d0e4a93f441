"""An event loop on which time passes only when everything waits for it, and on which a process can be stopped dead."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
import selectors
from typing import Any

from stepwell.clock import SECOND, Duration, span
from stepwell.virtual.clock import ManualClock

PATIENCE = 3_600.0  # seconds of virtual time that a test may wait for something without saying so


class Process:
    """What belongs to one simulated process. While it is stopped, its callbacks do not run; they are kept for later."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_stopped = False
        self.kept: list[asyncio.Handle] = []


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class NothingWillHappen(AssertionError):
    """The test waits, and nothing in it will ever happen."""


class _Selector(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout > 0:
            self.loop.pass_time(timeout)
        elif len(self.get_map()) == 1:
            return []  # only threads could write to the loop's own pipe, and their callbacks are ready already
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is the manual clock's, which jumps to the next timer when nothing is ready: up to where it may."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._until: float | None = None  # how far time may go now; None: as far as the patience reaches
        self._patient_until = PATIENCE
        self._quiet: asyncio.Future[None] | None = None
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.clock.monotonic()

    async def let_pass(self, duration: Duration) -> None:
        """Let this much time pass, everything in it happen, and return when nothing is left to do at its end."""
        self._until = self.time() + span(duration) / SECOND
        self._quiet = self.create_future()
        try:
            await self._quiet
        finally:
            self._quiet, self._until = None, None
            self._patient_until = self.time() + PATIENCE

    def pass_time(self, timeout: float | None) -> None:
        """Nothing is ready: go to the next timer, or say that the time is over."""
        now = self.time()
        following = float("inf") if timeout is None else now + timeout
        if self._quiet is None or self._until is None:
            if following > self._patient_until:
                raise NothingWillHappen(f"nothing happens for {PATIENCE:g} s, and the test still waits")
            self._go_to(following)
        elif following <= self._until:
            self._go_to(following)
        else:
            self._go_to(self._until)
            if not self._quiet.done():
                self._quiet.set_result(None)

    def _go_to(self, moment: float) -> None:
        # Rounded up, so that a timer is never found a rounding error before its time.
        step = math.ceil((moment - self.time()) * 1_000_000 - 0.001)
        if step > 0:
            self.clock.advance(step / 1_000_000)

    # --- stopping processes ---

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        handle = _Handle(callback, args, self, context)
        handle.process = process
        self.make_ready(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        handle = _Timer(when, callback, args, self, context)
        handle.process = process
        heapq.heappush(self._scheduled, handle)  # type: ignore[attr-defined]
        handle._scheduled = True  # type: ignore[attr-defined]
        return handle

    def make_ready(self, handle: asyncio.Handle) -> None:
        """Run it in the next round."""
        self._ready.append(handle)  # type: ignore[attr-defined]


class _OfProcess:
    """A callback of a process: while that is stopped, it is kept."""

    __slots__ = ()
    process: Process

    def _run(self) -> None:
        if self.process.is_stopped:
            self.process.kept.append(self)  # type: ignore[arg-type]
        else:
            super()._run()  # type: ignore[misc]


class _Handle(_OfProcess, asyncio.Handle):
    __slots__ = ("process",)


class _Timer(_OfProcess, asyncio.TimerHandle):
    __slots__ = ("process",)


def resume(process: Process) -> None:
    """Let a stopped process go on; what should have happened meanwhile happens now."""
    process.is_stopped = False
    kept, process.kept = process.kept, []
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    for handle in kept:
        loop.make_ready(handle)
