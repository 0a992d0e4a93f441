"""Run a step: record its result, retry by its policy, stop it at its timeout."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, assert_never

import msgspec

from stepwell.advice import Advice, Verb
from stepwell.clock import Instant, Span, to_timedelta
from stepwell.codec.error_fields import NO_FIELDS, ErrorFields
from stepwell.errors import Failure, OutcomeUnknown, ReplayError, Rollback, StepFailed, StepwellError, StoreError
from stepwell.errors.records import FailureKind, FailureRecord
from stepwell.model.entries import Attempt, Entry
from stepwell.model.failures import decode_failure, encode_failure, is_rollback, kind_of, record_failure
from stepwell.model.locations import Location
from stepwell.model.retries import ONCE_ONLY, Retry
from stepwell.model.states import EntryKind, EntryStatus, WaitKind
from stepwell.replay.bodies import Attempted, Body, Raised, Recorded, Succeeded, TimedOut, Yielded
from stepwell.replay.compensations import UndoFailed, describe_call
from stepwell.replay.copies import PassedArguments, is_fixed
from stepwell.replay.operations import Operation
from stepwell.replay.primitives.effect import begin_step
from stepwell.replay.primitives.emit import emits_of
from stepwell.replay.recorded_errors import carried_by
from stepwell.replay.recorded_values import decode_recorded, stopped
from stepwell.replay.revival import register_raised, step_failed
from stepwell.replay.scopes import Scope
from stepwell.replay.steps import Step
from stepwell.replay.turn import Turn

R = TypeVar("R")

# Bound once: looking up a member of an enum costs as much as a call.
_STEP, _DONE = EntryKind.STEP, EntryStatus.DONE
# `GeneratorExit` is not raised on purpose: it comes from a broken generator, as `StopIteration` does.
ATTEMPTS_KEPT: Final = 100  # failed attempts of one step: more are retried without a limit, and the oldest are dropped
_RETRIABLE: Final = (Exception, GeneratorExit)


@dataclass(frozen=True, slots=True)
class Tried(Generic[R]):
    """How a step ended: `ok` with a `value`, or with the recorded `error`.

    `kind` is "ok", or why there was no further attempt: "critical" is an error that is not retried, "timeout" a body
    that ran longer than its limit, "exhausted" means that all attempts are used up, "failure" is a planned `Failure`,
    and "unknown" is the outcome of an at-most-once step whose worker died.
    """

    ok: bool
    value: R | None
    attempts: int
    error: FailureRecord | None
    kind: Literal["ok"] | FailureKind = "ok"


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Retry at this time."""

    at: Instant
    failure: FailureRecord


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The failure is final."""

    failure: FailureRecord


def decide(
    attempted: Raised | TimedOut,
    *,
    attempt: int,
    policy: Retry,
    now: Instant,
    chance: float,
    fields: ErrorFields = NO_FIELDS,
) -> RetryAt | GiveUp:
    """Decide what happens after a failed attempt. The caller carries it out."""
    match attempted:
        case TimedOut(after, output):
            error: BaseException = TimeoutError(f"it ran longer than its limit of {to_timedelta(after)}")
            if output:
                error.add_note(output)
            may_retry = policy.on_timeout
        case Raised(error):
            may_retry = isinstance(error, _RETRIABLE) and policy.may_retry(error)
        case _:
            assert_never(attempted)
    failure = record_failure(error, data=fields.data, fields=fields.names)
    if not may_retry or not isinstance(error, _RETRIABLE):
        final: FailureKind = "critical"
        if isinstance(attempted, TimedOut):
            final = "timeout"
        elif isinstance(error, Failure):
            final = "failure"
        return GiveUp(msgspec.structs.replace(failure, kind=final))
    if policy.is_last(attempt):
        return GiveUp(msgspec.structs.replace(failure, kind="exhausted"))
    return RetryAt(Instant(now + policy.wait_after(attempt, error, chance)), failure)


async def run_step(
    scope: Scope,
    location: Location,
    entry: Entry | None,
    step: Step[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The result of a step: the recorded one, or a new one."""
    turn = scope.turn
    if step.options_.compensate is not None:
        turn.journal.bound[location] = step
        if step.options_.undo == "always":
            await begin_step(scope, location, entry, step, args, kwargs)
    if entry is None:
        entry, value = await perform(scope, location, _STEP, step, args, kwargs)
        # The result of a transaction is durable already, so its commit cannot consume a signal.
        scope.note_result(entry, uses_signals=not step.takes_transaction)
        if entry.status is _DONE:
            return value
    else:
        await turn.order.reach(entry)
        scope.note_result(entry, uses_signals=not step.takes_transaction)
        if entry.status is _DONE:
            return decode_recorded(turn, entry, step.signature.returns)
    raise step_failed(turn.journal.names.text(location), decode_failure(entry.value), entry.attempts)


