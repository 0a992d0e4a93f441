"""Start another workflow as a child: wait for it, or detach it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypedDict

from stepwell.clock import Span
from stepwell.codec.base import Place, Row
from stepwell.errors import ChildFailed, InvalidOptionError, StoreError
from stepwell.ids import RunId, derived_run_id
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.model.locations import Location
from stepwell.model.runs import ChildOutcome, NewRun, Parent, normal_key
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.tags import TRACE_TAG
from stepwell.replay.compensations import describe_call
from stepwell.replay.headers import pack, unpack
from stepwell.replay.journal import SPAWNED_MAX
from stepwell.replay.operations import Outcome
from stepwell.replay.recorded_values import decode_value, rebind_value, stopped
from stepwell.replay.revival import revive
from stepwell.replay.scopes import Scope
from stepwell.replay.step_options import StepOptions
from stepwell.replay.steps import Step
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow

OnParentClose = Literal["leave", "cancel"]


class StartOptions(TypedDict, total=False):
    """How a child is started; see `Context.child`."""

    key: str | None
    on_parent_close: OnParentClose


class ChildOptions(StartOptions, total=False):
    """The options of a child."""

    name: str | None
    repeat: bool


class ChildStart(NamedTuple):
    """How a child is started, with the defaults."""

    key: str | None = None
    on_parent_close: OnParentClose = "leave"


async def run_child(
    scope: Scope,
    location: Location,
    entry: Entry | None,
    child: Workflow[Any, Any],
    input: Any,
    options: ChildStart,
    undone: Step[..., Any] | None = None,
) -> Any:
    """The child's result. Raises `ChildFailed` if it did not complete. Cancelling this cancels the child."""
    turn = scope.turn
    if undone is not None:
        turn.journal.bound[location] = undone
    if entry is None:
        undo = None if undone is None else describe_call(turn, location, undone, _passed(child, input), {})
        started_at = scope.time
        try:
            outcome = await await_child(scope, location, child, input, options)
        except asyncio.CancelledError:
            if not turn.is_closed and turn.problem is None:
                turn.journal.cancel_child(location)
            raise
        entry = _record(scope, location, outcome, turn.now - started_at, undo)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    if entry.status is EntryStatus.FAILED:
        raise revive(decode_failure(entry.value))
    _, output = unpack(entry.value)
    return decode_value(turn, location, output, child.output_hint, "the child's result")


async def await_child(
    scope: Scope, location: Location, child: Workflow[Any, Any], input: Any, options: ChildStart
) -> ChildOutcome:
    """How the child ended, without recording it. Starts the child if it has not started."""
    turn = scope.turn
    if location in turn.journal.entries:
        path = turn.journal.names.text(location)
        raise InvalidOptionError(
            f"the code has already awaited child {path}", where=path, fix="leave it out: its result is known"
        )
    _check_free(scope, location)
    if turn.journal.find_wait(location, WaitKind.CHILD) is None:
        turn.journal.start_child(new_child(scope, location, child, input, options, detached=False))
    outcome = await turn.wait(location, WaitKind.CHILD, None)
    assert isinstance(outcome, ChildOutcome)
    return outcome


async def await_spawned(scope: Scope, run_id: RunId) -> ChildOutcome:
    """How a run that this one spawned ended, without recording it."""
    location = find_spawned(scope, run_id)
    if location is None:
        raise InvalidOptionError(
            f"run {run_id} was not spawned by this run",
            why=f"a run can wait only for runs that it spawned; from old loop iterations, for the last {SPAWNED_MAX:,}",
            fix="pass an id that ctx.spawn(...) returned in this run, and in a loop wait soon after the spawn",
        )
    _check_free(scope, location)
    outcome = await scope.turn.wait(location, WaitKind.CHILD, None)
    assert isinstance(outcome, ChildOutcome)
    return outcome


def find_spawned(scope: Scope, run_id: RunId) -> Location | None:
    """The place where this run spawned another run."""
    entries = scope.turn.journal.entries.values()
    spawned = (entry for entry in entries if entry.kind is EntryKind.SPAWN)
    return next((entry.location for entry in spawned if unpack(entry.value)[0][0] == run_id), None)


def _check_free(scope: Scope, location: Location) -> None:
    path = scope.turn.journal.names.text(location)
    if location in scope.turn.waits.armed:
        raise InvalidOptionError(
            f"the code already waits for child {path}", where=path, fix="wait for a child in one place at a time"
        )


def write_outcome(scope: Scope, location: Location, outcome: ChildOutcome) -> bytes:
    """The outcome of a child as a combined wait stores it."""
    if outcome.status is RunStatus.COMPLETED and outcome.output is not None:
        value = _own_copy(scope, location, outcome, outcome.output)
    else:
        value = outcome.failure or b""
    return pack([outcome.run_id, outcome.status.value], value)


