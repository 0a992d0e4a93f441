"""The first branch wins; the others are cancelled and their history is removed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final, Literal, NamedTuple, get_args

from stepwell.errors import RaceError
from stepwell.errors.records import FailureRecord
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.model.locations import Location, subtree
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.branches import Branch, Branches, Finished, Guard, decode_branch, guard_of
from stepwell.replay.headers import pack, unpack
from stepwell.replay.revival import revive
from stepwell.replay.scopes import Scope

First = Literal["success", "settled"]
FIRST: Final = get_args(First)


class Winner(NamedTuple):
    """The branch that won a race, and its value."""

    branch: str
    value: Any


async def run_race(
    scope: Scope, location: Location, entry: Entry | None, branches: Mapping[str, Branch], first: First
) -> Winner:
    """The first branch to succeed (or to end, with `first="settled"`). Raises `RaceError` if none does."""
    turn = scope.turn
    if entry is None:
        started_at = scope.time
        guard = guard_of(scope, location, "race", "race", branches.values())
        with guard or nullcontext():
            outcome = await _compete(scope, location, branches, first, guard)
            if guard is not None:
                guard.check()
        await turn.order.reach_end()
        took = turn.now - started_at
        if isinstance(outcome, Finished):
            value = pack([outcome.name], outcome.value)
            entry = turn.journal.record(location, EntryKind.RACE, EntryStatus.DONE, value, turn.now, took)
        else:
            entry = turn.journal.record(
                location, EntryKind.RACE, EntryStatus.FAILED, encode_failure(outcome), turn.now, took
            )
    else:
        turn.journal.skip_below(location)
        await turn.order.reach(entry)
    scope.note_result(entry)
    if entry.status is EntryStatus.FAILED:
        raise revive(decode_failure(entry.value))
    (name,), stored = unpack(entry.value)
    return Winner(name, decode_branch(scope, location, name, branches[name], stored) if name in branches else None)


async def _compete(
    scope: Scope, location: Location, branches: Mapping[str, Branch], first: First, guard: Guard | None
) -> Finished | FailureRecord:
    running = Branches(scope, location, branches, guard)
    failures: dict[str, FailureRecord] = {}
    try:
        for _ in branches:
            settled = await running.next()
            if isinstance(settled, Finished):
                await running.cancel()
                for name in failures:
                    scope.turn.journal.trim(*subtree(running.scopes[name].location))
                return settled
            if first == "settled":
                await running.cancel()
                return settled.failure
            failures[settled.name] = settled.failure
    finally:
        running.close()
    errors: dict[str, Exception] = {name: revive(failure) for name, failure in failures.items()}
    return record_failure(RaceError(scope.turn.journal.names.text(location), errors))
