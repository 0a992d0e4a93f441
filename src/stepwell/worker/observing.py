"""Who hears what a worker does while it does it: metrics, traces. Nothing here can change a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from stepwell.clock import Instant, Span
from stepwell.model.commits import Commit, End, Move, Park, Pause
from stepwell.model.runs import Inbox, NewRun, Run
from stepwell.model.states import RunStatus
from stepwell.model.waits import Wait
from stepwell.replay.bodies import Attempted, Body, Raised, Recorded, Succeeded, TimedOut, Yielded

_LOG = logging.getLogger("stepwell.worker")

_OUTCOMES: dict[type, str] = {
    Succeeded: "succeeded",
    Recorded: "succeeded",
    Raised: "failed",
    TimedOut: "timed_out",
    Yielded: "yielded",
}


class Observer(Protocol):
    """Told of what happens, at once and on the worker's own thread: whatever it does takes the worker's time."""

    def starting(self, new: NewRun) -> NewRun:
        """A run is about to be created by this process; gives it as it is to be stored, with tags of its own."""
        ...

    def began(self, run: Run, *, is_fresh: bool) -> None:
        """A claimed run is executed from now on; a fresh one has never been before."""
        ...

    def resumed(self, run: Run, late: Span) -> None:
        """What a run waited for happened so long ago, and its code goes on now."""
        ...

    def body(self, body: Body) -> Any:
        """One attempt at a step begins; what is returned is given back when it ends. A replayed step has none."""
        ...

    def body_ended(self, body: Body, mark: Any, outcome: str, error: BaseException | None) -> None:
        """It ended: succeeded, failed, timed_out, yielded or cancelled."""
        ...

    def left(self, run: Run, outcome: str) -> None:
        """It is executed no longer: its final status, or waiting, paused, released or lost."""
        ...

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        """These were written together, in this time."""
        ...


class Observers:
    """Several observers as one. What one of them raises is logged, and hurts nobody."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def starting(self, new: NewRun) -> NewRun:
        for each in self._observers:
            with _harmless(each):
                new = each.starting(new)
        return new

    def began(self, run: Run, *, is_fresh: bool) -> None:
        self._tell(lambda each: each.began(run, is_fresh=is_fresh))

    def resumed(self, run: Run, late: Span) -> None:
        self._tell(lambda each: each.resumed(run, late))

    def body(self, body: Body) -> list[Any]:
        marks: list[Any] = []
        for each in self._observers:
            mark = None
            with _harmless(each):
                mark = each.body(body)
            marks.append(mark)
        return marks

    def body_ended(self, body: Body, marks: list[Any], attempted: Attempted | None) -> None:
        """One attempt gave this, or was cancelled and gave nothing."""
        outcome = "cancelled" if attempted is None else _OUTCOMES[type(attempted)]
        error = attempted.error if isinstance(attempted, Raised) else None
        # The last one first: what each has set up for the body is taken down in the other direction.
        for each, mark in zip(reversed(self._observers), reversed(marks), strict=True):
            with _harmless(each):
                each.body_ended(body, mark, outcome, error)

    def left(self, run: Run, outcome: str) -> None:
        self._tell(lambda each: each.left(run, outcome))

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        self._tell(lambda each: each.wrote(commits, seconds))

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for each in self._observers:
            with _harmless(each):
                tell(each)


class _harmless:  # noqa: N801  used as a verb, and twice for every body: a generator would cost more than what it guards
    """Logs what an observer raises: looking on must not change what is looked at."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def __enter__(self) -> None:
        """Nothing is set up."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        _LOG.error("observer %s failed", type(self._observer).__name__, exc_info=error)
        return True


def outcome_of(move: Move | None) -> str:
    """How a stretch of a run ended, by the move of its last commit."""
    match move:
        case End():
            return move.status.value
        case Park():
            return RunStatus.WAITING.value
        case Pause():
            return RunStatus.PAUSED.value
        case _:
            return "released"


def woken_at(waits: Sequence[Wait], inbox: Inbox, now: Instant) -> Instant | None:
    """When the latest thing happened that a parked run may have waited for; None if none is known."""
    times = [wait.due_at for wait in waits if wait.due_at is not None and wait.due_at <= now]
    times += [signal.sent_at for signal in inbox.signals]
    times += [event.published_at for event in inbox.events]
    return max(times, default=None)
