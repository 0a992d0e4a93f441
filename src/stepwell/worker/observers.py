"""Observers are notified of what a worker does: metrics, traces, logs. They cannot change what a run does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from stepwell.clock import Instant, Span
from stepwell.logs import RUNNING_BODY
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
    """Called when something happens, on the worker's own thread: an observer takes the worker's time.

    An exception of an observer is logged, and the run continues.
    """

    def starting(self, new: NewRun) -> NewRun:
        """This process is about to create a run. Returns it with the tags to store; other changes are ignored."""
        ...

    def began(self, run: Run, *, is_fresh: bool) -> None:
        """A claimed run is executed from now on. `is_fresh`: for the first time."""
        ...

    def resumed(self, run: Run, late: Span) -> None:
        """The code of a run continues, this long after what it waited for."""
        ...

    def body(self, body: Body) -> Any:
        """An attempt at a step begins. The return value is passed to `body_ended`. A replayed step has no attempt."""
        ...

    def body_ended(self, body: Body, mark: Any, outcome: str, error: BaseException | None) -> None:
        """An attempt ended: succeeded, failed, timed_out, yielded or cancelled."""
        ...

    def left(self, run: Run, outcome: str) -> None:
        """A run is no longer executed here. `outcome`: its final status, or waiting, paused, released or lost."""
        ...

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        """A batch of commits was written in this time."""
        ...


class Observers:
    """Several observers as one. An exception of an observer is logged and affects no run.

    Each body causes two calls, thousands of times a second, so these methods do as little as possible.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._backwards = tuple(reversed(self._observers))

    def starting(self, new: NewRun) -> NewRun:
        for each in self._observers:
            try:
                new = new._replace(tags=each.starting(new).tags)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  an observer must not affect runs
                _log(each, error)
        return new

    def began(self, run: Run, *, is_fresh: bool) -> None:
        self._notify(lambda each: each.began(run, is_fresh=is_fresh))

    def resumed(self, run: Run, late: Span) -> None:
        self._notify(lambda each: each.resumed(run, late))

    async def watch(self, body: Body, attempt: Coroutine[Any, Any, Attempted | None]) -> Attempted | None:
        """Run one attempt, and notify of its beginning and its end."""
        doing = RUNNING_BODY.set(body)  # also for the log record of a failing observer
        marks, came = self.body(body), None
        try:
            came = await attempt
            return came
        finally:
            self.body_ended(body, marks, came)
            RUNNING_BODY.reset(doing)

    def body(self, body: Body) -> list[Any]:
        marks: list[Any] = []
        for each in self._observers:
            try:
                marks.append(each.body(body))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  as above
                marks.append(None)
                _log(each, error)
        return marks

    def body_ended(self, body: Body, marks: list[Any], attempted: Attempted | None) -> None:
        """An attempt ended with this result; None if it was cancelled."""
        outcome = "cancelled" if attempted is None else _OUTCOMES[type(attempted)]
        raised = attempted.error if outcome == "failed" and isinstance(attempted, Raised) else None
        # In reverse order: each observer takes down what it has set up for the body.
        for each in self._backwards:
            try:
                each.body_ended(body, marks.pop(), outcome, raised)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  as above
                _log(each, error)

    def left(self, run: Run, outcome: str) -> None:
        self._notify(lambda each: each.left(run, outcome))

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        self._notify(lambda each: each.wrote(commits, seconds))

    def _notify(self, call: Callable[[Observer], None]) -> None:
        for each in self._observers:
            try:
                call(each)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  as above
                _log(each, error)


def _log(observer: Observer, error: BaseException) -> None:
    _LOG.error("observer %s failed", type(observer).__name__, exc_info=error)


def outcome_of(move: Move | None) -> str:
    """How the execution of a run ended, by the move of its last commit."""
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
    """When the latest thing happened that a waiting run may have waited for; None if nothing is known."""
    times = [wait.due_at for wait in waits if wait.due_at is not None and wait.due_at <= now]
    times += [signal.sent_at for signal in inbox.signals]
    times += [event.published_at for event in inbox.events]
    return max(times, default=None)
