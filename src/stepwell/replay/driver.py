"""Begins turns and decides how they end: from a claimed run to the move that is committed."""

from __future__ import annotations

import logging
from typing import Any, assert_never

import msgspec

from stepwell.clock import Instant, Span
from stepwell.codec.base import Codec, Place, Row
from stepwell.codec.carried import encode_headers
from stepwell.environment import LockstepThreads
from stepwell.errors import CheckpointMissingError, Rollback, StepFailed, StepwellError, StoreError
from stepwell.errors.records import FailureRecord
from stepwell.ids import CONTINUED, RunId, derived_run_id, hashed
from stepwell.model.commits import BeginRollback, End, Move, Pause, Release
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, is_rollback, record_failure
from stepwell.model.locations import ROOT, undo
from stepwell.model.run_retries import delay_of_next, first_attempt, retry_of
from stepwell.model.runs import Inbox, NewRun, Run
from stepwell.model.states import RunStatus
from stepwell.replay.carried_undos import Carrier, check_findable
from stepwell.replay.compensations import UndoFailed, is_bound
from stepwell.replay.context import Context
from stepwell.replay.event_loop import SCOPE
from stepwell.replay.journal import Journal
from stepwell.replay.plain_code import run_plain
from stepwell.replay.primitives.checkpoint import checkpoint_floor
from stepwell.replay.primitives.describe import described
from stepwell.replay.recorded_errors import carried_by
from stepwell.replay.recorded_values import stopped
from stepwell.replay.rollback import left_to_undo, unwind
from stepwell.replay.scopes import Scope
from stepwell.replay.suspend import ContinueAsNew
from stepwell.replay.sync_context import SyncContext
from stepwell.replay.turn import Turn
from stepwell.replay.unread_signals import publish_unread
from stepwell.replay.workflows import Workflow

_LOG = logging.getLogger("stepwell.worker")


def begin_forward(
    workflow: Workflow[Any, Any],
    run: Run,
    journal: Journal,
    inbox: Inbox,
    codec: Codec,
    threads: LockstepThreads | None = None,
) -> Turn:
    """A turn that runs the workflow's function from its beginning over the recorded history."""
    turn = Turn(run, journal, inbox, codec, Context, threads)
    turn.code, turn.has_unique_names = workflow.fn, workflow.has_unique_names
    scope = Scope(turn, ROOT, run.started_at or run.created_at)

    def arguments() -> tuple[Any, ...]:
        if not workflow.takes_input:
            return ()
        place = Place(run.workflow, "", "the input", row=Row(run.run_id, "", "input"))
        try:
            return (codec.decode(run.input, workflow.input_hint, place=place),)
        except StoreError as error:
            raise stopped(turn, "", error) from error

    async def main() -> Any:
        SCOPE.set(scope)
        if run.undoes is not None:
            raise Rollback(f"it undoes run {run.undoes}")
        context = Context(scope)
        try:
            if workflow.is_plain:
                value = await run_plain(context, workflow.fn, arguments, SyncContext)
            else:
                value = await workflow.fn(context, *arguments())
        except (Exception, ContinueAsNew):
            if turn.background is not None:
                await turn.background.finish()
            raise
        if turn.background is not None:
            await turn.background.finish()
            turn.background.check()
        return value

    turn.begin(main())
    return turn


def begin_rollback(
    workflow: Workflow[Any, Any] | None,
    run: Run,
    journal: Journal,
    inbox: Inbox,
    codec: Codec,
    now: Instant,
    threads: LockstepThreads | None = None,
) -> Turn:
    """A turn that rolls back what is left to undo.

    The code passes a compensation at the place of its step. If the code has not run in this claim, it
    is replayed up to where it stopped, without running a body.
    """
    if workflow is not None and not all(is_bound(journal, entry) for entry in left_to_undo(journal, run.undo_floor)):
        _bind(workflow, run, journal, codec, threads)
    journal.skip_all_except(undo(entry.location) for entry in left_to_undo(journal, run.undo_floor))
    turn = Turn(run, journal, inbox, codec, Context, threads)
    turn.now = now
    turn.begin(unwind(turn))
    return turn


def _bind(
    workflow: Workflow[Any, Any], run: Run, journal: Journal, codec: Codec, threads: LockstepThreads | None
) -> None:
    """Replay the forward code to learn which step it passes at each recorded place."""
    forward = journal.forward()
    replay = begin_forward(workflow, run._replace(status=RunStatus.RUNNING), forward, Inbox(), codec, threads)
    try:
        replay.rehearse(run.started_at or run.created_at)
    except Exception:  # noqa: BLE001  the code may raise anything
        # Compensations that the code did not reach are looked up by name, or the rollback stops.
        _LOG.exception("run %s could not be replayed for its rollback", run.run_id)
    finally:
        replay.close()
    for location, step in forward.bound.items():
        journal.bound.setdefault(location, step)
    for location, fn in forward.bound_effects.items():
        journal.bound_effects.setdefault(location, fn)


