"""Observers hear what a worker does while it does it: metrics, traces. They cannot change what a run does."""

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
    """Told of what happens when it happens, on the worker's own thread: whatever it does takes the worker's time.

    An exception of an observer is logged, and the run goes on.
    """

    def starting(self, new: NewRun) -> NewRun:
        """This process is about to create a run. Returns it with the tags that it is stored with; no other change
        counts.
        """
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
    """Several observers as one. What one of them raises is logged, and hurts nobody.

    A body is told of twice, and there are thousands of them a second: whatever is left out here is felt.
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
            except BaseException as error:  # noqa: BLE001  looking on must not change what is looked at
                _log(each, error)
        return new

    def began(self, run: Run, *, is_fresh: bool) -> None:
        self._tell(lambda each: each.began(run, is_fresh=is_fresh))

    def resumed(self, run: Run, late: Span) -> None:
        self._tell(lambda each: each.resumed(run, late))

    async def watch(self, body: Body, attempt: Coroutine[Any, Any, Attempted | None]) -> Attempted | None:
        """Run one attempt, and tell of its beginning and its end."""
        doing = RUNNING_BODY.set(body)  # also for what is logged of an observer that fails
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
        """One attempt gave this, or was cancelled and gave nothing."""
        outcome = "cancelled" if attempted is None else _OUTCOMES[type(attempted)]
        raised = attempted.error if outcome == "failed" and isinstance(attempted, Raised) else None
        # The last one first: what each has set up for the body is taken down in the other direction.
        for each in self._backwards:
            try:
                each.body_ended(body, marks.pop(), outcome, raised)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  as above
                _log(each, error)

    def left(self, run: Run, outcome: str) -> None:
        self._tell(lambda each: each.left(run, outcome))

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        self._tell(lambda each: each.wrote(commits, seconds))

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for each in self._observers:
            try:
                tell(each)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  as above
                _log(each, error)


def _log(observer: Observer, error: BaseException) -> None:
    _LOG.error("observer %s failed", type(observer).__name__, exc_info=error)


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