async def run_tried(scope: Scope, step: Operation[Any]) -> Tried[Any]:
    """How a step ended, as a value. A `Rollback` of the step is raised."""
    try:
        value = await step
    except StepFailed as error:
        if is_rollback(error.failure):
            raise
        return Tried(False, None, error.attempts, error.failure, kind_of(error.failure))
    return Tried(True, value, scope.turn.journal.entries[step.location].attempts, None)


async def perform(
    scope: Scope,
    location: Location,
    kind: EntryKind,
    step: Step[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Entry, Any]:
    """Attempt a step until it succeeds or fails permanently, and record that; returns the entry, and the value as a
    replay decodes it.

    Every attempt, and the compensation, gets the arguments that the code passes now, whatever an attempt does to its
    own copy. The final failure of an undo is recorded as an attempt only, so that a later rollback may retry it: it
    raises `UndoFailed`.
    """
    turn, options = scope.turn, step.options_
    passed = None if is_fixed(args, kwargs) else PassedArguments(args, kwargs, turn.codec)
    past, number, counted = turn.journal.attempts.get(location), 0, 0
    first_at = scope.time if past or location in turn.journal.progress else turn.now
    undo = None
    if options.compensate is not None:
        try:
            undo = describe_call(turn, location, step, args, kwargs)
        except StoreError as error:
            raise stopped(turn, turn.journal.names.text(location), error) from error
        except StepwellError as error:
            # A step that could not be undone does not run.
            await turn.order.reach_end()
            return _give_up(turn, location, kind, record_failure(error), turn.now - first_at, len(past or ()) + 1), None
    if past:
        number = past[-1].number
        counted = sum(1 for attempt in past if attempt.at > (turn.run.retried_at or 0))
        last = past[-1]
        if counted and last.is_unknown:
            await turn.order.reach_end()
            return _unknown(turn, location, number), None
        if last.is_beginning:
            if not counted or last.at == last.next_at or turn.now < (last.next_at or 0):
                number, counted = number - 1, max(0, counted - 1)  # its worker died: that is not an attempt
            else:
                lost = _lost(turn, location, last, step, counted)
                if isinstance(lost, GiveUp):
                    await turn.order.reach_end()
                    return _give_up(turn, location, kind, lost.failure, turn.now - first_at, number), None
                await _wait_for_next(turn, location, number, lost)
        elif counted and last.next_at is not None:
            await turn.wait(location, WaitKind.RETRY, last.next_at)
    is_noted = not step.takes_transaction and (options.timeout is not None or turn.run.stalls > 0)
    while True:
        number, counted = number + 1, counted + 1
        if passed is not None:
            args, kwargs = passed.take()
        body = Body(
            turn.run,
            turn.journal.names,
            location,
            step.fn,
            args,
            kwargs,
            step.is_async,
            step.takes_context,
            options.timeout,
            number,
            options.retry.is_last(counted),
            turn.loop.own_future(),
        )
        if options.at_most_once:
            body.is_announced = True
            turn.journal.record_attempt(Attempt(location, number, _attempted_at(turn), None, None))
        elif is_noted:
            body.is_noted, at = True, _attempted_at(turn)
            turn.journal.record_attempt(Attempt(location, number, at, None, Instant(at + (options.timeout or 0))))
        if step.takes_context:
            body.codec, body.progress = turn.codec, turn.journal.progress.get(location)
            body.budget, body.may_yield = options.budget, not options.at_most_once
        if step.takes_transaction:
            turn.bodies.ask_in_transaction(body, _recorder(turn, location, kind, step, first_at, number, undo))
        else:
            turn.bodies.asked.append(body)
        try:
            attempted: Attempted = await body.settled
        except asyncio.CancelledError:
            turn.bodies.abandon(body)
            raise
        if isinstance(attempted, Succeeded):
            made = _store(turn, location, kind, step, body, attempted.value, first_at, number, undo)
            if not isinstance(made, Raised):
                return made
            attempted = made
        if isinstance(attempted, Recorded):
            return attempted.entry, attempted.value
        if isinstance(attempted, Yielded):
            await turn.bodies.yield_slot(location)
            number, counted = number - 1, counted - 1  # the same attempt continues
            continue
        decision = _after_failure(turn, location, attempted, step, number, counted)
        if isinstance(decision, GiveUp):
            return _give_up(turn, location, kind, decision.failure, turn.now - first_at, number), None
        await _wait_for_next(turn, location, number, decision)


async def _wait_for_next(turn: Turn, location: Location, number: int, decision: RetryAt) -> None:
    """Record a failed attempt, and wait until the next one is due."""
    failed = encode_failure(decision.failure)
    turn.journal.record_attempt(Attempt(location, number, _attempted_at(turn), failed, decision.at))
    turn.journal.forget_attempts(location, keep=ATTEMPTS_KEPT)
    await turn.wait(location, WaitKind.RETRY, decision.at)


def _lost(turn: Turn, location: Location, begun: Attempt, step: Step[..., Any], counted: int) -> RetryAt | GiveUp:
    """What happens after the worker of a body died and the body's timeout has passed: that counts as an attempt, and
    the policy decides about another one.
    """
    assert begun.next_at is not None
    limit = to_timedelta(Span(begun.next_at - begun.at))
    words = f"its worker was lost while it ran, and its limit of {limit} has passed since it began"
    policy, error = step.options_.retry, TimeoutError(words)
    failure = record_failure(error)
    if policy.is_last(counted):
        return GiveUp(msgspec.structs.replace(failure, kind="timeout"))
    try:
        wait = policy.wait_after(counted, error, _chance(turn, location, begun.number))
    except Exception as broken:  # noqa: BLE001  the policy's own callable failed: final, with that error
        return GiveUp(_critical(broken))
    return RetryAt(Instant(turn.now + wait), failure)


def _give_up(turn: Turn, location: Location, kind: EntryKind, failure: FailureRecord, took: int, number: int) -> Entry:
    """Record the last attempt, and the failure of the step. For an undo, raise `UndoFailed` instead."""
    stored = encode_failure(failure)
    turn.journal.record_attempt(Attempt(location, number, _attempted_at(turn), stored, None))
    if kind is not EntryKind.STEP:
        path = failure.path or turn.journal.names.text(location)
        raise UndoFailed(msgspec.structs.replace(failure, path=path))
    return turn.journal.record(location, kind, EntryStatus.FAILED, stored, turn.now, took, number)


def _store(
    turn: Turn,
    location: Location,
    kind: EntryKind,
    step: Step[..., Any],
    body: Body,
    value: Any,
    first_at: Instant,
    number: int,
    undo: bytes | None,
) -> tuple[Entry, Any] | Raised:
    """Record a value; returns the entry, and the value as a replay decodes it. If it cannot be stored, the step fails
    permanently.
    """
    options, hint = step.options_, step.signature.returns
    try:
        stored, decoded = turn.codec.settle(value, hint, place=lambda: turn.place(location, "the result"))
        emits = emits_of(turn, location, body, step, value) if body.emitted or options.emits is not None else ()
    except ReplayError:
        raise
    except StoreError as error:
        raise stopped(turn, turn.journal.names.text(location), error) from error
    except StepwellError as error:
        return Raised(error)
    for emit in emits:
        turn.journal.emit(emit)
    is_urgent = options.durability == "normal"
    took = turn.now - first_at
    entry = turn.journal.record(location, kind, _DONE, stored, turn.now, took, number, undo, is_urgent=is_urgent)
    return entry, decoded


def _recorder(
    turn: Turn,
    location: Location,
    kind: EntryKind,
    step: Step[..., Any],
    first_at: Instant,
    number: int,
    undo: bytes | None,
) -> Callable[[Any, Instant], tuple[Entry, Any]]:
    """A function that makes the entry of a transactional step from its value, inside the transaction. Nothing else is
    recorded meanwhile.
    """

    def record(value: Any, at: Instant) -> tuple[Entry, Any]:
        place = turn.place(location, "the result")
        stored, decoded = turn.codec.settle(value, step.signature.returns, place=place)
        seq = turn.journal.last_seq + 1
        fingerprint = turn.journal.fingerprints.get(location)
        took = at - first_at
        return Entry(seq, location, kind, EntryStatus.DONE, stored, at, took, number, undo, fingerprint), decoded

    return record


def _after_failure(
    turn: Turn, location: Location, attempted: Raised | TimedOut, step: Step[..., Any], number: int, counted: int
) -> RetryAt | GiveUp:
    error = attempted.error if isinstance(attempted, Raised) else None
    if error is not None:
        register_raised(error)
    if isinstance(error, StepwellError) and not isinstance(error, StoreError):
        return GiveUp(_critical(error))
    policy = step.options_.retry if not step.options_.at_most_once else ONCE_ONLY
    try:
        return decide(
            attempted,
            attempt=counted,
            policy=policy,
            now=turn.now,
            chance=_chance(turn, location, number),
            fields=_fields_of(turn, error),
        )
    except Exception as broken:  # noqa: BLE001  a policy's own callable failed: final, with that error
        return GiveUp(_critical(broken))


def _critical(error: BaseException) -> FailureRecord:
    return msgspec.structs.replace(record_failure(error), kind="critical")


def _fields_of(turn: Turn, error: BaseException | None) -> ErrorFields:
    match error:
        case None:
            return NO_FIELDS
        case Rollback():
            return ErrorFields(msgspec.json.encode({"to": error.to, "reason": error.reason}))
        case _:
            return carried_by(turn, error)


def _chance(turn: Turn, location: Location, number: int) -> float:
    seed = f"{turn.run.run_id}\x1f{number}\x1f".encode() + location
    return int.from_bytes(hashlib.blake2b(seed, digest_size=4).digest(), "big") / (1 << 32)


def _attempted_at(turn: Turn) -> Instant:
    """The current time, but always after the operator's last retry: only later attempts count."""
    return Instant(max(turn.now, (turn.run.retried_at or 0) + 1))


def _unknown(turn: Turn, location: Location, number: int) -> Entry:
    """Record that the worker died inside an at-most-once body. Only an operator can run it again."""
    path = turn.journal.names.text(location)
    error = OutcomeUnknown(
        f"the outcome of at-most-once step {path} is unknown: its worker died while it ran",
        where=path,
        fix=(
            Advice(Verb.SKIP, turn.run.run_id, {"path": path}, note="check whether it took effect; if it did"),
            Advice(Verb.RETRY, turn.run.run_id, note="if it did not, run it again"),
        ),
    )
    return turn.journal.record(
        location, EntryKind.STEP, EntryStatus.FAILED, encode_failure(record_failure(error)), turn.now, 0, number
    )
