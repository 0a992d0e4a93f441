"""What a deadline does to a run: one decision, for every store."""

from __future__ import annotations

from stepwell.clock import Instant, to_datetime
from stepwell.errors import DeadlineExceeded, WaitedTooLong
from stepwell.errors.records import FailureRecord
from stepwell.model.failures import record_failure
from stepwell.model.states import WaitKind
from stepwell.model.waits import Wait


def deadline_exceeded(deadline_at: Instant, path: str) -> FailureRecord:
    """The failure of a run that had not ended in time; `path` is where it was waiting, if it was."""
    waiting = f", and it was waiting at {path}" if path else ""
    error = DeadlineExceeded(
        "the run had not ended at its deadline",
        where=path,
        why=f"that was {to_datetime(deadline_at).isoformat(timespec='milliseconds')}{waiting}",
        fix="start it with a later deadline; a retry goes on without one",
    )
    return record_failure(error)


def waited_too_long(wait: Wait, path: str) -> FailureRecord:
    """The failure of a run that waited longer at one place than it may."""
    what = wait.kind.value
    if wait.kind is WaitKind.SIGNAL and wait.names:
        what = f"signal {' or '.join(wait.names)}"
    error = WaitedTooLong(
        f"the wait for {what} at {path} took longer than the run's max_suspend",
        where=path,
        why="nothing that it waits for came in time",
        fix="send it what it waits for, start it with a longer max_suspend, or give the wait a timeout of its own",
    )
    return record_failure(error)
