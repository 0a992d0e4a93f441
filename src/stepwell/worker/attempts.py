"""Running attempts, as their bodies see them: the state that a long step keeps, and when it should yield."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import CancelledError as Abandoned
from concurrent.futures import Future as Answer
from typing import Any, Protocol

from stepwell.clock import Instant
from stepwell.codec.base import Codec, Place, Row
from stepwell.environment import Environment
from stepwell.errors import InvalidOptionError
from stepwell.model.entries import Progress
from stepwell.replay.bodies import Attempted, Body, Succeeded, TimedOut, Yielded
from stepwell.replay.budgets import Spending
from stepwell.replay.step_context import outside_step
from stepwell.worker.lease import Lease

WRITE_EVERY = 1.0  # seconds, for state that need not be durable at once


class AttemptHost(Protocol):
    """What an attempt needs from its worker."""

    environment: Environment
    lease: Lease
    codec: Codec

    def now(self) -> Instant: ...


class ProgressSink(Protocol):
    """What an attempt needs from its execution."""

    @property
    def is_leaving(self) -> bool: ...
    @property
    def is_cancelling(self) -> bool: ...
    def keep(self, progress: Progress) -> None: ...
    def keep_durably(self, progress: Progress) -> asyncio.Future[None]: ...


class AttemptLink:
    """One attempt while it runs. Its body may call it from any thread; everything else runs on the loop's thread."""

    def __init__(self, sink: ProgressSink, body: Body, host: AttemptHost) -> None:
        self._sink = sink
        self._body = body
        self._host = host
        self._codec = host.codec
        self._clock = clock = host.environment.clock
        self._loop = asyncio.get_running_loop()
        self._began = clock.monotonic()
        self._spending = None if body.budget is None else Spending(body.budget)
        known = body.progress or Progress(body.location, Instant(0))
        self._state = known.state
        self._figures = (known.done, known.total, known.unit, known.note)
        self._turns = known.turns
        self._is_dirty = False  # the execution has not got the latest state
        self._is_planned = False  # a write is scheduled
        self._written = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_over = self._is_abandoned = False

    # --- for the body, from any thread ---

    @property
    def is_cancelled(self) -> bool:
        """Whether its result is no longer wanted."""
        body = self._body
        return self._is_over or body.is_unwanted or body.is_stopping or self._sink.is_cancelling

    def read(self, hint: Any) -> Any:
        """The latest state."""
        state = self._state
        return None if state is None else self._codec.decode(state, hint, place=self._place)

    def keep(self, state: Any, *, is_last: bool = False) -> None:
        """Keep a state. It is written soon, or at the end of this turn."""
        self.check("yield_" if is_last else "heartbeat")
        if not is_last and self.is_cancelled:
            raise asyncio.CancelledError
        if is_last and not self._body.may_yield:
            raise InvalidOptionError(
                f"step {self._path} runs at most once, but called `yield_`",
                where=self._path,
                why="to continue later, its body would have to run again",
                fix="remove at_most_once from the step, or do not call yield_",
            )
        if state is not None or is_last:
            self._state = self._encode(state)
            self._note(is_urgent=not is_last)

    def keep_durably(self, state: Any) -> Awaitable[None]:
        """Write a state at once. Await the result on the loop's thread; in another, it is durable when this returns."""
        self.check("checkpoint")
        self._state = self._encode(state)
        if self._is_here():
            return self._write_durably()
        answer: Answer[None] = Answer()
        self._loop.call_soon_threadsafe(self._write_for, answer)
        try:
            self._host.environment.executor.answers.wait(answer)
        except Abandoned:
            raise asyncio.CancelledError from None
        return _Done()

    def report(self, done: int, total: int | None, unit: str, note: str) -> None:
        """Report progress for people."""
        self.check("progress")
        figures: tuple[tuple[str, Any], ...] = (("done", done), ("total", 0 if total is None else total))
        for name, figure in figures:
            if not isinstance(figure, int) or isinstance(figure, bool) or not 0 <= figure < 1 << 63:
                raise InvalidOptionError(
                    f"progress: {name} is {figure!r}",
                    where=self._path,
                    why="it must be a count from 0",
                    fix="pass whole numbers, such as rows or percent",
                )
        self._figures = (done, total, unit, note)
        self._note()

    def count(self, *, rows: int, bytes: int) -> None:
        """Spend some of the budget."""
        self.check("count")
        if self._spending is not None:
            self._spending.count(rows=rows, bytes=bytes)

    def should_yield(self) -> bool:
        """Whether the body should yield to other runs, or stop."""
        self.check("should_yield")
        sink = self._sink
        if self.is_cancelled or sink.is_leaving or not self._host.lease.is_live():
            return True
        spending = self._spending
        return spending is not None and spending.is_nearly_used(self._clock.monotonic() - self._began)

    def check(self, verb: str) -> None:
        """Raise `OutsideStepError` after the attempt has ended, and `CancelledError` after it was abandoned."""
        if self._is_abandoned:
            raise asyncio.CancelledError
        if self._is_over:
            raise outside_step(verb, self._path)

    def _encode(self, state: Any) -> bytes:
        return self._codec.encode(state, place=self._place)

    def _place(self) -> Place:
        run, path = self._body.run, self._path
        return Place(run.workflow, path, "the state", row=Row(run.run_id, path, "progress"))

    @property
    def _path(self) -> str:
        return self._body.names.text(self._body.location)

    def _is_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    # --- on the loop's thread ---

    def close(self, attempted: Attempted | None) -> Progress | None:
        """The body has ended or was abandoned; returns the progress that is still to be written."""
        self._is_over = True
        # An abandoned thread continues to run; its next call here raises.
        self._is_abandoned = attempted is None or isinstance(attempted, TimedOut)
        if self._timer is not None:
            self._timer.cancel()
        for future in self._waiting:
            future.cancel()
        if self._body.is_unwanted:
            return None  # the progress of its path is deleted already, and must stay so
        if isinstance(attempted, Yielded):
            self._turns += 1
            return self._progress()
        return self._progress() if self._is_dirty and not isinstance(attempted, Succeeded) else None

    def _note(self, *, is_urgent: bool = True) -> None:
        self._is_dirty = True
        if self._is_planned or not is_urgent:
            return
        self._is_planned = True
        if self._is_here():
            self._plan()
        else:
            self._loop.call_soon_threadsafe(self._plan)

    def _plan(self) -> None:
        wait = self._written + WRITE_EVERY - self._clock.monotonic()
        if self._is_over:
            return
        if wait > 0:
            self._timer = self._loop.call_later(wait, self._write)
        else:
            self._write()

    def _write(self) -> None:
        self._is_planned = False
        if self._is_dirty and not self._is_over and not self._body.is_unwanted:
            self._sink.keep(self._take())

    def _write_durably(self) -> asyncio.Future[None]:
        if self._body.is_unwanted:
            unkept: asyncio.Future[None] = self._loop.create_future()
            unkept.cancel()
            return unkept
        future = self._sink.keep_durably(self._take())
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def _write_for(self, answer: Answer[None]) -> None:
        """Write for a thread that waits for the answer."""
        if self._is_over:
            answer.cancel()
            return
        self._write_durably().add_done_callback(_pass_on_to(answer))

    def _take(self) -> Progress:
        self._is_dirty = False
        self._written = self._clock.monotonic()
        return self._progress()

    def _progress(self) -> Progress:
        return Progress(self._body.location, self._host.now(), self._state, *self._figures, self._turns)


class _Done:
    """The awaitable for a thread, which has waited already."""

    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


def _pass_on_to(answer: Answer[None]) -> Callable[[asyncio.Future[None]], None]:
    def pass_on(future: asyncio.Future[None]) -> None:
        if future.cancelled():
            answer.cancel()
        else:
            answer.set_result(None)

    return pass_on
