"""What a deadline does to a run: one decision, for every store."""

from __future__ import annotations

from stepwell.clock import Instant, to_datetime
from stepwell.errors import DeadlineExceeded, WaitedTooLong
from stepwell.errors.records import FailureRecord
from stepwell.model.failures import record_failure
from stepwell.model.records import awaited_record
from stepwell.model.states import WaitKind
from stepwell.model.waits import Wait


def deadline_exceeded(deadline_at: Instant, path: str) -> FailureRecord:
    """The failure of a run that had not ended at its deadline; `path` is where it was waiting, if it was."""
    waiting = f", and it was waiting at {path}" if path else ""
    error = DeadlineExceeded(
        "the run had not ended at its deadline",
        where=path,
        why=f"that was {to_datetime(deadline_at).isoformat(timespec='milliseconds')}{waiting}",
        fix="start it with a later deadline, or retry it: a retried run has no deadline",
    )
    return record_failure(error)


def waited_too_long(wait: Wait, path: str) -> FailureRecord:
    """The failure of a run that waited at one place for longer than its `max_suspend`."""
    what = wait.kind.value
    record_id = awaited_record(wait.names)
    if record_id is not None:
        what = f"record {record_id}"
    elif wait.kind is WaitKind.SIGNAL and wait.names:
        what = f"signal {' or '.join(wait.names)}"
    error = WaitedTooLong(
        f"the wait for {what} at {path} took longer than the run's max_suspend",
        where=path,
        why="nothing arrived there in time",
        fix="send it earlier, start the run with a longer max_suspend, or give this wait a timeout of its own",
    )
    return record_failure(error)
