"""Unwinding: compensations run strictly last in, first out, each exactly once."""

from __future__ import annotations

from stepwell.errors import ReplayError
from stepwell.model.entries import Entry
from stepwell.model.failures import record_failure
from stepwell.model.locations import ROOT, undo
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.calls import UndoFailed, read_call, signature_of
from stepwell.replay.definition import step_of, takes
from stepwell.replay.journal import Journal
from stepwell.replay.primitives.step import perform
from stepwell.replay.scopes import Scope
from stepwell.replay.sync_context import plain_branch
from stepwell.replay.turn import Turn

NOTHING = b"jnull"


def left_to_undo(journal: Journal, floor: int) -> list[Entry]:
    """The entries that are not undone yet, last committed first."""
    return [entry for entry in journal.undo_stack(floor) if undo(entry.location) not in journal.entries]


async def unwind(turn: Turn) -> None:
    """Undo everything above the run's floor. Raises `UndoFailed` at the first compensation that fails for good."""
    scope = Scope(turn, ROOT, turn.now)
    for entry in left_to_undo(turn.journal, turn.run.undo_floor):
        turn.check_open()
        await _undo(scope, entry)


async def _undo(scope: Scope, entry: Entry) -> None:
    turn, location = scope.turn, undo(entry.location)
    compensation, given = read_call(turn, entry)
    signature = signature_of(compensation)
    is_plain = takes(signature, "SyncContext")
    if not is_plain and not takes(signature, "Context"):
        await perform(scope, location, EntryKind.UNDO, step_of(compensation), given, {})
        return
    first_at, inner = turn.now, scope.below(location)
    try:
        run = plain_branch(compensation) if is_plain else compensation
        await run(turn.context(inner), *given)
    except ReplayError:
        raise
    except Exception as error:
        raise UndoFailed(record_failure(error, path=turn.journal.names.text(location))) from error
    turn.journal.record(location, EntryKind.UNDO, EntryStatus.DONE, NOTHING, turn.now, turn.now - first_at)
    inner.ended()
