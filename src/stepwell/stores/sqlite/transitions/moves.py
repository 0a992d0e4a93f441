"""Applies a commit's move to a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from stepwell.clock import Instant, Span
from stepwell.ids import RunId
from stepwell.model.commits import BeginRollback, End, Move, Park, Pause, Release
from stepwell.model.holds import Hold
from stepwell.model.outbox import Announce
from stepwell.model.runs import NewRun, Parent, Previous
from stepwell.model.signals import is_accepted
from stepwell.model.states import ENDS_FOR_GOOD, KEEPS_CURSORS, TERMINAL
from stepwell.stores.base.wakeups import HintKind
from stepwell.stores.sqlite.histories import read_outcomes
from stepwell.stores.sqlite.rows import decode_texts
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transaction import Row, Transaction
from stepwell.stores.sqlite.transitions.claims import Quota
from stepwell.stores.sqlite.transitions.ends import cancel_tied, notify_parent, notify_watchers, wake_debounced
from stepwell.stores.sqlite.transitions.events import give_back, has_receiver
from stepwell.stores.sqlite.transitions.holds import pause_unowned
from stepwell.stores.sqlite.transitions.outbox import announce_end
from stepwell.stores.sqlite.transitions.records import close_all
from stepwell.stores.sqlite.transitions.starts import insert

_PARK, _RELEASE, _PAUSE = SQL["runs.park"], SQL["runs.release"], SQL["runs.pause"]
_BEGIN_ROLLBACK, _FINISH = SQL["runs.begin_rollback"], SQL["runs.finish"]
_SIGNAL_NAMES = SQL["waits.list_signal_names"]
_FIND_FAMILY, _FINISH_PAYLOAD = SQL["runs.find_family"], SQL["payloads.finish"]
_CLEAR_WAITS, _CLEAR_CURSORS = SQL["waits.clear"], SQL["cursors.clear"]


class Step(NamedTuple):
    """The counters of the run after a commit, and what a move needs to know of the run."""

    run: int
    run_id: RunId
    number: int
    revision: int
    last_seq: int
    has_progress: bool
    deadline_at: Instant | None  # if it still applies
    hold: Hold | None = None


def move_run(tx: Transaction, step: Step, move: Move, announce: Announce | None = None) -> bool:
    """Apply a move that is allowed. Returns whether the run waits and is due already."""
    counters = (step.number, step.revision, step.last_seq)
    match move:
        case Park() if step.hold is not None:
            tx.write(_PAUSE, (*counters, step.run))
            tx.hint(HintKind.ENDED, step.run_id)
        case Park():
            return _park(tx, step, move)
        case Release():
            tx.write(_RELEASE, (*counters, step.has_progress, tx.now, step.run))
            tx.hint(HintKind.READY if step.hold is None else HintKind.ENDED, step.run_id)
        case Pause():
            tx.write(_PAUSE, (*counters, step.run))
            tx.run("payloads.fail", run=step.run, failure=move.failure)
            tx.hint(HintKind.ENDED, step.run_id)
        case BeginRollback():
            tx.write(_BEGIN_ROLLBACK, (*counters, move.cause, move.undo_floor, step.run))
            tx.run("payloads.fail", run=step.run, failure=move.failure)
            tx.run("waits.clear", run=step.run)
            close_all(tx, step.run)
            cancel_tied(tx, step.run_id, announce)
        case End():
            _end(tx, step, move, announce)
        case _:
            assert_never(move)
    return False


def _park(tx: Transaction, step: Step, move: Park) -> bool:
    wake_at = move.wake_at
    if step.deadline_at is not None:
        wake_at = step.deadline_at if wake_at is None else min(wake_at, step.deadline_at)
    if (wake_at is None or wake_at > tx.now) and _is_satisfied(tx, step.run, step.run_id):
        wake_at = tx.now
    tx.write(_PARK, (step.number, step.revision, step.last_seq, wake_at, step.run))
    if wake_at is None:
        return False
    tx.hint(HintKind.READY, step.run_id)
    return wake_at <= tx.now


def _is_satisfied(tx: Transaction, run: int, run_id: RunId) -> bool:
    """Whether a stored wait is satisfied already, so that nothing is lost between the check and the move."""
    if is_any_awaited(tx, run, [name for (name,) in tx.rows("signals.list_pending_names", run=run)]):
        return True
    return bool(read_outcomes(tx.connection, run, run_id)) or has_receiver(tx, run)


def is_any_awaited(tx: Transaction, run: int, names: list[str]) -> bool:
    """Whether the run waits for a signal with one of these names, or for any signal."""
    if not names:
        return False
    rows: list[Row] = tx.execute(_SIGNAL_NAMES, (run,)).fetchall()
    return any([is_awaited(stored, names) for (stored,) in rows])


def is_awaited(stored: str, names: Iterable[str]) -> bool:
    """Whether a signal wait accepts one of these names."""
    awaited = decode_texts(stored)
    return any([is_accepted(name, awaited) for name in names])


def _end(tx: Transaction, step: Step, move: End, announce: Announce | None) -> None:
    is_end = move.status in TERMINAL
    ended_at = tx.now if is_end else None
    family = tx.execute(_FIND_FAMILY, (step.run,)).fetchone()
    assert family is not None
    parent, location, detached, tied, key, generation, began_at, dedup, *flags = family
    has_tied, has_debounced, discards, has_events, has_waits, has_cursors, has_records = flags
    successor = None if move.successor is None else _check_successor(tx, move.successor)
    counters = (step.number, step.revision, step.last_seq)
    tx.write(_FINISH, (*counters, move.status.value, ended_at, successor, step.run))
    if move.output is not None or move.failure is not None:
        tx.write(_FINISH_PAYLOAD, (move.output, move.failure, step.run))
    if has_waits:
        tx.write(_CLEAR_WAITS, (step.run,))
    if has_cursors and move.status not in KEEPS_CURSORS:
        tx.write(_CLEAR_CURSORS, (step.run,))
    if has_records:
        close_all(tx, step.run)
    if discards and move.status in ENDS_FOR_GOOD:
        tx.run("signals.discard", run=step.run)
    tx.hint(HintKind.ENDED, step.run_id)
    announce_end(tx, step.run, announce)
    if has_tied and is_end:
        cancel_tied(tx, step.run_id, announce)
    if has_debounced and is_end and move.successor is None:
        wake_debounced(tx, step.run)
    if move.successor is not None:
        kept = None if parent is None else Parent(parent, location, bool(detached), bool(tied))
        heir = move.successor._replace(key=key, parent=kept, dedup=Span(dedup))
        heir_run = _continue(tx, step, heir, generation + 1, Previous(step.run_id, Instant(began_at), tx.now))
        if move.entries:
            _begin_with(tx, heir_run, move)
        if has_events:
            tx.run("receipts.pass_on", run=step.run, successor=heir_run)
        tx.run("waits.follow", run_id=step.run_id, successor=heir.run_id)
        return
    if is_end and has_events:
        give_back(tx, step.run)
    if is_end:
        notify_watchers(tx, step.run_id)
    if is_end and parent is not None:
        notify_parent(tx, parent, location)


def _begin_with(tx: Transaction, heir: int, move: End) -> None:
    """Store the entries that the successor begins with: what is left to undo."""
    for name in move.names:
        tx.run("names.append", run=heir, name=name)
    for entry in move.entries:
        tx.run("entries.append", run=heir, **entry._asdict())
    tx.run("runs.begin_with", id=heir, last_seq=len(move.entries))


def _check_successor(tx: Transaction, successor: NewRun) -> RunId:
    if tx.find("runs.find_input", run_id=successor.run_id) is not None:
        raise ValueError(f"the successor's id {successor.run_id} is taken")
    return successor.run_id


def _continue(tx: Transaction, step: Step, heir: NewRun, generation: int, previous: Previous) -> int:
    """Create the successor. Returns its number."""
    insert(tx, heir, Quota(tx, None), None, generation=generation, previous=previous)
    found = tx.find("runs.find_for_cancel", run_id=heir.run_id)
    assert found is not None
    if step.hold is not None:
        pause_unowned(tx, found[0], heir.run_id, step.hold)
    tx.run("signals.pass_on", run=step.run, successor=found[0])
    return int(found[0])
