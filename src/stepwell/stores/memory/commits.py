"""Applying commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from stepwell.model.cancels import may_follow_cancel
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release, Verdict
from stepwell.model.deadlines import may_follow_deadline
from stepwell.model.entries import Entry
from stepwell.model.failures import encode_failure, key_taken
from stepwell.model.holds import Hold
from stepwell.model.locations import Location, format_path
from stepwell.model.outbox import Announce
from stepwell.model.runs import Claimed, NewRun, Previous
from stepwell.model.states import ACTIVE, TERMINAL, RunStatus
from stepwell.model.workers import Claimant
from stepwell.stores.memory import events
from stepwell.stores.memory.database import RunRow
from stepwell.stores.memory.ends import cancel_family, cancel_tied, end, let_go
from stepwell.stores.memory.holds import stand_still
from stepwell.stores.memory.live import append, publish
from stepwell.stores.memory.outbox import announce_end, store_emits
from stepwell.stores.memory.runs import Quota, ended_children, free, insert, insert_failed, wake
from stepwell.stores.memory.signals import consume, has_awaited_signal, pass_on, refuse, reply
from stepwell.stores.memory.transaction import Transaction


def apply(tx: Transaction, commits: Sequence[Commit], claimant: Claimant | None) -> list[Applied]:
    """Apply each commit under its own fence."""
    quota = Quota(tx, claimant)
    return [_apply_one(tx, commit, quota) for commit in commits]


def _apply_one(tx: Transaction, commit: Commit, quota: Quota) -> Applied:
    row = tx.db.runs.get(commit.run_id)
    if row is None or row.epoch != commit.fence.epoch or commit.number < 1:
        return Applied(Verdict.FENCED)
    if commit.number == row.applied:
        return _answer(tx, row, commit)
    if row.owner != commit.fence.incarnation or commit.number != row.applied + 1:
        return Applied(Verdict.FENCED)
    if row.status is RunStatus.CANCELLING and not may_follow_cancel(commit.move):
        return Applied(Verdict.CANCELLING)
    if _has_expired(tx, row) and not may_follow_deadline(commit.move):
        return Applied(Verdict.EXPIRED)
    claimed = _write(tx, row, commit, quota)
    if commit.move is not None:
        _move(tx, row, commit.move, commit.announce)
    return _answer(tx, row, commit)._replace(claimed=claimed)


def _has_expired(tx: Transaction, row: RunRow) -> bool:
    return row.deadline_at is not None and row.deadline_at <= tx.now and row.status is RunStatus.RUNNING


def _answer(tx: Transaction, row: RunRow, commit: Commit) -> Applied:
    is_due = row.wake_at is not None and row.wake_at <= tx.now
    return Applied(
        Verdict.APPLIED,
        cancelling=row.status is RunStatus.CANCELLING,
        revision=row.revision,
        is_awake=isinstance(commit.move, Park) and is_due,
        held=row.hold is not None,
    )


def _write(tx: Transaction, row: RunRow, commit: Commit, quota: Quota) -> tuple[Claimed, ...]:
    """Everything but the move, in the order of the contract."""
    tx.change(row, names=row.names + commit.names)
    append_entries(tx, row, commit.entries)
    for attempt in commit.attempts:
        tx.put(tx.db.attempts[row.run_id], (attempt.location, attempt.number), attempt)
    tx.drop_all(tx.db.attempts[row.run_id], commit.ended_attempts)
    is_further = _keep_progress(tx, row, commit)
    for cursor in commit.cursors:
        tx.put(tx.db.cursors[row.run_id], cursor.location, cursor)
    tx.drop_all(tx.db.cursors[row.run_id], commit.ended_cursors)
    for low, high in commit.trims:
        _trim(tx, row, low, high, commit.announce)
    consume(tx, row, commit.consumed)
    refuse(tx, row, commit.refused)
    reply(tx, row, commit.replies)
    if commit.received:
        events.receive(tx, row, commit.received)
    claimed = tuple(
        one for new in commit.children if (one := _start_child(tx, row, new, quota, commit.announce)) is not None
    )
    if commit.published:
        publish(tx, row, commit.published)
    if commit.appends:
        append(tx, row, commit.appends)
    has_tried = not all(one.is_beginning for one in commit.attempts)
    is_progress = bool(commit.entries or has_tried or commit.cursors or is_further)
    before = row.waits
    is_progress |= commit.move is not None and not isinstance(commit.move, Release)
    tx.change(
        row,
        applied=commit.number,
        revision=row.revision + 1,
        last_seq=commit.entries[-1].seq if commit.entries else row.last_seq,
        stalls=0 if is_progress else row.stalls,
        waits=row.waits if commit.waits is None else commit.waits,
    )
    if commit.waits:
        events.open_waits(tx, row, before)
    store_emits(tx, row, commit.emits)
    return claimed


def _keep_progress(tx: Transaction, row: RunRow, commit: Commit) -> bool:
    """Store how far bodies have come; whether one of them is further than before."""
    kept = tx.db.progress[row.run_id]
    is_further = False
    for progress in commit.progress:
        known = kept.get(progress.location)
        is_further |= progress.state != (None if known is None else known.state)
        tx.put(kept, progress.location, progress)
    tx.drop_all(kept, commit.ended_progress)
    return is_further


def append_entries(tx: Transaction, row: RunRow, new: Sequence[Entry]) -> None:
    """Add entries that continue the run's seq, each where none is."""
    entries = tx.db.entries[row.run_id]
    for seq, entry in enumerate(new, row.last_seq + 1):
        if entry.seq != seq:
            raise ValueError(f"run {row.run_id} expects entry {seq}, not {entry.seq}")
        if entry.location in entries:
            raise ValueError(f"run {row.run_id} has an entry at {entry.location.hex()} already")
        tx.put(entries, entry.location, entry)