def conclude(turn: Turn, workflow: Workflow[Any, Any] | None) -> Move:
    """The move to commit after a turn's code has ended or diverged."""
    if turn.problem is not None:
        if turn.is_diverged_early:
            turn.journal.forget_pending()  # what the diverged code recorded does not belong to the run
        return Pause(encode_failure(_with_own(turn, record_failure(turn.problem))))
    return (
        _conclude_rollback(turn, workflow) if turn.run.status is RunStatus.COMPENSATING else _conclude(turn, workflow)
    )


def _conclude(turn: Turn, workflow: Workflow[Any, Any] | None) -> Move:
    assert workflow is not None
    error = turn.error
    if error is None:
        return _completed(turn, workflow)
    request = _request_in(error)
    if request is not None:
        return _continued(turn, workflow, request)
    return failed(turn, workflow, error)


def _request_in(error: BaseException) -> ContinueAsNew | None:
    """The request to continue as new, also if a task group wrapped it."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _request_in(each)) is not None), None)
    return error if isinstance(error, ContinueAsNew) else None


def failed(turn: Turn, workflow: Workflow[Any, Any], error: BaseException) -> Move:
    """How a failed run ends: at once, or through its compensations; and whether it is tried again after that."""
    failure, floor = _describe(turn, error), 0
    line = _line_of(error)
    if line is not None:
        try:
            floor = checkpoint_floor(turn.journal, line)
        except CheckpointMissingError as missing:
            failure = record_failure(missing)
    failure = _planned(turn, workflow, error, failure)
    if left_to_undo(turn.journal, floor):
        return BeginRollback("failed", encode_failure(failure), floor)
    return _ended(turn, workflow, RunStatus.FAILED, failure)


def _line_of(error: BaseException) -> str | None:
    """The checkpoint that a rollback named, raised by the code itself or by a step."""
    if isinstance(error, StepFailed) and is_rollback(error.failure):
        data = error.failure.data
        return data.get("to") if isinstance(data, dict) else None
    return error.to if isinstance(error, Rollback) else None


def honour_cancel(journal: Journal) -> Move:
    """How a cancelled run ends: at once, or through its compensations."""
    if left_to_undo(journal, 0):
        return BeginRollback("cancelled", None)
    return End(RunStatus.CANCELLED)


def expire(journal: Journal, failure: FailureRecord) -> Move:
    """How a run ends at its deadline: at once, or through its compensations."""
    stored = encode_failure(failure)
    return BeginRollback("failed", stored) if left_to_undo(journal, 0) else End(RunStatus.FAILED, failure=stored)


def _describe(turn: Turn, error: BaseException) -> FailureRecord:
    """The failure to record for a run. For a failed step, it is the step's own error with the step's path."""
    if isinstance(error, StepFailed):
        return msgspec.structs.replace(error.failure, path=error.path, attempts=error.attempts)
    try:
        carried = carried_by(turn, error)
    except StepwellError as unstorable:
        return record_failure(unstorable)
    except Exception as broken:  # noqa: BLE001  the function of a registered class
        return record_failure(broken)
    return record_failure(error, data=carried.data, fields=carried.names)


def _completed(turn: Turn, workflow: Workflow[Any, Any]) -> Move:
    place = Place(turn.run.workflow, "", "the result", row=Row(turn.run.run_id, "", "output"))
    try:
        output, _ = turn.codec.settle(turn.value, workflow.output_hint, place=place)
        looked_at = publish_unread(turn) if workflow.mailbox.unread == "topic" else 0
    except StoreError as error:
        return Pause(encode_failure(record_failure(error)))
    except StepwellError as error:
        return failed(turn, workflow, error)
    match workflow.mailbox.unread:
        case "continue":
            return End(RunStatus.COMPLETED, output=output, unread_above=0)
        case "topic":
            return End(RunStatus.COMPLETED, output=output, unread_above=looked_at)
        case "dead_letter" | "discard":
            return End(RunStatus.COMPLETED, output=output)
        case _ as never:
            assert_never(never)


def read_on(turn: Turn, workflow: Workflow[Any, Any]) -> Move:
    """What a run does instead of completing, because signals wait that it has not read."""
    if workflow.mailbox.unread == "topic":
        return Release()  # it is claimed at once, with these signals, and completes again
    successor = _once_more(turn, workflow)
    return successor if isinstance(successor, Pause) else End(RunStatus.CONTINUED, successor=successor)


def _continued(turn: Turn, workflow: Workflow[Any, Any], request: ContinueAsNew) -> Move:
    run = turn.run
    following: Workflow[Any, Any] = request.workflow or workflow
    run_id = derived_run_id(run.run_id, CONTINUED)
    place = Place(following.name, "", "the input", row=Row(run_id, "", "input"))
    try:
        headers = encode_headers(turn.codec, turn.headers, workflow=following.name, run_id=run_id)
        value = turn.codec.validate(request.input, following.input_hint, place=place) if following.takes_input else None
        stored = turn.codec.encode(value, following.input_hint if following.takes_input else Any, place=place)
    except StoreError as error:
        return Pause(encode_failure(record_failure(error)))
    except StepwellError as error:
        return failed(turn, workflow, error)
    names: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    if request.keeps_undos:
        try:
            check_findable(turn.journal)  # again: a body may have ended since the code requested this
            names, entries = Carrier(run.workflow, run.run_id, run_id, turn.journal, turn.codec).carry()
        except StoreError as error:
            return Pause(encode_failure(record_failure(error)))
        except StepwellError as error:
            return failed(turn, workflow, error)
    successor = _successor(turn, run_id, following.name, following.version, stored, headers)
    successor = successor._replace(discards=following.discards)
    return End(RunStatus.CONTINUED, successor=successor, names=names, entries=entries)


def _planned(turn: Turn, workflow: Workflow[Any, Any], error: BaseException, failure: FailureRecord) -> FailureRecord:
    """The failure, with when the next attempt begins, if there is one."""
    if workflow.retry is None and turn.run.retry is None:
        return failure
    chance = int.from_bytes(hashed(f"{turn.run.run_id} attempt")[:4], "big") / (1 << 32)
    try:
        delay = delay_of_next(workflow.retry, turn.run, error, failure, chance)
    except Exception as broken:  # noqa: BLE001  a function of the policy
        return record_failure(broken)
    return msgspec.structs.replace(failure, retry_in=delay)


def _ended(turn: Turn, workflow: Workflow[Any, Any] | None, status: RunStatus, failure: FailureRecord) -> Move:
    """The end of a failed run: permanently, or with a successor that is its next attempt."""
    run, delay = turn.run, failure.retry_in
    if delay is None or (run.deadline_at is not None and turn.now + delay >= run.deadline_at):
        return End(status, failure=encode_failure(msgspec.structs.replace(failure, retry_in=None)))
    own, state = None if workflow is None else workflow.retry, retry_of(run)
    policy = own if state.policy is None else state.policy.retry
    successor = _once_more(turn, workflow)
    if isinstance(successor, Pause):
        return successor
    attempt = state.following(run, None if policy is None else policy.max_attempts, failure)
    successor = successor._replace(delay=Span(delay), retry=attempt.stored)
    return End(RunStatus.CONTINUED, failure=encode_failure(failure), successor=successor)


def _once_more(turn: Turn, workflow: Workflow[Any, Any] | None) -> NewRun | Pause:
    """The run that does the same again, with the same input."""
    run, run_id = turn.run, derived_run_id(turn.run.run_id, CONTINUED)
    place = Place(run.workflow, "", "the input", row=Row(run.run_id, "", "input"))
    try:
        headers = encode_headers(turn.codec, turn.headers, workflow=run.workflow, run_id=run_id)
        stored = turn.codec.rebind(run.input, place=place, to=place._replace(row=Row(run_id, "", "input")))
    except StoreError as error:
        return Pause(encode_failure(_with_own(turn, record_failure(error))))
    successor = _successor(turn, run_id, run.workflow, run.version, stored, headers)
    return successor._replace(discards=workflow is not None and workflow.discards)


def _successor(turn: Turn, run_id: RunId, workflow: str, version: int, stored: bytes, headers: bytes | None) -> NewRun:
    """The run that follows this one, described as this one is now."""
    run, now = turn.run, described(turn)
    return NewRun(
        run_id,
        workflow,
        version,
        stored,
        run.key,
        run.parent,
        priority=run.priority,
        tags=now.tags or (),
        deadline_at=run.deadline_at,
        max_suspend=run.max_suspend,
        title=now.title or None,
        started_by=run.started_by,
        attributes=now.attributes,
        headers=headers,
        retry=first_attempt(run.retry),
    )


def _conclude_rollback(turn: Turn, workflow: Workflow[Any, Any] | None) -> Move:
    """The end of a rollback. If it is incomplete, the run's own failure is kept inside the failure of the undo."""
    error, own = turn.error, _own_failure(turn)
    if error is None:
        if turn.run.cause == "cancelled":
            return End(RunStatus.CANCELLED, failure=encode_failure(own) if own is not None else None)
        if own is None:
            return End(RunStatus.COMPENSATED)
        return _ended(turn, workflow, RunStatus.COMPENSATED, own)
    failure = error.failure if isinstance(error, UndoFailed) else record_failure(error)
    return End(RunStatus.COMPENSATION_FAILED, failure=encode_failure(_with_own(turn, failure)))


def _own_failure(turn: Turn) -> FailureRecord | None:
    """Why the run itself failed, also if the failure of an undo contains it."""
    stored = turn.run.failure
    failure = decode_failure(stored) if stored is not None else None
    return failure.causes.get("run", failure) if failure is not None else None


def _with_own(turn: Turn, failure: FailureRecord) -> FailureRecord:
    """A failure inside a rollback, with the run's own failure kept inside it."""
    own = _own_failure(turn)
    if own is None or turn.run.status is not RunStatus.COMPENSATING:
        return failure
    return msgspec.structs.replace(failure, causes={**failure.causes, "run": own})
