"""Start another workflow as a child: wait for it, or detach it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict, get_type_hints

from stepwell.clock import Duration, span
from stepwell.codec.base import Place, Row
from stepwell.codec.carried import encode_headers
from stepwell.errors import ChildFailed, InvalidOptionError, NotFoundError, StoreError
from stepwell.ids import RunId, derived_run_id
from stepwell.model.attributes import AttributeValue, read_attributes, read_title
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.model.headers import read_headers
from stepwell.model.locations import Location, check_name
from stepwell.model.retries import Retry
from stepwell.model.run_retries import read_retry
from stepwell.model.runs import ChildOutcome, NewRun, Parent, normal_key
from stepwell.model.starts import FOREVER, Deadline, check_options, check_priority, positive, read_deadline
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.tags import TRACE_TAG, TagsLike, read_tags, with_tags
from stepwell.replay.compensations import describe_call
from stepwell.replay.headers import pack, unpack
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
    """How a run is started by another run; see `Context.child`."""

    key: str | None
    delay: Duration
    priority: int
    tags: TagsLike
    attributes: Mapping[str, AttributeValue]
    title: str | None
    deadline: Deadline | None
    max_suspend: Duration | None
    version: int
    headers: Mapping[str, str]
    retry: Retry | Mapping[str, Any] | None


class SpawnOptions(StartOptions, total=False):
    """How a child is started; see `Context.child`."""

    on_parent_close: OnParentClose


class Placed(TypedDict, total=False):
    """The options of an operation with an input."""

    name: str | None
    repeat: bool
    fingerprint: bool


class ChildOptions(SpawnOptions, Placed, total=False):
    """The options of a child."""


class RunOptions(StartOptions, Placed, total=False):
    """The options of a run that `ctx.start` starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStart:
    """How a child is started, with the defaults."""

    key: str | None = None
    on_parent_close: OnParentClose = "leave"
    delay: Duration = 0
    priority: int | None = None
    tags: TagsLike = frozenset()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    title: str | None = None
    deadline: Deadline | None = None
    max_suspend: Duration | None = None
    version: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    retry: Retry | Mapping[str, Any] | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], verb: str) -> ChildStart:
        """The options of a call. Raises `InvalidOptionError` for an unknown one."""
        known = get_type_hints(RunOptions if verb == "start" else ChildOptions)
        check_options(options, known, f"ctx.{verb}")
        return cls(**options)


class Started(NamedTuple):
    """What the code starts: a workflow that it knows, or one by its name."""

    name: str
    workflow: Workflow[Any, Any] | None

    @classmethod
    def of(cls, workflow: Any, verb: str) -> Started:
        """The argument of `ctx.child`, `ctx.spawn` or `ctx.start`. Raises `InvalidOptionError`."""
        if isinstance(workflow, Workflow):
            return cls(workflow.name, workflow)
        if isinstance(workflow, str):
            return cls(check_name(workflow, what="workflow name"), None)
        raise InvalidOptionError(
            f"ctx.{verb} got {workflow!r:.120}, which is not a workflow",
            fix=f'pass a function that is decorated with @workflow, or a name: ctx.{verb}("checkout", input)',
        )

    @property
    def takes_input(self) -> bool:
        """Whether it is called with an input; a workflow by name may be."""
        return self.workflow is None or self.workflow.takes_input

    @property
    def input_hint(self) -> Any:
        """The type of its input; of a workflow by name it is not known."""
        return Any if self.workflow is None else self.workflow.input_hint

    @property
    def output_hint(self) -> Any:
        """The type of its result; of a workflow by name it is not known, so that every worker reads the same."""
        return Any if self.workflow is None else self.workflow.output_hint


async def run_child(
    scope: Scope,
    location: Location,
    entry: Entry | None,
    child: Started,
    input: Any,
    options: ChildStart,
    on_start: Callable[[NewRun], None] | None = None,
    undone: Step[..., Any] | None = None,
) -> Any:
    """The child's result. Raises `ChildFailed` if it did not complete. Cancelling this cancels the child.

    `on_start` is called when the child is started, and shares that commit.
    """
    turn = scope.turn
    if undone is not None:
        turn.journal.bound[location] = undone
    if entry is None:
        undo = None if undone is None else describe_call(turn, location, undone, _passed(child, input), {})
        started_at = scope.time
        try:
            outcome = await await_child(scope, location, child, input, options, on_start)
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
    scope: Scope,
    location: Location,
    child: Started,
    input: Any,
    options: ChildStart,
    on_start: Callable[[NewRun], None] | None = None,
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
        new = new_child(scope, location, child, input, options, detached=False)
        turn.journal.start_child(new)
        if on_start is not None:
            on_start(new)
    outcome = await turn.wait(location, WaitKind.CHILD, None)
    assert isinstance(outcome, ChildOutcome)
    return outcome


async def await_run(scope: Scope, at: Location, run_id: RunId) -> ChildOutcome:
    """How a run ended, and the runs that continue it, without recording it. A run that this one spawned is awaited at
    the place of its spawn, any other run at `at`.
    """
    location = find_spawned(scope, run_id)
    if location is None:
        outcome = await scope.turn.wait(at, WaitKind.RUN, None, (run_id,))
        if isinstance(outcome, ChildOutcome) and outcome.status is RunStatus.FAILED and outcome.failure is None:
            outcome = outcome._replace(failure=encode_failure(record_failure(NotFoundError("run", run_id))))
    else:
        _check_free(scope, location)
        outcome = await scope.turn.wait(location, WaitKind.CHILD, None)
    assert isinstance(outcome, ChildOutcome)
    return outcome


