"""Retry policy and pure back-off arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepwell.clock import SPAN_MAX, Duration, Span, span
from stepwell.errors import Failure, Fatal, InvalidOptionError, RetryAfter, Rollback


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a step is tried in total, and how long to wait in between.

    `Retry(max_attempts=5, initial="1s")` tries at most five times, 1, 2, 4 and 8 seconds apart. `jitter` lengthens each
    wait by up to that share (0.1 is a tenth), and never shortens it. `max_delay` caps the growing delay. By default
    every exception is retried; with `retry_on`, only these types. Never retried are the types in `give_up_on`, and
    `Fatal`, `Failure` and `Rollback`. An attempt that reached its timeout is retried only with `on_timeout=True`.

    `max_attempts=None` retries without a limit, until the step succeeds, the run is cancelled or its deadline passes;
    of its failed attempts the last 100 are kept.
    """

    max_attempts: int | None = 3
    initial: Duration = "100ms"
    factor: float = 2.0
    max_delay: Duration = "30s"
    jitter: float = 0.1
    retry_on: tuple[type[Exception], ...] | Callable[[Exception], bool] | None = None
    give_up_on: tuple[type[Exception], ...] = ()
    delay: Callable[[int, Exception], Duration] | None = None
    on_timeout: bool = False

    def __post_init__(self) -> None:
        given: Any = self.max_attempts
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise InvalidOptionError(
                f"max_attempts is {given!r:.60}",
                why="it counts all attempts, the first included",
                fix="Retry(max_attempts=5), or Retry(max_attempts=None) for no limit",
            )
        if self.factor < 1 or self.jitter < 0:
            raise InvalidOptionError("factor must be at least 1 and jitter at least 0")
        span(self.initial, what="initial")
        span(self.max_delay, what="max_delay")

    def is_last(self, attempt: int) -> bool:
        """Whether there is no attempt after this one; the first is 1."""
        return self.max_attempts is not None and attempt >= self.max_attempts

    def may_retry(self, error: Exception | GeneratorExit) -> bool:
        """Whether the policy allows another attempt after an error of this type."""
        if isinstance(error, (Fatal, Failure, Rollback)):
            return False
        if isinstance(error, RetryAfter):
            return True
        if self.give_up_on and _is_one_of(error, self.give_up_on):
            return False
        if self.retry_on is None:
            return True
        if isinstance(self.retry_on, tuple):
            return _is_one_of(error, self.retry_on)
        return isinstance(error, Exception) and self.retry_on(error)

    def wait_after(self, attempt: int, error: Exception | GeneratorExit, chance: float) -> Span:
        """How long to wait after failed attempt number `attempt`; `chance` in [0, 1) spreads the jitter."""
        if isinstance(error, RetryAfter):
            return span(error.delay, what="RetryAfter")
        if self.delay is not None and isinstance(error, Exception):
            return span(self.delay(attempt, error), what="delay")
        first = span(self.initial)
        # `initial` may be longer than `max_delay`: then it is the delay.
        base = min(max(first, span(self.max_delay)), first * _grown(self.factor, min(attempt - 1, 64)))
        return Span(round(min(base * (1 + self.jitter * chance), SPAN_MAX)))


def _grown(factor: float, times: int) -> float:
    try:
        return factor**times
    except OverflowError:
        return float("inf")


def _is_one_of(error: BaseException, kinds: tuple[type[Exception], ...]) -> bool:
    """Whether an error is of one of these types. A class that a notebook or a reload has defined again is recognised by
    its module and name.
    """
    if isinstance(error, kinds):
        return True
    names = {(kind.__module__, kind.__qualname__) for kind in kinds}
    return any((kind.__module__, kind.__qualname__) in names for kind in type(error).__mro__)


DEFAULT_RETRY = Retry()
ONCE_ONLY = Retry(max_attempts=1)
