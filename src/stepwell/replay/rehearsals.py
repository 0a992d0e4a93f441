"""Replaying a run for the sake of knowing that it can be: no body runs, and nothing is recorded."""

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

# Before every deadline: a rehearsal lets no timer fire.
_THEN = Instant(0)
NOTHING_CAME = Inbox()
_UNDOES = frozenset({RunStatus.CANCELLING, RunStatus.COMPENSATING, RunStatus.COMPENSATION_FAILED})


class Rehearsal(NamedTuple):
    """What came of replaying a run."""

    problem: ReplayError | None  # what would keep it from going on
    asks: tuple[str, ...] = ()  # the paths of the bodies that it would run next
    waits: tuple[str, ...] = ()  # the paths of what it would wait for
    is_ended: bool = False  # the code comes to an end with what is recorded
    unable: tuple[ReplayError, ...] = ()  # what it could not undo, if it had to
    pins: tuple[tuple[str, int], ...] = ()  # the gates that it has passed, recorded or not, and what it is pinned to


class Asked(NamedTuple):
    """A step that the code would do next."""

    location: Location
    path: str
    hint: Any  # the type of its result
    names: tuple[str, ...]  # of the run, with those that only the code knows yet


def what_is_asked(
    workflow: Workflow[Any, Any], run: Run, history: History, codec: Codec, threads: LockstepThreads | None = None
) -> list[Asked]:
    """The steps that a run would do next, if it goes on forwards."""
    turn = begin_forward(workflow, run, Journal(run.run_id, history, run.last_seq), NOTHING_CAME, codec, threads)
    try:
        turn.rehearse(_THEN)
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
    """What would keep a run that has not ended from going on with this code; None if nothing does."""
    return None if run.status in TERMINAL else perform(workflow, run, history, codec, threads).problem


def perform(
    workflow: Workflow[Any, Any],
    run: Run,
    history: History,
    codec: Codec,
    threads: LockstepThreads | None = None,
    inbox: Inbox = NOTHING_CAME,
) -> Rehearsal:
    """Replay what is recorded of a run, as the next claim of it would, up to where it asks for something new. What has
    come for it and is not recorded yet is handed to it, too, if it is given.

    The turn is the one that a worker drives, and it is the turn that finds code and record apart: so a rehearsal says
    what a worker would say. A run that undoes must find its compensations and their input. Of one that has ended, all
    that its code did is replayed, and not how it was undone.
    """
    if run.status in ENDS_FOR_GOOD:
        history = history._replace(entries=tuple(entry._replace(undo=None) for entry in history.entries))
    journal = Journal(run.run_id, history, run.last_seq)
    turn = _begin(workflow, run, journal, codec, threads, inbox)
    if turn is None:
        return Rehearsal(None, is_ended=True)
    try:
        turn.rehearse(_THEN)
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
        # The forward code goes no further, and what it waited for does not matter.
        run, journal.waits = run._replace(undo_floor=0), {}
    if not left_to_undo(journal, run.undo_floor):
        return None
    undoing = run._replace(status=RunStatus.COMPENSATING)
    return begin_rollback(workflow, undoing, journal, inbox, codec, _THEN, threads)


def _leave_out_undoing(journal: Journal) -> None:
    """Count as passed what a rollback recorded: an undo, and what is below it."""
    for entry in tuple(journal.entries.values()):
        if entry.kind is EntryKind.UNDO:
            journal.skip_below(entry.location)


def _find_unable(turn: Turn, floor: int) -> tuple[ReplayError, ...]:
    """What could not be undone: the compensation is not known any more, or does not take what it would be given."""
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
    """What is said of a replay that could not be carried through: whatever it is, the run would not go on."""
    return ReplayError(f"the replay broke off: {record_failure(error).summary}")
