"""Replaying a run for the sake of knowing that it can be: no body runs, and nothing is recorded."""

from __future__ import annotations

from typing import Any

from stepwell.clock import Instant
from stepwell.codec.base import Codec
from stepwell.environment import Strands
from stepwell.errors import HistoryDivergedError, ReplayError
from stepwell.model.failures import record_failure
from stepwell.model.runs import History, Inbox, Run
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.replay.calls import UndoFailed
from stepwell.replay.definition import Workflow
from stepwell.replay.driver import begin_forward, begin_rollback
from stepwell.replay.journal import Journal
from stepwell.replay.rollback import left_to_undo
from stepwell.replay.turn import Turn

# Before every deadline: a rehearsal lets no timer fire.
_THEN = Instant(0)
_UNDOES = frozenset({RunStatus.CANCELLING, RunStatus.COMPENSATING, RunStatus.COMPENSATION_FAILED})


def rehearse(
    workflow: Workflow[Any, Any], run: Run, history: History, codec: Codec, strands: Strands | None = None
) -> ReplayError | None:
    """What would keep a run that has not ended from going on with this code; None if nothing does.

    The code runs over what is recorded, as the next claim of the run would make it, up to where it asks for a body or
    waits for the world. It must pass everything that is recorded and come to everything that is waited for. A run that
    undoes must find its compensations and their input.
    """
    if run.status in TERMINAL:
        return None
    journal = Journal(run.run_id, history, run.last_seq)
    turn = _begin(workflow, run, journal, codec, strands)
    if turn is None:
        return None
    try:
        turn.advance(_THEN)
        if turn.problem is not None:
            return turn.problem
        if run.status in _UNDOES:
            return _find_unable(turn)
        return _find_left(turn)
    finally:
        turn.close()


def _begin(
    workflow: Workflow[Any, Any], run: Run, journal: Journal, codec: Codec, strands: Strands | None
) -> Turn | None:
    if run.status not in _UNDOES:
        return begin_forward(workflow, run, journal, Inbox(), codec, strands)
    if run.status is RunStatus.CANCELLING:
        # The forward code goes no further, and what it waited for does not matter.
        run, journal.waits = run._replace(undo_floor=0), {}
    if not left_to_undo(journal, run.undo_floor):
        return None
    undoing = run._replace(status=RunStatus.COMPENSATING)
    return begin_rollback(workflow, undoing, journal, Inbox(), codec, _THEN, strands)


def _find_unable(turn: Turn) -> ReplayError | None:
    """Why a rollback could not go on: only a compensation that cannot be called fails before any body has run."""
    error = turn.error if turn.is_ended else None
    if not isinstance(error, UndoFailed):
        return None
    failure = error.failure
    return ReplayError(failure.message, where=failure.path, why=failure.why, fix=failure.fix)


def _describe(turn: Turn) -> str:
    """How far the code has come."""
    if turn.is_ended:
        return "it returns" if turn.error is None else f"it raises {record_failure(turn.error).summary}"
    asked = [turn.journal.names.text(body.location) for body in (*turn.bodies, *turn.transactions)]
    return f"it asks for {', '.join(asked[:5])}" if asked else "it waits elsewhere"


def _find_left(turn: Turn) -> ReplayError | None:
    """What the code should have come to before it ends or asks for anything new."""
    text, journal, where = turn.journal.names.text, turn.journal, f"now: {_describe(turn)}"
    missing = [f"{entry.kind.word} {text(entry.location)}" for entry in journal.missing()] if journal.unvisited else []
    if missing:
        return HistoryDivergedError(
            f"the code stops before {len(missing)} recorded operation{'s' if len(missing) > 1 else ''}",
            where=missing[0].partition(" ")[2],
            why=f"recorded: {', '.join(missing[:5])} · {where}",
            fix="use the code that recorded them; if the code was changed on purpose, see ctx.version",
        )
    ahead = sorted(journal.ahead)
    if not ahead:
        return None
    return HistoryDivergedError(
        f"the run waits at {text(ahead[0])}, and the code does not come there",
        where=text(ahead[0]),
        why=f"recorded: a wait for a {journal.waits[ahead[0]].kind.value} at {text(ahead[0])} · {where}",
        fix="use the code that recorded it, until no run stands there",
    )
