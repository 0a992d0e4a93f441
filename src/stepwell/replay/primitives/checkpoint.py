"""A line that a `Rollback` does not go beyond."""

from __future__ import annotations

from stepwell.errors import CheckpointMissingError
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.journal import Journal
from stepwell.replay.scopes import Scope


async def run_checkpoint(scope: Scope, location: Location, entry: Entry | None) -> None:
    """Mark the place; `Rollback(to=name)` undoes only what came after it."""
    turn = scope.turn
    if entry is None:
        await turn.order.reach_end()
        entry = turn.journal.record(location, EntryKind.CHECKPOINT, EntryStatus.DONE, b"jnull", turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)


def checkpoint_floor(journal: Journal, name: str) -> int:
    """The seq of the latest checkpoint of that name. Raises `CheckpointMissingError` if the run has not passed one."""
    marks = [entry for entry in journal.entries.values() if entry.kind is EntryKind.CHECKPOINT]
    same = [
        mark.seq for mark in marks if journal.names.text(mark.location).rpartition("/")[2].partition("#")[0] == name
    ]
    if not same:
        raise CheckpointMissingError(
            f"a rollback to checkpoint {name!r} was asked for, and this run has not passed it",
            why="or only in a branch of a race that lost, which is forgotten",
            fix=f'call `await ctx.rollback_checkpoint("{name}")` before what is to be undone',
        )
    return max(same)
