"""Notices of a worker: observers and callers in this process are told how claims begin and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepwell.clock import Instant, Span
from stepwell.model.commits import End, Move, Park
from stepwell.model.runs import Inbox, Run
from stepwell.model.states import RunStatus
from stepwell.model.waits import Wait
from stepwell.worker.observers import Observers, outcome_of, woken_at


class Notices:
    """One for all runs of a worker. Without observers, nothing is told of beginnings."""

    def __init__(
        self, observers: Observers | None, on_over: Callable[[Run], None] | None, now: Callable[[], Instant]
    ) -> None:
        self._observers = observers
        self._on_over = on_over
        self._now = now

    def claimed(self, run: Run, waits: Sequence[Wait], inbox: Inbox) -> None:
        """A run was claimed; if it was parked before, observers hear how long after it could have continued."""
        if self._observers is not None:
            is_fresh = run.epoch == 1
            self._observers.began(run, is_fresh=is_fresh)
            woken = None if is_fresh else woken_at(waits, inbox, self._now())
            if woken is not None:
                self.woken(run, woken)

    def woken(self, run: Run, due: Instant) -> None:
        """A run continues that could have done so since then."""
        if self._observers is not None:
            self._observers.resumed(run, Span(max(0, self._now() - due)))

    def over(self, run: Run, move: Move, *, is_leaving: bool) -> None:
        """A claim ended with this move. Callers that wait for the result need not read what was just written."""
        if self._on_over is not None and (is_leaving or not isinstance(move, Park)):
            if isinstance(move, End) and move.status is RunStatus.COMPLETED:
                self._on_over(run._replace(status=move.status, output=move.output))
            else:
                self._on_over(run)
        if self._observers is not None:
            self._observers.left(run, outcome_of(move))

    def dropped(self, run: Run, *, was_over: bool) -> None:
        """A claim was lost, or its worker ends at once; what was not committed is lost."""
        if self._observers is not None and not was_over:
            self._observers.left(run, "lost")
        if self._on_over is not None:
            self._on_over(run)