def find_spawned(scope: Scope, run_id: RunId) -> Location | None:
    """The place where this run spawned another run."""
    return scope.turn.journal.find_spawned(run_id)


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


def undo_step(child: Started, compensate: Callable[..., Any]) -> Step[..., Any]:
    """A child as a step, for what undoes it: it is offered the input and the result. Raises `InvalidOptionError`.

    The types of a workflow by name are not known here: both are plain JSON.
    """

    def call(input: Any) -> Any: ...

    def call_alone() -> Any: ...

    fn = call if child.takes_input else call_alone
    fn.__annotations__ = {"input": child.input_hint} if child.takes_input else {}
    fn.__annotations__["return"] = child.output_hint
    return Step(fn, StepOptions(name=child.name, compensate=compensate))


def _passed(child: Started, input: Any) -> tuple[Any, ...]:
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
    scope: Scope,
    location: Location,
    entry: Entry | None,
    child: Started,
    input: Any,
    options: ChildStart,
    kind: EntryKind = EntryKind.SPAWN,
) -> RunId:
    """Start a run without waiting for it, as a child or (`EntryKind.START`) on its own; returns its id."""
    turn = scope.turn
    if entry is None:
        await turn.order.reach_end()
        new = new_child(scope, location, child, input, options, detached=True)
        if kind is EntryKind.START:
            new = new._replace(parent=None)
        turn.journal.start_child(new)
        entry = turn.journal.record(location, kind, EntryStatus.DONE, pack([new.run_id], b""), turn.now)
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
    scope: Scope, location: Location, child: Started, input: Any, options: ChildStart, *, detached: bool
) -> NewRun:
    """The child of this place. Its id is the same however often it is computed, and differs after a rewind has removed
    the call from the history, which leaves an attempt here.

    Unless its options say otherwise, the child has the priority of its parent. If the parent waits for it, it ends by
    the parent's deadline, too; a rollback has none.
    """
    turn = scope.turn
    path = turn.journal.names.text(location)
    if options.on_parent_close not in ("leave", "cancel"):
        raise InvalidOptionError(
            f"on_parent_close is {options.on_parent_close!r}", where=path, fix='use "leave" or "cancel"'
        )
    workflow, version = child.workflow, _version_of(turn, child, options, path)
    run_id = derived_run_id(turn.run.run_id, _label(turn, location))
    place = Place(turn.run.workflow, path, "the input", row=Row(run_id, "", "input"))
    takes_input = workflow is None or workflow.takes_input
    hint = workflow.input_hint if workflow is not None and takes_input else Any
    value = turn.codec.validate(input, hint, place=place) if takes_input else None
    try:
        stored = turn.codec.encode(value, hint, place=place)
    except StoreError as error:
        raise stopped(turn, path, error) from error
    delay = min(span(options.delay, what="delay"), FOREVER)
    # A rollback has no deadline, and neither do the children of a compensation.
    inherited = None if detached or turn.is_undoing else turn.run.deadline_at
    own = None if options.deadline is None else read_deadline(options.deadline, turn.now, delay, path)
    deadlines = [one for one in (inherited, own) if one is not None]
    headers = {**turn.headers, **read_headers(options.headers, path)} if options.headers else turn.headers
    trace = tuple(tag for tag in turn.run.tags if tag[0] == TRACE_TAG)
    return NewRun(
        run_id,
        child.name,
        version,
        stored,
        None if options.key is None else normal_key(options.key),
        Parent(turn.run.run_id, location, detached, tied=options.on_parent_close == "cancel"),
        delay,
        priority=turn.run.priority if options.priority is None else check_priority(options.priority, path),
        tags=with_tags(read_tags(options.tags, path), trace, path) if options.tags else trace,
        deadline_at=min(deadlines, default=None),
        max_suspend=None if options.max_suspend is None else positive(options.max_suspend, "max_suspend", path),
        discards=workflow is not None and workflow.discards,
        title=None if options.title is None else read_title(options.title, path),
        started_by=turn.run.started_by,
        attributes=read_attributes(options.attributes, path) if options.attributes else (),
        headers=encode_headers(turn.codec, headers, workflow=child.name, run_id=run_id),
        retry=None if options.retry is None else read_retry(options.retry, path),
    )


def _version_of(turn: Turn, child: Started, options: ChildStart, path: str) -> int:
    """The version to start. A workflow that is started by name has the newest version that this worker knows."""
    version = options.version
    if version is None:
        known = child.workflow or (None if turn.registry is None else turn.registry.find_newest(child.name))
        if known is None:
            near = () if turn.registry is None else turn.registry.near(child.name)
            raise InvalidOptionError(
                f"workflow {child.name!r} is not registered in this worker, so its version is not known",
                where=path,
                fix=f"did you mean {near[0]!r}?" if near else f'write: ctx.start("{child.name}", input, version=1)',
            )
        return known.version
    if type(version) is not int or version < 1:
        raise InvalidOptionError(f"version is {version!r}", where=path, fix="a version is a whole number from 1")
    return version
