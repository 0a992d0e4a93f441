"""A checkpoint: a `Rollback` to it undoes only later steps."""

from __future__ import annotations

from stepwell.errors import CheckpointMissingError
from stepwell.model.entries import Entry
from stepwell.model.locations import Location
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.journal import Journal
from stepwell.replay.scopes import Scope


async def run_checkpoint(scope: Scope, location: Location, entry: Entry | None) -> None:
    """Record the checkpoint; `Rollback(to=name)` undoes only steps after it."""
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
            f"the code raised a rollback to checkpoint {name!r}, which this run has not passed",
            why="a checkpoint counts once the run has passed it; checkpoints in branches that lost a race do not count",
            fix=f'call `await ctx.rollback_checkpoint("{name}")` before the steps that the rollback should undo',
        )
    return max(same)