def _trim(tx: Transaction, row: RunRow, low: Location, high: Location, announce: Announce | None) -> None:
    """Forget a range of locations, but what may still have to be undone, and cancel the children started there."""
    entries, attempts = tx.db.entries[row.run_id], tx.db.attempts[row.run_id]
    cursors, children = tx.db.cursors[row.run_id], tx.db.children[row.run_id]
    tx.drop_all(entries, [at for at, entry in entries.items() if low <= at < high and entry.undo is None])
    tx.drop_all(attempts, [key for key in attempts if low <= key[0] < high])
    tx.drop_all(cursors, [at for at in cursors if low <= at < high])
    for child in tuple(children.values()):
        parent = child.parent
        if parent is not None and not parent.detached and low <= parent.location < high and child.status in ACTIVE:
            reason = "its parent no longer needs it"
            cancel_family(tx, child, compensate=True, reason=reason, announce=announce)


def _start_child(tx: Transaction, row: RunRow, new: NewRun, quota: Quota, announce: Announce | None) -> Claimed | None:
    if new.run_id in tx.db.runs:
        return None
    if new.key is not None and new.key in tx.db.active_keys:
        path = format_path(new.parent.location, row.names) if new.parent is not None else ""
        failure = key_taken(new.key, holder=tx.db.active_keys[new.key].run_id, path=path)
        failed = insert_failed(tx, new, encode_failure(failure))
        announce_end(tx, failed, announce)
        return None
    return quota.take_new(tx, insert(tx, new), new)


def _move(tx: Transaction, row: RunRow, move: Move, announce: Announce | None) -> None:
    match move:
        case Park() if row.hold is not None:
            stand_still(tx, row)
        case Park(wake_at=wake_at):
            status = row.status if row.status is RunStatus.COMPENSATING else RunStatus.WAITING
            if row.deadline_at is not None and status is RunStatus.WAITING:
                wake_at = row.deadline_at if wake_at is None else min(wake_at, row.deadline_at)
            tx.change(row, status=status, owner=None, wake_at=wake_at)
            if has_awaited_signal(tx.db, row) or ended_children(tx.db, row) or events.has_receiver(tx.db, row):
                wake(tx, row)
        case Release():
            free(tx, row)
        case Pause(failure=failure):
            tx.change(row, status=RunStatus.PAUSED, owner=None, wake_at=None, failure=failure)
        case BeginRollback(cause=cause, failure=failure, undo_floor=floor):
            status = RunStatus.COMPENSATING
            tx.change(row, status=status, cause=cause, failure=failure, undo_floor=floor, waits=(), hold=None)
            cancel_tied(tx, row, announce)
        case End():
            _end(tx, row, move, announce)
        case _:
            assert_never(move)


def _end(tx: Transaction, row: RunRow, move: End, announce: Announce | None) -> None:
    if move.status not in TERMINAL and move.status is not RunStatus.COMPENSATION_FAILED:
        raise ValueError(f"{move.status.value} is no end")
    if (move.status is RunStatus.CONTINUED) != (move.successor is not None):
        raise ValueError("a run that continues has a successor, and no other has one")
    failure, hold = row.failure if move.failure is None else move.failure, row.hold
    end(tx, row, move.status, announce, output=move.output, failure=failure)
    if move.status in TERMINAL:
        cancel_tied(tx, row, announce)
    if move.successor is not None:
        _continue(tx, row, move, move.successor, hold)
    elif move.status in TERMINAL:
        let_go(tx, row)


def _continue(tx: Transaction, row: RunRow, move: End, successor: NewRun, hold: Hold | None) -> None:
    if successor.run_id in tx.db.runs:
        raise ValueError(f"the successor's id {successor.run_id} is taken")
    started_at = row.created_at if row.started_at is None else row.started_at
    heir = insert(
        tx,
        successor._replace(key=row.key, parent=row.parent),
        generation=row.generation + 1,
        previous=Previous(row.run_id, started_at, tx.now),
    )
    if move.entries:
        append_entries(tx, heir, move.entries)
        tx.change(heir, names=move.names, revision=1, last_seq=len(move.entries))
    if hold is not None:
        tx.change(heir, hold=hold)
        stand_still(tx, heir)
    tx.change(row, successor=successor.run_id)
    pass_on(tx, row.run_id, successor.run_id)
    events.pass_on(tx, row.run_id, successor.run_id)