def read_outcome(scope: Scope, location: Location, value: bytes, hint: Any) -> Outcome[Any]:
    """The outcome that `write_outcome` stored."""
    (_, status), stored = unpack(value)
    if status == RunStatus.COMPLETED.value:
        result = decode_value(scope.turn, location, stored, hint, "the child's result") if stored else None
        return Outcome(True, result, status, None)
    return Outcome(False, None, status, decode_failure(stored) if stored else None)


def undo_step(child: Workflow[Any, Any], compensate: Callable[..., Any]) -> Step[..., Any]:
    """A child as a step, for what undoes it: it is offered the input and the result. Raises `InvalidOptionError`."""

    def call(input: Any) -> Any: ...

    def call_alone() -> Any: ...

    fn = call if child.takes_input else call_alone
    fn.__annotations__ = {"input": child.input_hint} if child.takes_input else {}
    fn.__annotations__["return"] = child.output_hint
    return Step(fn, StepOptions(name=child.name, compensate=compensate))


def _passed(child: Workflow[Any, Any], input: Any) -> tuple[Any, ...]:
    return (input,) if child.takes_input else ()


def _record(scope: Scope, location: Location, outcome: ChildOutcome, took: int, undo: bytes | None) -> Entry:
    turn = scope.turn
    if outcome.status is RunStatus.COMPLETED and outcome.output is not None:
        value = pack([outcome.run_id], _own_copy(scope, location, outcome, outcome.output))
        return turn.journal.record(location, EntryKind.CHILD, EntryStatus.DONE, value, turn.now, took, undo=undo)
    failure = decode_failure(outcome.failure) if outcome.failure is not None else None
    error = ChildFailed(turn.journal.names.text(location), outcome.run_id, outcome.status.value, failure)
    value = encode_failure(record_failure(error))
    return turn.journal.record(location, EntryKind.CHILD, EntryStatus.FAILED, value, turn.now, took)


def _own_copy(scope: Scope, location: Location, outcome: ChildOutcome, output: bytes) -> bytes:
    """The child's output as it is stored in this run's history."""
    turn, what = scope.turn, "the child's result"
    place = Place(turn.run.workflow, turn.journal.names.text(location), what, row=Row(outcome.run_id, "", "output"))
    return rebind_value(turn, output, place, lambda: turn.place(location, what))


async def run_spawn(
    scope: Scope, location: Location, entry: Entry | None, child: Workflow[Any, Any], input: Any, options: ChildStart
) -> RunId:
    """Start a run without waiting for it; returns its id."""
    turn = scope.turn
    if entry is None:
        await turn.order.reach_end()
        new = new_child(scope, location, child, input, options, detached=True)
        turn.journal.start_child(new)
        entry = turn.journal.record(location, EntryKind.SPAWN, EntryStatus.DONE, pack([new.run_id], b""), turn.now)
    else:
        await turn.order.reach(entry)
    scope.note_result(entry)
    (run_id,), _ = unpack(entry.value)
    return RunId(run_id)


def child_label(path: str, former: int) -> str:
    """The text from which, with its parent, the id of a child is derived: its place (`Names.key`), and how many
    children were there before.
    """
    return f"{path}/~was{former}" if former else path


def _label(turn: Turn, location: Location) -> str:
    return child_label(turn.journal.names.key(location), len(turn.journal.attempts.get(location, ())))


def new_child(
    scope: Scope, location: Location, child: Workflow[Any, Any], input: Any, options: ChildStart, *, detached: bool
) -> NewRun:
    """The child of this place. Its id is the same however often it is computed, and differs after a rewind has removed
    the call from the history, which leaves an attempt here.

    The child has the priority of its parent. If the parent waits for it, it has the parent's deadline, too; a rollback
    has none.
    """
    turn = scope.turn
    path = turn.journal.names.text(location)
    if options.on_parent_close not in ("leave", "cancel"):
        raise InvalidOptionError(
            f"on_parent_close is {options.on_parent_close!r}", where=path, fix='use "leave" or "cancel"'
        )
    run_id = derived_run_id(turn.run.run_id, _label(turn, location))
    place = Place(turn.run.workflow, path, "the input", row=Row(run_id, "", "input"))
    hint = child.input_hint if child.takes_input else Any
    value = turn.codec.validate(input, hint, place=place) if child.takes_input else None
    try:
        stored = turn.codec.encode(value, hint, place=place)
    except StoreError as error:
        raise stopped(turn, path, error) from error
    return NewRun(
        run_id,
        child.name,
        child.version,
        stored,
        None if options.key is None else normal_key(options.key),
        Parent(turn.run.run_id, location, detached, tied=options.on_parent_close == "cancel"),
        Span(0),
        priority=turn.run.priority,
        tags=tuple(tag for tag in turn.run.tags if tag[0] == TRACE_TAG),
        # A rollback has no deadline, and neither do the children of a compensation.
        deadline_at=None if detached or turn.is_undoing else turn.run.deadline_at,
        discards=child.discards,
        started_by=turn.run.started_by,
    )
