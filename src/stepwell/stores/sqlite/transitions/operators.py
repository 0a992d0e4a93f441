"""Operators' acts on runs; each writes an audit row."""

from __future__ import annotations

from stepwell.errors import NotFoundError
from stepwell.ids import RunId
from stepwell.model.amendments import loosened
from stepwell.model.cancels import Cancelled
from stepwell.model.entries import UNDONE_BY_HAND, Entry
from stepwell.model.failures import decode_failure
from stepwell.model.locations import Location, format_path, is_undoing, undo
from stepwell.model.outbox import Announce
from stepwell.model.states import EntryKind, EntryStatus, RunStatus
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_names
from stepwell.stores.sqlite.rows import decode_ranges, encode_ranges
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.audit import Actor, note
from stepwell.stores.sqlite.transitions.ends import cancel_family
from stepwell.stores.sqlite.transitions.holds import withdraw


def cancel(
    tx: Transaction, run_id: RunId, actor: Actor, *, compensate: bool, reason: str, announce: Announce | None
) -> Cancelled:
    """Cancel a run with its attached descendants."""
    if actor.has_acted(tx):
        return Cancelled(changed=True)
    root = tx.find("runs.find_for_cancel", run_id=run_id)
    if root is None:
        raise NotFoundError("run", run_id)
    changed = cancel_family(tx, root, compensate=compensate, reason=reason, announce=announce)
    if changed:
        note(tx, root[0], "cancel", actor, root[2], reason)
    return Cancelled(bool(changed), tuple(changed))


def resume(tx: Transaction, run_id: RunId, actor: Actor, *, even_if_held: bool) -> bool:
    """Let a paused run continue, or remove the hold of a running one."""
    if actor.has_acted(tx):
        return True
    found = tx.find("runs.find_for_operator", run_id=run_id)
    if found is None or (found[4] is not None and not even_if_held):
        return False
    run, before, _, cause, hold, _ = found
    if before == RunStatus.RUNNING.value and hold is not None:
        withdraw(tx, run, actor)
        return True
    if before != RunStatus.PAUSED.value:
        return False
    status = RunStatus.PENDING if cause is None else RunStatus.COMPENSATING
    tx.run("runs.resume", id=run, status=status.value, now=tx.now)
    if cause is None:
        tx.run("payloads.fail", run=run, failure=None)
    note(tx, run, "resume", actor, RunStatus.PAUSED)
    tx.hint(HintKind.READY, run_id)
    return True


def resume_rollback(
    tx: Transaction, run_id: RunId, actor: Actor, *, undone: Location | None = None, reason: str = ""
) -> bool:
    """Continue a rollback that stopped, and run the failed part of its compensation again, or count it as undone."""
    if actor.has_acted(tx):
        return True
    found = _find(tx, run_id, RunStatus.COMPENSATION_FAILED)
    if found is None or (undone is not None and not _is_left_to_undo(tx, found[0], undone)):
        return False
    failed_at = _forget_failed_entries(tx, found[0], is_rollback=True)
    if undone is not None:
        _append_undo(tx, found[0], run_id, undone)
    tx.run("runs.resume_rollback", id=found[0], now=tx.now)
    verb = "resume_rollback" if undone is None else "mark_undone"
    note(tx, found[0], verb, actor, RunStatus.COMPENSATION_FAILED, reason)
    tx.hint(HintKind.READY, run_id)
    _retry_children(tx, run_id, failed_at, actor)
    return True


def _is_left_to_undo(tx: Transaction, run: int, location: Location) -> bool:
    return tx.find("entries.find_left_to_undo", run=run, location=location, undo=undo(location)) is not None


def _append_undo(tx: Transaction, run: int, run_id: RunId, location: Location) -> None:
    """Record that the effect of a step is undone."""
    row = tx.find("amendments.find", run_id=run_id)
    assert row is not None
    seq = row[4] + 1
    entry = Entry(seq, undo(location), EntryKind.UNDO, EntryStatus.DONE, UNDONE_BY_HAND, tx.now, 0)
    tx.run("entries.append", run=run, **entry._asdict())
    tx.run("runs.add_entry", id=run, seq=seq)
    tx.known_revisions.pop(run_id, None)


def retry(tx: Transaction, run_id: RunId, actor: Actor) -> bool:
    """Let a failed run repeat what failed."""
    if actor.has_acted(tx):
        return True
    found = _find(tx, run_id, RunStatus.FAILED)
    if found is None:
        return False
    run, _, key, *_ = found
    if key is not None and tx.find("runs.find_active_of_key", key=key) is not None:
        return False
    failed_at = _forget_failed_entries(tx, run)
    tx.run("runs.retry", id=run, now=tx.now)
    tx.run("payloads.fail", run=run, failure=None)
    if key is not None:
        tx.run("signals.drop_held_duplicates", run=run, key=key)
        tx.run("signals.take_over_held", run=run, key=key)
    note(tx, run, "retry", actor, RunStatus.FAILED)
    tx.hint(HintKind.READY, run_id)
    _retry_children(tx, run_id, failed_at, actor)
    return True


def _retry_children(tx: Transaction, run_id: RunId, failed_at: list[Location], actor: Actor) -> None:
    """Retry the failed children at these locations."""
    for child, location in tx.rows("runs.list_failed_children", run_id=run_id) if failed_at else ():
        if location in failed_at:
            retry(tx, child, Actor(actor.by))


def _find(tx: Transaction, run_id: RunId, status: RunStatus) -> Row | None:
    row = tx.find("runs.find_for_operator", run_id=run_id)
    return row if row is not None and row[1] == status.value else None


def _forget_failed_entries(tx: Transaction, run: int, *, is_rollback: bool = False) -> list[Location]:
    """Delete the failed entries that made the run fail, or its rollback stop. Returns their locations."""
    row = tx.find("payloads.read_failure", run=run)
    if row is None or row[0] is None:
        return []
    failure, names = decode_failure(row[0]), read_names(tx.connection, run)
    failed = [Location(location) for (location,) in tx.rows("entries.list_failed", run=run)]
    concerned = [
        location
        for location in failed
        if is_undoing(location) == is_rollback and failure.concerns(format_path(location, names))
    ]
    seqs: dict[Location, int] = dict(tx.rows("entries.list_seqs", run=run))
    for location in concerned:
        tx.run("entries.forget", run=run, location=location)
    taken = [seqs.pop(location) for location in concerned]
    if taken:
        known = tx.find("runs.find_loose", id=run)
        assert known is not None
        loose = loosened(decode_ranges(known[0]), taken, seqs.values())
        tx.run("runs.loosen", id=run, loose=encode_ranges(loose))
    return concerned
