"""Checks of a turn whose code cannot continue: it must not leave recorded work or unawaited operations behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.errors import ReplayError, StuckError
from stepwell.model.failures import record_failure
from stepwell.replay import divergence

if TYPE_CHECKING:
    from stepwell.replay.turn import Turn


def find_unpassed(turn: Turn) -> ReplayError | None:
    """The divergence of code that has received every recorded result and has not reached every recorded operation."""
    if turn.problem is not None:
        return None
    entries, waits = turn.journal.unpassed(turn.run.loose)
    if not entries and not waits:
        return None
    path = turn.journal.names.text
    recorded = [(path(entry.location), entry.kind.word) for entry in entries]
    stands = [(path(wait.location), wait.kind.value) for wait in waits]
    return divergence.stopped_early(recorded, stands, _describe(turn))


def find_loss(turn: Turn) -> ReplayError | None:
    """The error for work that would be lost silently, once the code has ended or everything in it waits."""
    if isinstance(turn.loop.problem, ReplayError):
        return turn.loop.problem
    if turn.is_ended:
        error = turn.error
        if error is None:
            return _find_left(turn)
        return error if isinstance(error, ReplayError) else None
    bodies = turn.bodies
    if not bodies.are_idle:
        return None
    if not (turn.waits.armed or bodies.yielded or turn.order.held):
        return StuckError(
            f"workflow {turn.run.workflow} awaits something that no operation will complete",
            why="all of its operations have ended, and the code still waits",
            fix="await only operations of ctx; wait for the outside world with ctx.receive or inside a step",
        )
    if turn.unawaited and turn.loop.problem is not None:
        path = turn.journal.names.text
        return divergence.unawaited([path(operation.location) for operation in turn.unawaited.values()])
    return None


def _find_left(turn: Turn) -> ReplayError | None:
    """The error for work that the code has left when it returned."""
    path, bodies = turn.journal.names.text, turn.bodies
    if turn.unawaited or bodies.asked or bodies.in_flight or bodies.yielded or turn.waits.armed:
        lost = [operation.location for operation in turn.unawaited.values()]
        lost += [body.location for body in bodies.open]
        lost += [*turn.waits.armed, *bodies.yielded.values()]
        return divergence.unawaited([path(location) for location in lost])
    if turn.journal.unvisited > 0:
        missing, _ = turn.journal.unpassed(turn.run.loose)
        if missing:
            return divergence.not_visited([(path(entry.location), entry.kind) for entry in missing])
    return None


def _describe(turn: Turn) -> divergence.CodeState:
    """How far the code has come."""
    path = turn.journal.names.text
    if turn.is_ended:
        error = turn.error
        if error is None:
            return divergence.CodeState("it returns")
        return divergence.CodeState(f"it raises {record_failure(error).summary}", raises=True)
    asked = [path(body.location) for body in (*turn.bodies.asked, *turn.bodies.transactions)]
    if asked:
        return divergence.CodeState(f"it asks for {', '.join(asked[:5])}", asked[0])
    armed = [(path(at), one.wait.kind.value) for at, one in sorted(turn.waits.armed.items())]
    if not armed:
        return divergence.CodeState("it waits elsewhere")
    shown = ", ".join(f"a {kind} at {at}" for at, kind in armed[:5])
    return divergence.CodeState(f"it waits for {shown}", armed[0][0])
