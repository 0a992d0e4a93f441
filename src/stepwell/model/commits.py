"""Commits: everything a turn writes, applied whole under a fence or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, assert_never

from stepwell.clock import Instant
from stepwell.ids import Incarnation, RunId
from stepwell.model.attributes import Description
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.live import Append, Published
from stepwell.model.locations import Location
from stepwell.model.outbox import Announce, Emit
from stepwell.model.records import RecordClosing, RecordOpening
from stepwell.model.runs import Claimed, NewRun
from stepwell.model.signals import Refusal, Reply
from stepwell.model.states import TERMINAL, RunStatus, check_move
from stepwell.model.waits import Wait
from stepwell.model.workers import Fence


class Park(NamedTuple):
    """Release the run until a wait is satisfied. The store checks in the same transaction whether one already is."""

    wake_at: Instant | None  # the earliest deadline of the waits


class Release(NamedTuple):
    """Release the run unchanged; any worker may claim it at once."""


class Pause(NamedTuple):
    """Stop until an operator resumes it."""

    failure: bytes


class BeginRollback(NamedTuple):
    """Enter `compensating`, still owned."""

    cause: str  # "failed" or "cancelled"
    failure: bytes | None
    undo_floor: int = 0


class End(NamedTuple):
    """Reach a terminal status, or `compensation_failed`."""

    status: RunStatus
    output: bytes | None = None
    failure: bytes | None = None
    successor: NewRun | None = None  # with `continued`
    names: tuple[str, ...] = ()  # of the successor; `entries` are what it begins with: what is left to undo, from seq 1
    entries: tuple[Entry, ...] = ()
    # Only if no signal with a greater number waits to be read: see `Verdict.UNREAD`. None: whatever waits.
    unread_above: int | None = None


Move = Park | Release | Pause | BeginRollback | End
_ENDS = TERMINAL | {RunStatus.COMPENSATION_FAILED}


class Commit(NamedTuple):
    """One atomic write of a turn.

    `number` counts 1, 2, 3 … within an epoch. Applying the last number again changes nothing and returns the same
    answer, so a commit whose acknowledgement was lost can be sent again.
    """

    run_id: RunId
    fence: Fence
    number: int
    names: tuple[str, ...] = ()  # appended to the run's numbered names
    entries: tuple[Entry, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    ended_cursors: tuple[Location, ...] = ()
    # Key ranges that the run no longer needs (expired loop iterations, the losers of a race). The store deletes their
    # attempts, their cursors and their entries without `undo`, and cancels, with compensation, attached children that
    # were started there and are still active.
    trims: tuple[tuple[Location, Location], ...] = ()
    consumed: tuple[int, ...] = ()  # signal numbers
    children: tuple[NewRun, ...] = ()
    waits: tuple[Wait, ...] | None = None  # the whole set, if it changed
    move: Move | None = None  # None: the run stays running and owned
    refused: tuple[Refusal, ...] = ()  # signals that do not fit; no longer pending, and kept for an operator
    replies: tuple[Reply, ...] = ()
    received: tuple[int, ...] = ()  # numbers of events in the run's inbox
    emits: tuple[Emit, ...] = ()
    announce: Announce | None = None  # sinks to notify of the runs that this commit ends
    published: tuple[Published, ...] = ()
    appends: tuple[Append, ...] = ()
    progress: tuple[Progress, ...] = ()  # of bodies that are running, or gave their slot back
    ended_progress: tuple[Location, ...] = ()
    ended_attempts: tuple[tuple[Location, int], ...] = ()  # recorded beginnings of steps that are done
    opened: tuple[RecordOpening, ...] = ()
    closed: tuple[RecordClosing, ...] = ()
    description: Description | None = None  # what changes of the run's attributes, title and tags


class Verdict(StrEnum):
    """What became of a commit."""

    APPLIED = "applied"
    FENCED = "fenced"  # the sender does not own the run: nothing was written
    CANCELLING = "cancelling"  # a cancel was recorded first and rules `move` out: nothing was written
    # Signals wait that the run may still want to read: nothing was written. Of a run that continues another one, only
    # if it has received signals, or if some of them came after it began: the others it had when it began, and left.
    UNREAD = "unread"
    EXPIRED = "expired"  # the run's deadline passed first and rules `move` out: nothing was written


class Applied(NamedTuple):
    """The outcome of one commit."""

    verdict: Verdict
    cancelling: bool = False  # applied, and a cancel is recorded
    revision: int = 0
    is_awake: bool = False  # the run was released to wait, and one of its waits is satisfied already
    claimed: tuple[Claimed, ...] = ()  # children claimed for the committer in the same transaction
    held: bool = False  # applied, and a person has paused the run: the worker releases it between two steps


class Standing(NamedTuple):
    """The facts about a run that decide whether a commit to it is written."""

    status: RunStatus
    owner: Incarnation | None
    epoch: int
    number: int  # of the last commit in this epoch
    last_seq: int
    deadline_at: Instant | None


def judge(commit: Commit, standing: Standing, now: Instant, *, has_work: bool = False) -> Verdict | None:
    """Decide whether a commit is written: None if it is, otherwise the verdict that its sender gets.

    `APPLIED` is the verdict on a commit that was written before. With `has_work`, a body is about to write rows of its
    own in the same transaction; it must not begin once a cancel is recorded. Raises `ValueError` or `InvalidMoveError`
    for a commit that has the next number and that no worker may send.
    """
    if standing.epoch != commit.fence.epoch or commit.number < 1:
        return Verdict.FENCED
    if commit.number == standing.number:
        return Verdict.APPLIED
    if standing.owner != commit.fence.incarnation or commit.number != standing.number + 1:
        return Verdict.FENCED
    move, status = commit.move, standing.status
    if status is RunStatus.CANCELLING and (has_work or not may_follow_cancel(move)):
        return Verdict.CANCELLING
    deadline_at = standing.deadline_at if status is RunStatus.RUNNING else None
    if deadline_at is not None and deadline_at <= now and not may_follow_deadline(move):
        return Verdict.EXPIRED
    check_entries(commit.run_id, commit.entries, standing.last_seq)
    if move is not None:
        _check_move(status, move)
    return None


def may_follow_cancel(move: Move | None) -> bool:
    """Whether a move is still possible once a cancel has been recorded."""
    match move:
        case None | Release():
            return True
        case BeginRollback(cause=cause):
            return cause == "cancelled"
        case End(status=status):
            return status is RunStatus.CANCELLED
        case Park() | Pause():
            return False
        case _:
            assert_never(move)


def may_follow_deadline(move: Move | None) -> bool:
    """Whether a move is still possible once the deadline of a running run has passed: anything but success."""
    match move:
        case End(status=status):
            return status not in (RunStatus.COMPLETED, RunStatus.CONTINUED)
        case None | Park() | Release() | Pause() | BeginRollback():
            return True
        case _:
            assert_never(move)


def check_entries(run_id: RunId, entries: Sequence[Entry], last_seq: int) -> int:
    """The seq of the last entry. Raises `ValueError` unless they continue the history: a gap is a lost result."""
    for entry in entries:
        last_seq += 1
        if entry.seq != last_seq:
            raise ValueError(f"run {run_id} expects entry {last_seq}, not {entry.seq}")
    return last_seq


def _check_move(status: RunStatus, move: Move) -> None:
    match move:
        case Park():
            if status is not RunStatus.COMPENSATING:
                check_move(status, RunStatus.WAITING)
        case Release():
            pass
        case Pause():
            check_move(status, RunStatus.PAUSED)
        case BeginRollback():
            check_move(status, RunStatus.COMPENSATING)
        case End():
            if move.status not in _ENDS:
                raise ValueError(f"a run cannot end as {move.status.value}")
            if (move.status is RunStatus.CONTINUED) != (move.successor is not None):
                raise ValueError("a continued run has a successor, and no other run has one")
            if move.successor is not None:
                check_entries(move.successor.run_id, move.entries, 0)
            check_move(status, move.status)
        case _:
            assert_never(move)
