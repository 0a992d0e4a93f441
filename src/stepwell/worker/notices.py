"""Notices of a worker: its log, observers and callers in this process learn how claims begin and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepwell.clock import Instant, Span
from stepwell.codec.base import Codec
from stepwell.codec.carried import decode_headers
from stepwell.errors import StepwellError
from stepwell.model.commits import End, Move, Park
from stepwell.model.runs import Inbox, Run
from stepwell.model.states import RunStatus
from stepwell.model.tags import TRACE_TAG
from stepwell.model.waits import Wait
from stepwell.worker.observers import Observers, outcome_of, woken_at
from stepwell.worker.run_logs import RunLog


class Notices:
    """One for all runs of a worker. Unless `wants_claims`, `claimed` need not be called."""

    def __init__(
        self,
        observers: Observers | None,
        run_log: RunLog | None,
        on_over: Callable[[Run], None] | None,
        now: Callable[[], Instant],
        codec: Codec,
    ) -> None:
        self._observers = observers
        self._run_log = run_log
        self._on_over = on_over
        self._now = now
        self._codec = codec
        self.wants_claims = observers is not None or run_log is not None

    def claimed(self, run: Run, waits: Sequence[Wait], inbox: Inbox) -> None:
        """A run was claimed. Observers of a run that waited learn how long ago it could have continued."""
        is_fresh = run.epoch == 1
        if self._run_log is not None and is_fresh:
            self._run_log.started(run)
        if self._observers is not None:
            self._observers.began(self._traced(run), is_fresh=is_fresh)
            woken = None if is_fresh else woken_at(waits, inbox, self._now())
            if woken is not None:
                self.woken(run, woken)

    def _traced(self, run: Run) -> Run:
        """The run, with the context of its trace as a tag: observers read tags, which need no codec."""
        if run.headers is None or any(name == TRACE_TAG for name, _ in run.tags):
            return run
        try:
            headers = decode_headers(self._codec, run.headers, workflow=run.workflow, run_id=run.run_id)
        except StepwellError:
            return run  # its code will report it
        trace = headers.get(TRACE_TAG)
        return run if trace is None else run._replace(tags=(*run.tags, (TRACE_TAG, trace)))

    def woken(self, run: Run, due: Instant) -> None:
        """A run continues now, and could have done so since `due`."""
        if self._observers is not None:
            self._observers.resumed(run, Span(max(0, self._now() - due)))

    def over(self, run: Run, move: Move, *, is_leaving: bool, is_held: bool) -> None:
        """A claim ended with this move; `is_held`: a person has paused the run. Callers that wait for the result get
        it from here, without a read of the store.
        """
        if self._on_over is not None and (is_leaving or not isinstance(move, Park)):
            if isinstance(move, End) and move.status is RunStatus.COMPLETED:
                self._on_over(run._replace(status=move.status, output=move.output))
            else:
                self._on_over(run)
        if self._run_log is not None:
            self._run_log.over(run, move, is_held=is_held)
        if self._observers is not None:
            self._observers.left(run, outcome_of(move))

    def dropped(self, run: Run, *, was_over: bool) -> None:
        """A claim was lost, or its worker ends at once. Uncommitted work is lost."""
        if self._observers is not None and not was_over:
            self._observers.left(run, "lost")
        if self._on_over is not None:
            self._on_over(run)
