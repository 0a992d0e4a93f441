"""What operators do to runs; each act leaves an audit row."""

from __future__ import annotations

from stepwell.clock import Instant
from stepwell.errors import NotFoundError
from stepwell.ids import RunId
from stepwell.model.amendments import loosened
from stepwell.model.cancels import Cancelled
from stepwell.model.failures import decode_failure
from stepwell.model.locations import Location, format_path
from stepwell.model.outbox import Announce
from stepwell.model.runs import Ranges
from stepwell.model.states import EntryStatus, RunStatus
from stepwell.stores.base.views import Audit
from stepwell.stores.memory.database import RunRow
from stepwell.stores.memory.ends import cancel_family
from stepwell.stores.memory.signals import take_over_held
from stepwell.stores.memory.transaction import Transaction


def cancel(
    tx: Transaction, run_id: RunId, *, compensate: bool, reason: str, by: str, announce: Announce | None
) -> Cancelled:
    """Cancel a run with its attached descendants."""
    row = tx.db.runs.get(run_id)
    if row is None:
        raise NotFoundError("run", run_id)
    before = row.status
    changed = cancel_family(tx, row, compensate=compensate, reason=reason, announce=announce)
    if changed:
        note(tx, row, "cancel", by, before, reason)
    return Cancelled(bool(changed), tuple(one.run_id for one in changed))


def resume(tx: Transaction, run_id: RunId, by: str, *, even_if_held: bool) -> bool:
    """Let a paused run go on, or one that is to be given up stay."""
    row = tx.db.runs.get(run_id)
    if row is None or (row.hold is not None and not even_if_held):
        return False
    before = row.status
    if before is RunStatus.RUNNING and row.hold is not None:
        tx.change(row, hold=None)
    elif before is not RunStatus.PAUSED:
        return False
    elif row.cause is None:
        # A planned one must not begin before it was quiet for long enough: how long that is, is not known any more.
        wake_at = max(tx.now, row.debounced_until or tx.now)
        tx.change(row, status=RunStatus.PENDING, wake_at=wake_at, stalls=0, failure=None, hold=None)
    else:
        tx.change(row, status=RunStatus.COMPENSATING, wake_at=tx.now, stalls=0, hold=None)
    note(tx, row, "resume", by, before)
    return True


def resume_rollback(tx: Transaction, run_id: RunId, by: str) -> bool:
    """Let a rollback that got stuck go on."""
    row = _find(tx, run_id, RunStatus.COMPENSATION_FAILED)
    if row is None:
        return False
    tx.change(row, status=RunStatus.COMPENSATING, wake_at=tx.now, retried_at=after_attempts(tx, row))
    note(tx, row, "resume_rollback", by, RunStatus.COMPENSATION_FAILED)
    return True


def retry(tx: Transaction, run_id: RunId, by: str) -> bool:
    """Let a failed run try again what failed."""
    row = _find(tx, run_id, RunStatus.FAILED)
    if row is None or (row.key is not None and row.key in tx.db.active_keys):
        return False
    failed_at, loose = _forget_failed_entries(tx, row)
    tx.change(
        row,
        loose=loose,
        status=RunStatus.PENDING,
        ended_at=None,
        failure=None,
        cause=None,
        undo_floor=0,
        retried_at=after_attempts(tx, row),
        wake_at=tx.now,
        stalls=0,
        deadline_at=None if row.deadline_at is None or row.deadline_at <= tx.now else row.deadline_at,
    )
    if row.key is not None:
        take_over_held(tx, row.key, row.run_id)
    note(tx, row, "retry", by, RunStatus.FAILED)
    for child in tuple(tx.db.children[run_id].values()):
        if child.parent is not None and child.parent.location in failed_at:
            retry(tx, child.run_id, by)
    return True


def after_attempts(tx: Transaction, row: RunRow) -> Instant:
    """Now, or the time of its last attempt if the clock was set back: none that was made counts any more."""
    return max([tx.now, *(attempt.at for attempt in tx.db.attempts[row.run_id].values())])


def _find(tx: Transaction, run_id: RunId, status: RunStatus) -> RunRow | None:
    row = tx.db.runs.get(run_id)
    return row if row is not None and row.status is status else None


def _forget_failed_entries(tx: Transaction, row: RunRow) -> tuple[list[Location], Ranges]:
    """Delete the failed entries that made the run fail; where they stood, and what the code may leave out now."""
    if row.failure is None:
        return [], row.loose
    failure, entries = decode_failure(row.failure), tx.db.entries[row.run_id]
    failed = [at for at, entry in entries.items() if entry.status is EntryStatus.FAILED]
    concerned = [at for at in failed if failure.concerns(format_path(at, row.names))]
    taken = [entries[at].seq for at in concerned]
    tx.drop_all(entries, concerned)
    return concerned, loosened(row.loose, taken, [entry.seq for entry in entries.values()])


def note(tx: Transaction, row: RunRow, verb: str, by: str, before: RunStatus, reason: str = "") -> None:
    """Leave an audit row."""
    act = Audit(tx.now, row.run_id, verb, by, before.value, row.status.value, reason)
    tx.put(tx.db.audit, row.run_id, (*tx.db.audit.get(row.run_id, ()), act))
