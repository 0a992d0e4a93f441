"""Rehearsals: replay a run to learn whether its code still fits. No body runs, and nothing is recorded."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepwell.clock import Instant
from stepwell.codec.base import Codec
from stepwell.codec.signatures import hints_of
from stepwell.environment import LockstepThreads
from stepwell.errors import ReplayError
from stepwell.model.failures import record_failure
from stepwell.model.locations import Location, shown_gate
from stepwell.model.runs import History, Inbox, Run
from stepwell.model.states import ENDS_FOR_GOOD, TERMINAL, EntryKind, RunStatus
from stepwell.replay.compensations import UndoFailed, read_call
from stepwell.replay.driver import begin_forward, begin_rollback
from stepwell.replay.headers import unpack
from stepwell.replay.journal import Journal
from stepwell.replay.rollback import left_to_undo
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow

# Before every deadline, so that no timer fires in a rehearsal.
BEFORE_DEADLINES = Instant(0)
NOTHING_CAME = Inbox()
_UNDOES = frozenset({RunStatus.CANCELLING, RunStatus.COMPENSATING, RunStatus.COMPENSATION_FAILED})


class Rehearsal(NamedTuple):
    """The result of a dry replay."""

    problem: ReplayError | None  # why the run could not continue; None if it could
    asks: tuple[str, ...] = ()  # the paths of the bodies that it would run next
    waits: tuple[str, ...] = ()  # the paths at which it would wait
    is_ended: bool = False  # the code ends with the recorded results
    unable: tuple[ReplayError, ...] = ()  # steps that a rollback could not undo, each with the reason
    pins: tuple[tuple[str, int], ...] = ()  # the gates that it has passed, recorded or not, and their versions


class Asked(NamedTuple):
    """A step that the code would run next."""

    location: Location
    path: str
    hint: Any  # the type of its result
    names: tuple[str, ...]  # of the run, including new names of the code


def find_next_steps(
    workflow: Workflow[Any, Any], run: Run, history: History, codec: Codec, threads: LockstepThreads | None = None
) -> list[Asked]:
    """The steps that a run would run next, if it is not rolling back."""
    turn = begin_forward(workflow, run, Journal(run.run_id, history, run.last_seq), NOTHING_CAME, codec, threads)
    try:
        turn.rehearse(BEFORE_DEADLINES)
        names = turn.journal.names
        return [
            Asked(body.location, names.text(body.location), hints_of(body.fn).returns, names.texts)
            for body in (*turn.bodies.asked, *turn.bodies.transactions)
        ]
    finally:
        turn.close()


def rehearse(
    workflow: Workflow[Any, Any], run: Run, history: History, codec: Codec, threads: LockstepThreads | None = None
) -> ReplayError | None:
    """Why a run that has not ended could not continue with this code; None if it could."""
    return None if run.status in TERMINAL else perform(workflow, run, history, codec, threads).problem


def perform(
    workflow: Workflow[Any, Any],
    run: Run,
    history: History,
    codec: Codec,
    threads: LockstepThreads | None = None,
    inbox: Inbox = NOTHING_CAME,
) -> Rehearsal:
    """Replay the history of a run, as its next claim would, up to the first new operation. Messages in `inbox` that are
    not recorded yet are handed to it, too.

    A worker drives the same kind of turn, and the turn compares code and history, so a rehearsal finds what a worker
    would find. A run that rolls back must find its compensations and their input. For an ended run, all of its forward
    code is replayed, without its rollback.
    """
    if run.status in ENDS_FOR_GOOD:
        history = history._replace(entries=tuple(entry._replace(undo=None) for entry in history.entries))
    journal = Journal(run.run_id, history, run.last_seq)
    turn = _begin(workflow, run, journal, codec, threads, inbox)
    if turn is None:
        return Rehearsal(None, is_ended=True)
    try:
        turn.rehearse(BEFORE_DEADLINES)
        text = turn.journal.names.text
        asks = tuple(text(body.location) for body in (*turn.bodies.asked, *turn.bodies.transactions))
        unable = _find_unable(turn, run.undo_floor if _undoes(run) else 0)
        problem = turn.problem or (unable[0] if unable and _undoes(run) else None)
        waits = tuple(text(wait.location) for wait in turn.waits.all)
        return Rehearsal(problem, asks, waits, turn.is_ended, unable, _pins(turn))
    finally:
        turn.close()


def _undoes(run: Run) -> bool:
    return run.status in _UNDOES or (run.status is RunStatus.PAUSED and run.cause is not None)


def _begin(
    workflow: Workflow[Any, Any],
    run: Run,
    journal: Journal,
    codec: Codec,
    threads: LockstepThreads | None,
    inbox: Inbox,
) -> Turn | None:
    if run.status in TERMINAL:
        _leave_out_undoing(journal)
        run = run._replace(status=RunStatus.RUNNING)
    if not _undoes(run):
        return begin_forward(workflow, run, journal, inbox, codec, threads)
    if run.status is RunStatus.CANCELLING:
        # The forward code does not continue, so its waits do not matter.
        run, journal.waits = run._replace(undo_floor=0), {}
    if not left_to_undo(journal, run.undo_floor):
        return None
    undoing = run._replace(status=RunStatus.COMPENSATING)
    return begin_rollback(workflow, undoing, journal, inbox, codec, BEFORE_DEADLINES, threads)


def _leave_out_undoing(journal: Journal) -> None:
    """Mark the entries of a rollback as passed: undos, and what is below them."""
    for entry in tuple(journal.entries.values()):
        if entry.kind is EntryKind.UNDO:
            journal.skip_below(entry.location)


def _find_unable(turn: Turn, floor: int) -> tuple[ReplayError, ...]:
    """Why steps could not be undone: a compensation is no longer known, or does not take its arguments."""
    unable = []
    for entry in left_to_undo(turn.journal, floor):
        try:
            read_call(turn, entry)
        except UndoFailed as error:
            failure = error.failure
            unable.append(ReplayError(failure.message, where=failure.path, why=failure.why, fix=failure.fix))
    return tuple(unable)


def _pins(turn: Turn) -> tuple[tuple[str, int], ...]:
    return tuple(
        (shown_gate(turn.journal.names.text(entry.location)), int(unpack(entry.value)[0][0]))
        for entry in turn.journal.entries.values()
        if entry.kind is EntryKind.VERSION
    )


def describe_break(error: Exception) -> ReplayError:
    """The problem of a replay that raised an unexpected error: the run would not continue either."""
    return ReplayError(f"the replay failed: {record_failure(error).summary}")
