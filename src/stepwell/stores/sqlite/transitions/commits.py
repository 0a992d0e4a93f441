"""Applying commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apsw

from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import (
    Applied,
    BeginRollback,
    Commit,
    End,
    Park,
    Release,
    Standing,
    Verdict,
    check_entries,
    judge,
)
from stepwell.model.entries import Entry
from stepwell.model.failures import encode_failure, key_taken
from stepwell.model.holds import Hold
from stepwell.model.locations import Location, format_path
from stepwell.model.outbox import Announce
from stepwell.model.runs import Claimed, NewRun
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.model.workers import Claimant, Fence
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sql.shapes import is_finish
from stepwell.stores.sqlite.histories import read_names
from stepwell.stores.sqlite.rows import decode_hold, encode_texts, to_status
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Transaction
from stepwell.stores.sqlite.transitions.attributes import describe
from stepwell.stores.sqlite.transitions.claims import Quota
from stepwell.stores.sqlite.transitions.ends import cancel_family, find_last_of_chain
from stepwell.stores.sqlite.transitions.events import add_topic_waits, list_topic_waits, receive
from stepwell.stores.sqlite.transitions.live import append, publish
from stepwell.stores.sqlite.transitions.moves import Step, move_run
from stepwell.stores.sqlite.transitions.outbox import announce_end, store_emits
from stepwell.stores.sqlite.transitions.records import close_between, close_record, open_record
from stepwell.stores.sqlite.transitions.starts import insert, insert_failed

_FIND = SQL["runs.find_for_commit"]
_ADVANCE_KNOWN, _FINISH_KNOWN = SQL["runs.advance_known"], SQL["runs.finish_known"]
_FINISH_PAYLOAD = SQL["payloads.finish"]
_ADVANCE = SQL["runs.advance"]
_TOUCH = SQL["runs.touch"]
_APPEND = SQL["entries.append"]
_NAME = SQL["names.append"]
_RECORD = SQL["attempts.record"]
_SET_CURSOR = SQL["cursors.set"]
_CONSUME = SQL["signals.consume"]
_ADD_WAIT = SQL["waits.add"]
_CLEAR_WAITS = SQL["waits.clear"]
_FENCED, _APPLIED = Applied(Verdict.FENCED), Verdict.APPLIED
_CANCELLING = RunStatus.CANCELLING
_NOTHING_ELSE = Commit(RunId(""), Fence(Incarnation(""), 0), 0)[5:]  # of a commit that has only names and entries


def apply(tx: Transaction, commits: Sequence[Commit], claimant: Claimant | None) -> list[Applied]:
    """Apply each commit under its own fence."""
    quota = Quota(tx, claimant)
    return [
        (_advance(tx, commit, quota, claimant) if commit.move is None else _finish(tx, commit))
        or _apply_one(tx, commit, quota, claimant)
        for commit in commits
    ]


def _finish(tx: Transaction, commit: Commit) -> Applied | None:
    """The common end of a run: its state is known, the commit adds entries and completes it. None for other commits."""
    run_id, (incarnation, epoch), number, names, entries = commit[:5]
    left, end = tx.known_revisions.get(run_id), commit.move
    if left is None or not entries or not isinstance(end, End) or not is_finish(commit):
        return None
    run, revision = left
    revision += 1
    counters = (number, revision, entries[-1].seq)
    fence = (tx.now, run, run_id, entries[0].seq - 1, epoch, incarnation, commit.waits is not None)
    tx.write(_FINISH_KNOWN, (*counters, *fence))
    if tx.connection.changes() != 1:
        return None
    del tx.known_revisions[run_id]
    _append(tx, run, run_id, names, entries)
    if commit.consumed:
        consume(tx, run, run_id, commit.consumed)
    if commit.waits is not None:
        tx.write(_CLEAR_WAITS, (run,))
    if end.output is not None:
        tx.write(_FINISH_PAYLOAD, (end.output, None, run))
    tx.hint(HintKind.ENDED, run_id)
    return Applied(_APPLIED, False, revision)


def _advance(tx: Transaction, commit: Commit, quota: Quota, claimant: Claimant | None) -> Applied | None:
    """The most common commit: it adds entries to a run whose state is known. None for other commits."""
    run_id, (incarnation, epoch), number, names, entries = commit[:5]
    left = tx.known_revisions.get(run_id)
    if left is None or not entries or commit.progress or commit.ended_progress:
        return None
    run, revision = left
    revision, before = revision + 1, entries[0].seq - 1
    last_seq = check_entries(run_id, entries, before)
    tx.write(_ADVANCE_KNOWN, (number, revision, last_seq, run, run_id, before, epoch, incarnation))
    if tx.connection.changes() != 1:
        return None
    _append(tx, run, run_id, names, entries)
    claimed = () if commit[5:] == _NOTHING_ELSE else _write_more(tx, run, commit, quota, claimant)
    tx.known_revisions[run_id] = run, revision
    return Applied(_APPLIED, False, revision, False, claimed)


class Target(NamedTuple):
    """The run that a commit changes."""

    run: int
    revision: int
    standing: Standing
    hold: Hold | None


def find_target(tx: Transaction, commit: Commit, *, has_work: bool = False) -> Target | Applied:
    """The run that a commit changes, or the answer to the sender if the commit is not written."""
    found = tx.execute(_FIND, (commit.run_id,)).fetchone()
    if found is None:
        return _FENCED
    run, revision, wake_at, stored, status, *facts = found
    standing, hold = Standing(to_status(status), *facts), decode_hold(stored)
    verdict = judge(commit, standing, tx.now, has_work=has_work)
    if verdict is None:
        return Applied(Verdict.UNREAD) if _leaves_unread(tx, run, commit) else Target(run, revision, standing, hold)
    if verdict is not _APPLIED:
        return Applied(verdict)
    is_awake = isinstance(commit.move, Park) and wake_at is not None and wake_at <= tx.now
    return Applied(verdict, standing.status is _CANCELLING, revision, is_awake, held=hold is not None)


def _leaves_unread(tx: Transaction, run: int, commit: Commit) -> bool:
    """Whether the commit ends its run only if nothing is left to read, and something is."""
    if not isinstance(commit.move, End) or commit.move.unread_above is None:
        return False
    settled = {*commit.consumed, *(one.number for one in commit.refused)}
    rows = tx.rows("signals.list_left", run=run, above=commit.move.unread_above)
    left = [has_come for number, has_come in rows if number not in settled]
    return bool(left) and (any(left) or bool(commit.consumed) or tx.find("signals.find_received", run=run) is not None)


def _apply_one(tx: Transaction, commit: Commit, quota: Quota, claimant: Claimant | None) -> Applied:
    found = find_target(tx, commit)
    if isinstance(found, Applied):
        return found
    run, revision, (status, _, _, _, last_seq, deadline_at), hold = found
    move = commit.move
    if commit.entries:
        last_seq = commit.entries[-1].seq
    claimed = _write(tx, run, commit, quota, claimant)
    revision += 1
    has_progress = bool(commit.entries or commit.cursors or not all(one.is_beginning for one in commit.attempts))
    if commit.progress or commit.ended_progress:
        has_progress |= _keep_progress(tx, run, commit)
    if move is not None:
        tx.known_revisions.pop(commit.run_id, None)
        until = deadline_at if status is RunStatus.RUNNING else None
        step = Step(run, commit.run_id, commit.number, revision, last_seq, has_progress, until, hold)
        is_awake = move_run(tx, step, move, commit.announce)
        is_cancelling = status is _CANCELLING and isinstance(move, Release)
        is_held = hold is not None and not isinstance(move, (BeginRollback, End))
        return Applied(_APPLIED, is_cancelling, revision, is_awake, claimed, is_held)
    if has_progress:
        tx.write(_ADVANCE, (commit.number, revision, last_seq, run))
    else:
        tx.write(_TOUCH, (commit.number, revision, run))
    tx.remember(commit.run_id, run, revision)
    return Applied(_APPLIED, status is _CANCELLING, revision, False, claimed, hold is not None)


def _write(tx: Transaction, run: int, commit: Commit, quota: Quota, claimant: Claimant | None) -> tuple[Claimed, ...]:
    """Write everything except the move, in the order of the contract. Returns the children that were claimed."""
    _append(tx, run, commit.run_id, commit.names, commit.entries)
    return () if commit[5:] == _NOTHING_ELSE else _write_more(tx, run, commit, quota, claimant)


def _append(tx: Transaction, run: int, run_id: RunId, names: tuple[str, ...], entries: tuple[Entry, ...]) -> None:
    for name in names:
        tx.write(_NAME, (run, name))
    try:
        for seq, location, kind, status, value, at, took, attempts, undo, fingerprint in entries:
            tx.write(_APPEND, (run, location, seq, kind, status, value, at, took, attempts, undo, fingerprint))
    except apsw.ConstraintError as error:
        raise ValueError(f"run {run_id} has an entry at one of these locations already: {error}") from error


def _write_more(
    tx: Transaction, run: int, commit: Commit, quota: Quota, claimant: Claimant | None
) -> tuple[Claimed, ...]:
    """Write the rarely used parts of a commit."""
    for attempt in commit.attempts:
        tx.write(_RECORD, (run, *attempt))
    for location, number in commit.ended_attempts:
        tx.run("attempts.end", run=run, location=location, number=number)
    for cursor in commit.cursors:
        tx.write(_SET_CURSOR, (run, *cursor))
    for location in commit.ended_cursors:
        tx.run("cursors.end", run=run, location=location)
    for low, high in commit.trims:
        _trim(tx, run, commit, low, high)
    if commit.consumed:
        consume(tx, run, commit.run_id, commit.consumed)
    if commit.refused or commit.replies:
        _answer(tx, run, commit)
    for number in commit.received:
        receive(tx, run, commit.run_id, number)
    started: Sequence[Claimed | None] = ()
    if commit.children:
        started = [_start_child(tx, run, new, quota, claimant, commit.announce) for new in commit.children]
    if commit.published:
        publish(tx, run, commit.published)
    if commit.appends:
        append(tx, run, commit.run_id, commit.appends)
    if commit.waits is not None:
        replace_waits(tx, run, commit.run_id, commit.waits)
    if commit.emits:
        store_emits(tx, run, commit.run_id, commit.emits)
    for opening in commit.opened:
        open_record(tx, run, opening)
    for closing in commit.closed:
        close_record(tx, run, closing)
    if commit.description is not None:
        describe(tx, run, commit.run_id, commit.description)
    return tuple([claimed for claimed in started if claimed is not None]) if started else ()


def consume(tx: Transaction, run: int, run_id: RunId, numbers: Iterable[int]) -> None:
    """Take signals out of the mailbox. Their ids are remembered, so that duplicates are recognised."""
    for number in numbers:
        tx.write(_CONSUME, (number, run))
        if tx.connection.changes() != 1:
            raise ValueError(f"run {run_id} has no pending signal {number}")


def _answer(tx: Transaction, run: int, commit: Commit) -> None:
    """Mark the signals that the run refused, and store the replies."""
    for number, reason in commit.refused:
        tx.run("signals.refuse", number=number, run=run, reason=reason, by=commit.fence.incarnation)
        if tx.connection.changes() != 1:
            raise ValueError(f"run {commit.run_id} has no pending signal {number}")
    for reply in commit.replies:
        tx.run("replies.give", number=reply.number, status=reply.status.value, value=reply.value, now=tx.now)
        tx.hint(HintKind.REPLIED, commit.run_id)


def _keep_progress(tx: Transaction, run: int, commit: Commit) -> bool:
    """Store the progress of step bodies. Returns whether a state changed."""
    is_further = False
    for progress in commit.progress:
        known = tx.find("progress.find_state", run=run, location=progress.location)
        is_further |= progress.state != (None if known is None else known[0])
        tx.run("progress.keep", run=run, **progress._asdict())
    for location in commit.ended_progress:
        tx.run("progress.end", run=run, location=location)
    return is_further


def replace_waits(tx: Transaction, run: int, run_id: RunId, waits: tuple[Wait, ...]) -> None:
    """Replace all waits of a run. A topic wait that was stored before keeps its state (open or not)."""
    has_topics = any(wait.kind is WaitKind.TOPIC for wait in waits)
    before = list_topic_waits(tx, run) if has_topics else {}
    tx.write(_CLEAR_WAITS, (run,))
    for position, (location, kind, token, due_at, names, _, _, limit_at) in enumerate(waits):
        if kind is WaitKind.RUN:
            names = (find_last_of_chain(tx, names[0]),)
        if kind is not WaitKind.TOPIC:
            tx.write(_ADD_WAIT, (run, position, location, kind, token, due_at, encode_texts(names), limit_at))
    if has_topics:
        add_topic_waits(tx, run, run_id, waits, before)


def _trim(tx: Transaction, run: int, commit: Commit, low: Location, high: Location) -> None:
    """Delete the entries in a range of locations, except entries that may have to be undone, close the records opened
    there, and cancel the children started there.
    """
    for table in ("entries", "attempts", "cursors"):
        tx.run(f"{table}.trim", run=run, low=low, high=high)
    close_between(tx, run, low, high)
    for child in tx.rows("runs.list_attached_between", parent=commit.run_id, low=low, high=high):
        reason = "its parent no longer needs it"
        cancel_family(tx, child, compensate=True, reason=reason, announce=commit.announce)


def _start_child(
    tx: Transaction, run: int, new: NewRun, quota: Quota, claimant: Claimant | None, announce: Announce | None
) -> Claimed | None:
    if tx.find("runs.find_input", run_id=new.run_id) is not None:
        return None
    holder = None if new.key is None else tx.find("runs.find_active_of_key", key=new.key)
    if holder is None:
        return insert(tx, new, quota, claimant)
    path = "" if new.parent is None else format_path(new.parent.location, read_names(tx.connection, run))
    failure = encode_failure(key_taken(new.key, holder=holder[0], path=path))
    announce_end(tx, insert_failed(tx, new, failure), announce)
    return None
