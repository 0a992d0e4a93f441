"""Start another workflow as a child: wait for it, or let it go."""

from __future__ import annotations

from typing import Any

from stepwell.clock import Span
from stepwell.codec.base import Place
from stepwell.errors import ChildFailed
from stepwell.ids import RunId, derived_run_id
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.runs import ChildOutcome, NewRun, Parent, normal_key
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.replay.definition import Workflow
from stepwell.replay.packing import pack, unpack
from stepwell.replay.recorded import decode_value
from stepwell.replay.revival import revive
from stepwell.replay.scopes import Scope


async def run_child(
    scope: Scope, location: Location, entry: Entry | None, child: Workflow[Any, Any], input: Any, key: str | None
) -> Any:
    """The child's result. Raises `ChildFailed` if it did not complete."""
    turn = scope.turn
    if entry is None:
        started_at = scope.time
        if turn.stored_wait(location, WaitKind.CHILD) is None:
            turn.journal.start_child(new_child(scope, location, child, input, key, detached=False))
        outcome = await turn.wait(location, WaitKind.CHILD, None)
        assert isinstance(outcome, ChildOutcome)
        entry = _record(scope, location, outcome, turn.now - started_at)
    else:
        await turn.in_order(entry)
    scope.saw(entry)
    if entry.status is EntryStatus.FAILED:
        raise revive(decode_failure(entry.value))
    _, output = unpack(entry.value)
    return decode_value(turn, location, output, child.output_hint, "the child's result")


def _record(scope: Scope, location: Location, outcome: ChildOutcome, took: int) -> Entry:
    turn = scope.turn
    if outcome.status is RunStatus.COMPLETED and outcome.output is not None:
        value = pack([outcome.run_id], outcome.output)
        return turn.journal.record(location, EntryKind.CHILD, EntryStatus.DONE, value, turn.now, took)
    failure = decode_failure(outcome.failure) if outcome.failure is not None else None
    error = ChildFailed(turn.journal.names.text(location), outcome.run_id, outcome.status.value, failure)
    value = encode_failure(record_failure(error))
    return turn.journal.record(location, EntryKind.CHILD, EntryStatus.FAILED, value, turn.now, took)


async def run_spawn(
    scope: Scope, location: Location, entry: Entry | None, child: Workflow[Any, Any], input: Any, key: str | None
) -> RunId:
    """Start a run that nobody waits for; its id."""
    turn = scope.turn
    if entry is None:
        await turn.after_replay()
        new = new_child(scope, location, child, input, key, detached=True)
        turn.journal.start_child(new)
        entry = turn.journal.record(location, EntryKind.SPAWN, EntryStatus.DONE, pack([new.run_id], b""), turn.now)
    else:
        await turn.in_order(entry)
    scope.saw(entry)
    (run_id,), _ = unpack(entry.value)
    return RunId(run_id)


def new_child(
    scope: Scope, location: Location, child: Workflow[Any, Any], input: Any, key: str | None, *, detached: bool
) -> NewRun:
    """The one child of this place, whose id is the same however often it is computed."""
    turn = scope.turn
    path = turn.journal.names.text(location)
    place = Place(turn.run.workflow, path, "the input")
    hint = child.input_hint if child.takes_input else Any
    return NewRun(
        derived_run_id(turn.run.run_id, path),
        child.name,
        child.version,
        turn.codec.encode(
            turn.codec.validate(input, hint, place=place) if child.takes_input else None, hint, place=place
        ),
        None if key is None else normal_key(key),
        Parent(turn.run.run_id, location, detached),
        Span(0),
    )
