"""Repairs of runs, and runs that start with the history of another run."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from stepwell.errors import NotFoundError
from stepwell.ids import RunId
from stepwell.model.amendments import AMENDABLE, REWOUND, Amended, Amendment, Dropped, Fork
from stepwell.model.commits import check_entries
from stepwell.model.entries import Entry
from stepwell.model.outbox import Announce
from stepwell.model.runs import Created
from stepwell.model.states import RunStatus
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.rows import encode_ranges, to_status
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.audit import Actor, note
from stepwell.stores.sqlite.transitions.commits import consume, replace_waits
from stepwell.stores.sqlite.transitions.ends import cancel_family
from stepwell.stores.sqlite.transitions.operators import retry
from stepwell.stores.sqlite.transitions.records import close_at, close_lost
from stepwell.stores.sqlite.transitions.starts import create

_FAILED = RunStatus.FAILED.value


def amend(tx: Transaction, amendment: Amendment) -> Amended:
    """Repair a run, if its state is as expected."""
    run, status, epoch, revision, last_seq, key, known, definition = _get(tx, amendment.run_id)
    if known == amendment.amendment_id:
        return Amended.APPLIED
    expected = (amendment.status.value, amendment.epoch, amendment.revision)
    if (status, epoch, revision) != expected or to_status(status) not in AMENDABLE:
        return Amended.STALE
    revives = status == _FAILED and key is not None
    if revives and tx.find("runs.find_active_of_key", key=key) is not None:
        return Amended.KEY_TAKEN
    if _has_continued_child(tx, amendment.children):
        return Amended.STALE
    _rewrite(tx, run, last_seq, amendment)
    for dropped in amendment.children:
        _drop(tx, dropped, amendment.announce)
    for child in amendment.retries:
        retry(tx, child, Actor(amendment.by))
    replace_waits(tx, run, amendment.run_id, amendment.waits)
    for entry in amendment.entries:
        close_at(tx, run, entry.location)
    close_lost(tx, run)
    if amendment.version is not None:
        row = tx.find("amendments.find_definition", id=definition)
        assert row is not None
        definition = tx.definition(row[0], amendment.version, row[2])
    seq = last_seq + len(amendment.entries)
    tx.run(
        "amendments.apply",
        id=run,
        now=tx.now,
        last_seq=seq,
        definition=definition,
        amendment=amendment.amendment_id,
        loose=encode_ranges(amendment.loose),
        wake_at=amendment.wake_at,
    )
    tx.run("payloads.fail", run=run, failure=None)
    if amendment.input is not None:
        tx.run("payloads.change_input", run=run, input=amendment.input)
    if revives:
        tx.run("signals.drop_held_duplicates", run=run, key=key)
        tx.run("signals.take_over_held", run=run, key=key)
    note(tx, run, amendment.verb, Actor(amendment.by), status, amendment.reason)
    tx.known_revisions.pop(amendment.run_id, None)
    tx.hint(HintKind.READY, amendment.run_id)
    return Amended.APPLIED


def _get(tx: Transaction, run_id: RunId) -> Row:
    row = tx.find("amendments.find", run_id=run_id)
    if row is None:
        raise NotFoundError("run", run_id)
    return row


def _has_continued_child(tx: Transaction, children: Sequence[Dropped]) -> bool:
    """Whether a dropped child has continued as a run that the plan does not know: that one would keep the child's place
    in the parent, and its key.
    """
    known = {dropped.run_id for dropped in children}
    found = (tx.find("amendments.find_successor", run_id=run_id) for run_id in known)
    return any(row is not None and row[0] not in known for row in found)


def _rewrite(tx: Transaction, run: int, last_seq: int, amendment: Amendment) -> None:
    for name in amendment.names:
        tx.run("names.append", run=run, name=name)
    for location in amendment.forgotten:
        tx.run("entries.forget", run=run, location=location)
    for location in amendment.ended_cursors:
        tx.run("cursors.end", run=run, location=location)
    for location in amendment.ended_progress:
        tx.run("progress.end", run=run, location=location)
    for attempt in amendment.attempts:
        tx.run("attempts.record", run=run, **attempt._asdict())
    _append(tx, run, amendment.run_id, last_seq, amendment.entries)
    consume(tx, run, amendment.run_id, amendment.consumed)


def _append(tx: Transaction, run: int, run_id: RunId, last_seq: int, entries: Sequence[Entry]) -> None:
    check_entries(run_id, entries, last_seq)
    for entry in entries:
        try:
            tx.run("entries.append", run=run, **entry._asdict())
        except apsw.ConstraintError as error:
            raise ValueError(f"run {run_id} has an entry at {entry.location.hex()} already: {error}") from error


def _drop(tx: Transaction, dropped: Dropped, announce: Announce | None) -> None:
    """Move a child to a location where its parent does not look, and cancel it."""
    found = tx.find("amendments.find_child", run_id=dropped.run_id)
    if found is None:
        return
    *child, detached, ended_at, key = found
    tx.run("amendments.move_child", id=child[0], location=dropped.location)
    if ended_at is not None or detached:
        return
    if key is not None and dropped.successor is not None:
        tx.run("runs.replace", id=child[0], successor=dropped.successor)
    cancel_family(tx, (*child[:6], dropped.location), compensate=True, reason=REWOUND, announce=announce)


def fork(tx: Transaction, fork: Fork) -> Created | None:
    """Start a run with a part of the history of another run."""
    source, status, epoch, revision, *_ = _get(tx, fork.source)
    is_known = tx.find("amendments.find", run_id=fork.new.run_id) is not None
    if not is_known and (epoch, revision) != (fork.epoch, fork.revision):
        return None
    [created] = create(tx, [fork.new], None)
    if is_known or created.run_id != fork.new.run_id:
        return created
    run = _get(tx, fork.new.run_id)[0]
    for name in fork.names:
        tx.run("names.append", run=run, name=name)
    _append(tx, run, fork.new.run_id, 0, fork.entries)
    for cursor in fork.cursors:
        tx.run("cursors.set", run=run, **cursor._asdict())
    begun = {"last_seq": len(fork.entries), "source": fork.source, "loose": encode_ranges(fork.loose)}
    tx.run("amendments.begin_fork", id=run, now=tx.now, **begun)
    note(tx, source, fork.verb, Actor(fork.by), status, fork.reason)
    note(tx, run, "forked", Actor(fork.by), RunStatus.PENDING, fork.reason)
    return created
