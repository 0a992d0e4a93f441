"""Iterate with durable state and a history that stays small."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

from stepwell.codec.signatures import hints_of
from stepwell.errors import InvalidOptionError, NonDeterministicError
from stepwell.model.entries import Cursor, Entry
from stepwell.model.locations import Location, iteration, iterations
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.branches import Guard, guard_of
from stepwell.replay.event_loop import SCOPE
from stepwell.replay.headers import pack, unpack
from stepwell.replay.recorded_values import decode_recorded, decode_value, settle_value
from stepwell.replay.scopes import Scope

S = TypeVar("S")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Continue(Generic[S]):
    """Continue with the next iteration and this state."""

    state: S


@dataclass(frozen=True, slots=True)
class Break(Generic[B]):
    """End the loop with this value."""

    value: B


LoopBody = Callable[[Any, Any], Awaitable[Any]]  # takes the iteration's Context and the state


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How often the state is committed and old iterations are trimmed, and how many are kept."""

    commit_every: int = 1
    trim_every: int = 20
    keep: int = 20

    def __post_init__(self) -> None:
        if self.commit_every < 1 or self.trim_every < 1 or self.keep < 0:
            raise InvalidOptionError(
                f"a loop has commit_every={self.commit_every}, trim_every={self.trim_every} and keep={self.keep}",
                why="commit_every and trim_every are at least 1, and keep is at least 0",
                fix='write: ctx.loop("name", body, state, commit_every=1, trim_every=20, keep=20)',
            )


async def run_loop(
    scope: Scope, location: Location, entry: Entry | None, body: LoopBody, state: Any, options: LoopOptions
) -> Any:
    """Run the body until it returns `Break`; returns its value."""
    turn = scope.turn
    if entry is None:
        entry = await _iterate(scope, location, body, state, options)
    else:
        turn.journal.skip_below(location)
        await turn.order.reach(entry)
    scope.note_result(entry)
    return decode_recorded(turn, entry, _break_hint(body))


async def _iterate(scope: Scope, location: Location, body: LoopBody, state: Any, options: LoopOptions) -> Entry:
    turn, journal, started_at = scope.turn, scope.turn.journal, scope.time
    is_stateful = state is not None
    hint = _state_hint(body)
    cursor = journal.cursors.get(location)
    if cursor is None:
        number, trimmed, stored = 0, 0, _encode(scope, location, state, hint, "state")
    else:
        number, trimmed = cursor.iteration, cursor.trimmed
        journal.skip(*iterations(location, 0, number))
        (time,), stored = unpack(cursor.state)
        scope.time = max(scope.time, time)
    state = decode_value(turn, location, stored, hint, "the loop's state", field="state")
    guard = guard_of(scope, location, "loop", "loop", (body,))
    around = SCOPE.get()
    while True:
        inner = scope.below(iteration(location, number))
        SCOPE.set(inner)
        try:
            if guard is None:
                outcome = await body(turn.context(inner), state)
            else:
                outcome = await _run_guarded(guard, body(turn.context(inner), state))
        finally:
            SCOPE.set(around)
        scope.time = max(scope.time, inner.time)
        inner.ended()
        number += 1
        if outcome is None and not is_stateful:
            outcome = Continue(None)
        match outcome:
            case Break(value):
                stored = _encode(scope, location, value, _break_hint(body), "value")
                await turn.order.reach_end()
                _trim(scope, location, trimmed, number - options.keep)
                journal.end_cursor(location)
                took = turn.now - started_at
                return journal.record(location, EntryKind.LOOP, EntryStatus.DONE, stored, turn.now, took, number)
            case Continue(following):
                stored = _encode(scope, location, following, hint, "state")
                state = decode_value(turn, location, stored, hint, "the loop's state", field="state")
            case _:
                raise _bad_outcome(scope, location, outcome)
        before = trimmed
        if number % options.trim_every == 0:
            trimmed = _trim(scope, location, trimmed, number - options.keep)
        # Trimmed iterations cannot be replayed, so the same commit must move the cursor beyond them.
        if trimmed != before or number % options.commit_every == 0:
            journal.move_cursor(Cursor(location, number, trimmed, pack([scope.time], stored)))


async def _run_guarded(guard: Guard, iteration: Awaitable[Any]) -> Any:
    """Run one iteration, which must not change variables outside it."""
    with guard:
        guard.enter()
        try:
            outcome = await iteration
        finally:
            guard.leave()
    guard.check()
    return outcome


def _trim(scope: Scope, location: Location, trimmed: int, end: int) -> int:
    """Delete the newly expired range of iterations; returns the new lower bound."""
    if end <= trimmed:
        return trimmed
    scope.turn.journal.trim_loop(location, *iterations(location, trimmed, end))
    return end


def _state_hint(body: LoopBody) -> Any:
    parameters = hints_of(body).parameters
    return parameters[1].hint if len(parameters) > 1 else Any


def _break_hint(body: LoopBody) -> Any:
    """The type of the loop's value: the argument of `Break[...]` in the body's return annotation."""
    returns = hints_of(body).returns
    for option in (returns, *get_args(returns)):
        if get_origin(option) is Break:
            return get_args(option)[0]
    return Any


def _encode(scope: Scope, location: Location, value: Any, hint: Any, field: str) -> bytes:
    turn = scope.turn
    stored, _ = settle_value(turn, value, hint, lambda: turn.place(location, "the state", field=field))
    return stored


def _bad_outcome(scope: Scope, location: Location, outcome: Any) -> NonDeterministicError:
    path = scope.turn.journal.names.text(location)
    problem = NonDeterministicError(
        f"the body of loop {path} returned {type(outcome).__name__}",
        where=path,
        why="without a next state, the loop could not continue after a crash",
        fix="write: return Continue(state), or: return Break(value)",
    )
    scope.turn.diverge(problem)
    return problem
