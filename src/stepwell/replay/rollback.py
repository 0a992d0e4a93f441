"""Rollback: compensations run strictly last in, first out, each until it is recorded as done."""

from __future__ import annotations

from stepwell.errors import ReplayError
from stepwell.model.entries import Entry
from stepwell.model.failures import record_failure
from stepwell.model.locations import ROOT, undo
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.compensations import UndoFailed, read_call, signature_of
from stepwell.replay.event_loop import SCOPE
from stepwell.replay.journal import Journal
from stepwell.replay.parameters import takes
from stepwell.replay.plain_code import plain_branch
from stepwell.replay.primitives.step import perform
from stepwell.replay.scopes import Scope
from stepwell.replay.steps import step_of
from stepwell.replay.sync_context import SyncContext
from stepwell.replay.turn import Turn

NOTHING = b"jnull"


def left_to_undo(journal: Journal, floor: int) -> list[Entry]:
    """The entries that are not undone yet, last committed first."""
    return journal.left_to_undo(floor)


async def unwind(turn: Turn) -> None:
    """Undo everything above the run's floor. Raises `UndoFailed` at the first compensation that fails permanently.

    Compensations see the time of the last undo. The first one sees the beginning of the rollback, which is recorded
    before code can see it.
    """
    undone = [entry.at for entry in turn.journal.entries.values() if entry.kind is EntryKind.UNDO]
    scope = Scope(turn, ROOT, max(undone, default=turn.now))
    for entry in left_to_undo(turn.journal, turn.run.undo_floor):
        turn.check_open()
        await _undo(scope, entry)


async def _undo(scope: Scope, entry: Entry) -> None:
    turn, location = scope.turn, undo(entry.location)
    compensation, given = read_call(turn, entry)
    signature = signature_of(compensation)
    is_plain = takes(signature, "SyncContext")
    if not is_plain and not takes(signature, "Context"):
        entry, _ = await perform(scope, location, EntryKind.UNDO, step_of(compensation), given, {})
        scope.note_result(entry)
        return
    _record_beginning(scope)
    first_at, inner = scope.time, scope.below(location)
    SCOPE.set(inner)
    try:
        run = plain_branch(compensation, SyncContext) if is_plain else compensation
        await run(turn.context(inner), *given)
        if turn.background is not None:
            await turn.background.finish()
            turn.background.check()
    except ReplayError:
        raise
    except Exception as error:
        raise UndoFailed(record_failure(error, path=turn.journal.names.text(location))) from error
    scope.note_result(
        turn.journal.record(location, EntryKind.UNDO, EntryStatus.DONE, NOTHING, turn.now, turn.now - first_at)
    )
    inner.ended()


def _record_beginning(scope: Scope) -> None:
    """Record when the rollback reached its first compensation with a context, so that a replay sees the same time."""
    journal, beginning = scope.turn.journal, undo(ROOT)
    if beginning not in journal.entries:
        scope.note_result(journal.record(beginning, EntryKind.UNDO, EntryStatus.DONE, NOTHING, scope.turn.now))
