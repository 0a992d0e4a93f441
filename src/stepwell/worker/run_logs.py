"""What a worker logs about its runs (level info) and their steps (level debug).

Each record has `run`, `key`, `workflow`, `path`, `attempt` and `outcome` as fields. A worker looks up once, when it is
made, whether the level is on: where it is off, nothing is called. A replay executes nothing, so it logs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from stepwell.clock import Span
from stepwell.errors import ChildFailed
from stepwell.errors.records import FailureRecord
from stepwell.ids import RunId
from stepwell.logs import OUTCOME
from stepwell.model.commits import BeginRollback, Commit, End, Move, Park, Pause, Release
from stepwell.model.failures import decode_failure, record_failure
from stepwell.model.runs import NewRun, Run
from stepwell.model.states import RunStatus
from stepwell.printable import escape
from stepwell.redaction import redact
from stepwell.replay.bodies import Body
from stepwell.stores.base.damage import UNREADABLE

_RUNS: Final = logging.getLogger("stepwell.worker")
_STEPS: Final = logging.getLogger("stepwell.step")

CAUSE_MAX: Final = 300  # characters of a cause


def fields_of(run: Run, *, path: str | None = None, outcome: str | None = None) -> dict[str, Any]:
    """The fields of a record about a run, for `extra`."""
    # All of them: a missing one would be filled in with that of the body in whose task the record is written.
    return {
        "run": run.run_id,
        "key": None if run.key is None else redact(run.key),
        "workflow": run.workflow,
        "path": path or None,
        "attempt": None,
        OUTCOME: outcome,
    }


def fields_of_id(run_id: RunId) -> dict[str, Any]:
    """The same, where only the id of the run is known."""
    return {"run": run_id, "key": None, "workflow": None, "path": None, "attempt": None, OUTCOME: None}


class RunLog:
    """Logs how runs start and how they end."""

    def started(self, run: Run) -> None:
        """A run is executed for the first time."""
        self._log(run, "started", outcome="started")

    def over(self, run: Run, move: Move, *, is_held: bool) -> None:
        """A claim ended with this move. A run that only waits, or that another worker continues, is not logged."""
        match move:
            case End():
                self._ended(run, move)
            case Pause():
                self._paused(run, move.failure)
            case Park() | Release():
                if is_held:
                    self._paused(run, None)
            case BeginRollback():
                pass  # the claim continues
            case _:
                assert_never(move)

    def rescued(self, run: Run) -> None:
        """A run was taken from a dead worker. It is logged if that paused it."""
        if run.status is RunStatus.PAUSED:
            self._paused(run, run.failure)

    def _paused(self, run: Run, failure: bytes | None) -> None:
        path, cause = _cause_of(failure)
        words = "is paused by a person" if failure is None else f"is paused{_at(path)}: {cause}"
        self._log(run, words, outcome=RunStatus.PAUSED.value, path=path)

    def _ended(self, run: Run, end: End) -> None:
        path, cause = _cause_of(end.failure)
        failed = f"failed{_at(path)}: {cause}"
        match end.status:
            case RunStatus.FAILED:
                words = failed
            case RunStatus.COMPENSATED:
                words = f"{failed}; it was compensated"
            case RunStatus.COMPENSATION_FAILED:
                words = f"has an incomplete rollback: an undo {failed}"
            case RunStatus.CANCELLED:
                words = "was cancelled" if run.cause is None else "was cancelled and rolled back"
            case RunStatus.CONTINUED if end.successor is not None and end.failure is not None:
                words = f"{failed}; its next attempt is run {end.successor.run_id}"
            case RunStatus.CONTINUED if end.successor is not None:
                words = f"continues as run {end.successor.run_id}"
            case _:
                words = end.status.value
        self._log(run, words, outcome=end.status.value, path=path)

    def _log(self, run: Run, words: str, *, outcome: str, path: str = "") -> None:
        extra = fields_of(run, path=path, outcome=outcome)
        _RUNS.info("%s %s %s", run.workflow, _inline(run.key or run.run_id), words, extra=extra)


class StepLog:
    """Logs the attempts at steps. An observer, so a worker whose level is above debug does not have it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic

    def starting(self, new: NewRun) -> NewRun:
        """A run is about to be created."""
        return new

    def began(self, run: Run, *, is_fresh: bool) -> None:
        """A run is executed: `RunLog` logs it."""

    def resumed(self, run: Run, late: Span) -> None:
        """The code of a run continues."""

    def body(self, body: Body) -> float:
        """An attempt begins; gives the time."""
        self._log(body, "started", outcome="started")
        return self._monotonic()

    def body_ended(self, body: Body, mark: float | None, outcome: str, error: BaseException | None) -> None:
        """An attempt ended."""
        took = "" if mark is None else f" after {self._monotonic() - mark:.3f} s"
        cause = "" if error is None else f": {_one_line(record_failure(error).summary)}"
        self._log(body, f"{outcome.replace('_', ' ')}{took}{cause}", outcome=outcome)

    def left(self, run: Run, outcome: str) -> None:
        """A run is executed no longer: `RunLog` logs it."""

    def wrote(self, commits: Sequence[Commit], seconds: float) -> None:
        """A batch was written."""

    def _log(self, body: Body, words: str, *, outcome: str) -> None:
        run, path = body.run, body.names.text(body.location)
        extra = {**fields_of(run, path=path, outcome=outcome), "attempt": body.attempt}
        step = _inline(path) if body.attempt == 1 else f"{_inline(path)} (attempt {body.attempt})"
        _STEPS.debug("%s %s: step %s %s", run.workflow, _inline(run.key or run.run_id), step, words, extra=extra)


def find_run_log() -> RunLog | None:
    """The log of runs; None if its level is off."""
    return RunLog() if _RUNS.isEnabledFor(logging.INFO) else None


def find_step_log(monotonic: Callable[[], float]) -> StepLog | None:
    """The log of steps; None if its level is off."""
    return StepLog(monotonic) if _STEPS.isEnabledFor(logging.DEBUG) else None


def _cause_of(stored: bytes | None) -> tuple[str, str]:
    """Where and why a run failed: the path of the first cause, and that cause in one line."""
    if stored is None:
        return "", "no cause is recorded"
    try:
        failure = decode_failure(stored)
    except UNREADABLE:
        return "", "the recorded cause cannot be read"
    path, is_child = failure.path, False
    while (nested := _first_of(failure)) is not None:
        # The paths inside a child are those of another run.
        is_child |= failure.code == ChildFailed.code
        failure = nested
        path = path if is_child else failure.path or path
    return path, _one_line(failure.summary)


def _first_of(failure: FailureRecord) -> FailureRecord | None:
    # Under "run", a failed undo keeps what the run itself failed with: that did not cause it.
    return next((cause for name, cause in failure.causes.items() if name != "run"), None)


def _at(path: str) -> str:
    return f" at {_inline(path)}" if path else ""


def _inline(text: str) -> str:
    """Text that a handler without an escaping formatter can write, too."""
    return escape(text).replace("\n", "\\n").replace("\t", "\\t")


def _one_line(text: str) -> str:
    line = escape(" ".join(redact(text).split()))
    return line if len(line) <= CAUSE_MAX else f"{line[: CAUSE_MAX - 1]}…"
