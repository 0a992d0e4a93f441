"""Repairs of runs, and runs that begin with the record of another."""

from __future__ import annotations

from stepwell.errors import NotFoundError
from stepwell.ids import RunId
from stepwell.model.amendments import AMENDABLE, REWOUND, Amended, Amendment, Dropped, Fork
from stepwell.model.outbox import Announce
from stepwell.model.runs import Created
from stepwell.model.states import ACTIVE, RunStatus
from stepwell.stores.memory import events
from stepwell.stores.memory.commits import append_entries
from stepwell.stores.memory.database import RunRow
from stepwell.stores.memory.ends import cancel_family
from stepwell.stores.memory.operators import after_attempts, note, retry
from stepwell.stores.memory.signals import consume, take_over_held
from stepwell.stores.memory.starts import create
from stepwell.stores.memory.transaction import Transaction


def amend(tx: Transaction, amendment: Amendment) -> Amended:
    """Repair a run, if it is as expected."""
    row = _get(tx, amendment.run_id)
    if row.amendment == amendment.amendment_id:
        return Amended.APPLIED
    expected = (amendment.status, amendment.epoch, amendment.revision)
    if (row.status, row.epoch, row.revision) != expected or row.status not in AMENDABLE:
        return Amended.STALE
    before = row.status
    if before is RunStatus.FAILED and row.key is not None and row.key in tx.db.active_keys:
        return Amended.KEY_TAKEN
    _rewrite(tx, row, amendment)
    for dropped in amendment.children:
        _drop(tx, dropped, amendment.announce)
    for child in amendment.retries:
        retry(tx, child, amendment.by)
    _let_go_on(tx, row, amendment)
    if before is RunStatus.FAILED and row.key is not None:
        take_over_held(tx, row.key, row.run_id)
    note(tx, row, amendment.verb, amendment.by, before, amendment.reason)
    return Amended.APPLIED


def _get(tx: Transaction, run_id: RunId) -> RunRow:
    row = tx.db.runs.get(run_id)
    if row is None:
        raise NotFoundError("run", run_id)
    return row


def _rewrite(tx: Transaction, row: RunRow, amendment: Amendment) -> None:
    db, run_id = tx.db, row.run_id
    if amendment.names:
        tx.change(row, names=row.names + amendment.names)
    tx.drop_all(db.entries[run_id], amendment.forgotten)
    tx.drop_all(db.cursors[run_id], amendment.ended_cursors)
    tx.drop_all(db.progress[run_id], amendment.ended_progress)
    for attempt in amendment.attempts:
        tx.put(db.attempts[run_id], (attempt.location, attempt.number), attempt)
    append_entries(tx, row, amendment.entries)
    consume(tx, row, amendment.consumed)


def _drop(tx: Transaction, dropped: Dropped, announce: Announce | None) -> None:
    """Let a child stand where its parent does not look for it, and stop it."""
    child = tx.db.runs.get(dropped.run_id)
    if child is None or child.parent is None:
        return
    tx.change(child, parent=child.parent._replace(location=dropped.location))
    if child.status not in ACTIVE or child.parent.detached:
        return
    if child.key is not None and dropped.successor is not None:
        tx.change(child, replaced_by=dropped.successor)
    cancel_family(tx, child, compensate=True, reason=REWOUND, announce=announce)


def _let_go_on(tx: Transaction, row: RunRow, amendment: Amendment) -> None:
    version = row.version if amendment.version is None else amendment.version
    waits = row.waits
    tx.change(
        row,
        status=RunStatus.PENDING,
        epoch=row.epoch + 1,
        revision=row.revision + 1,
        last_seq=row.last_seq + len(amendment.entries),
        waits=amendment.waits,
        ended_at=None,
        failure=None,
        cause=None,
        undo_floor=0,
        retried_at=after_attempts(tx, row),
        stalls=0,
        deadline_at=None if row.deadline_at is None or row.deadline_at <= tx.now else row.deadline_at,
        amendment=amendment.amendment_id,
        hold=None,
        loose=amendment.loose,
        version=version,
        definition=f"{row.workflow}@{version}",
        input=row.input if amendment.input is None else amendment.input,
        wake_at=tx.now,
    )
    if amendment.waits:
        events.open_waits(tx, row, waits)


def fork(tx: Transaction, fork: Fork) -> Created | None:
    """Start a run with a part of what another one has recorded."""
    source = _get(tx, fork.source)
    is_known = fork.new.run_id in tx.db.runs
    if not is_known and (source.epoch, source.revision) != (fork.epoch, fork.revision):
        return None
    [created] = create(tx, [fork.new], None)
    if is_known or created.run_id != fork.new.run_id:
        return created
    row = tx.db.runs[fork.new.run_id]
    append_entries(tx, row, fork.entries)
    for cursor in fork.cursors:
        tx.put(tx.db.cursors[row.run_id], cursor.location, cursor)
    record = {"names": fork.names, "revision": 1, "last_seq": len(fork.entries)}
    tx.change(row, **record, retried_at=tx.now, forked_from=source.run_id, loose=fork.loose)
    note(tx, source, "fork", fork.by, source.status, fork.reason)
    note(tx, row, "forked", fork.by, row.status, fork.reason)
    return created
