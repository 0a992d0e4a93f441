"""Waking a run now, and moving the deadline of a wait or of a delayed start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from stepwell.advice import Advice, Verb
from stepwell.clock import Duration, Instant, span, to_datetime, to_instant
from stepwell.engine.backend import Backend
from stepwell.errors import InvalidMoveError, InvalidOptionError, NotFoundError, RepairConflictError, RunHeldError
from stepwell.ids import RunId
from stepwell.model.amendments import Amended, Amendment
from stepwell.model.locations import format_path
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.nearest import nearest
from stepwell.redaction import redact
from stepwell.stores.base.views import Detail

_TRIES_MAX = 5  # plans, if the run keeps changing
_WAITS = frozenset({RunStatus.PENDING, RunStatus.WAITING})
# The next attempt of a step is due when its recorded attempt says, not when the wait does.
_MOVABLE = frozenset({WaitKind.TIMER, WaitKind.SIGNAL, WaitKind.TOPIC})


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """What was moved: a wait of a run at `path`, or the begin of a delayed run (an empty path)."""

    run_id: str
    path: str
    before: datetime | None
    due_at: datetime


class _Plan(NamedTuple):
    """The waits of a run from now on, and when it is claimed."""

    waits: tuple[Wait, ...]
    wake_at: Instant
    done: Rescheduled


async def wake_run(backend: Backend, target: str, *, by: str = "", reason: str = "", verb: str = "wake") -> bool:
    """Let a worker claim the run now, and run its code from the record. False if there is nothing to wake."""
    for _ in range(_TRIES_MAX):
        detail = await _newest(backend, target)
        run = detail.run
        if run.owner is not None or run.status not in _WAITS or run.debounced_until is not None:
            return False
        if await _amend(backend, detail, verb, detail.history.waits, backend.store.now(), by, reason):
            return True
    raise _conflict(target)


async def reschedule_run(
    backend: Backend,
    target: str,
    path: str | None,
    *,
    delay: Duration | None,
    until: datetime | None,
    by: str = "",
    reason: str = "",
) -> Rescheduled:
    """Move the deadline of a wait, or the begin of a run that has not begun."""
    if (delay is None) == (until is None):
        raise InvalidOptionError(
            "a new time is needed: delay or until" if delay is None else "both delay and until are given",
            where="reschedule",
            fix='write delay="1h" (from now), or until=datetime(..., tzinfo=UTC)',
        )
    lasts = None if delay is None else span(delay, what="delay")
    at = None if until is None else to_instant(until, what="until")
    for _ in range(_TRIES_MAX):
        detail = await _newest(backend, target)
        _check(detail.run)
        now = backend.store.now()
        due_at = at if at is not None else Instant(now + (lasts or 0))
        plan = _plan(detail, path, due_at, now)
        if await _amend(backend, detail, "reschedule", plan.waits, plan.wake_at, by, reason):
            return plan.done
    raise _conflict(target)


async def _amend(
    backend: Backend, detail: Detail, verb: str, waits: tuple[Wait, ...], wake_at: Instant, by: str, reason: str
) -> bool:
    run = detail.run
    amendment = Amendment(
        backend.environment.ids.uuid(),
        run.run_id,
        run.status,
        run.epoch,
        run.revision,
        verb,
        by,
        redact(reason),
        waits=waits,
        loose=run.loose,
        wake_at=wake_at if run.deadline_at is None else min(wake_at, run.deadline_at),
    )
    return await backend.retrying(lambda store: store.runs.amend(amendment)) is Amended.APPLIED


def _plan(detail: Detail, path: str | None, due_at: Instant, now: Instant) -> _Plan:
    run, waits = detail.run, detail.history.waits
    movable = {format_path(one.location, detail.history.names): one for one in waits if _may_move(one)}
    if path is None and run.started_at is None and not waits:
        before = None if run.wake_at is None else to_datetime(run.wake_at)
        return _Plan((), due_at, Rescheduled(run.run_id, "", before, to_datetime(due_at)))
    found = _choose(run, path, movable)
    wait = movable[found]
    moved = tuple(one._replace(due_at=due_at) if one is wait else one for one in waits)
    before = None if wait.due_at is None else to_datetime(wait.due_at)
    # Claimed at once: a worker may have the code in memory, with the deadline that it had.
    return _Plan(moved, now, Rescheduled(run.run_id, found, before, to_datetime(due_at)))


def _may_move(wait: Wait) -> bool:
    return wait.kind in _MOVABLE and wait.due_at is not None


def _choose(run: Run, path: str | None, movable: dict[str, Wait]) -> str:
    """The path of the wait to move: the given one, one below it, or the only one."""
    if path is None:
        found = list(movable)
    elif path in movable:
        return path
    else:
        found = [one for one in movable if one.startswith(f"{path}/")]
    if len(found) == 1:
        return found[0]
    if path is not None and not found:
        raise NotFoundError("wait with a deadline", path, near=nearest(path, list(movable)))
    if found:
        raise InvalidOptionError(
            f"run {run.run_id} has {len(found)} waits with a deadline: {', '.join(sorted(found)[:5])}",
            where=run.run_id,
            fix=f'name one of them: reschedule("{sorted(found)[0]}", ...)',
        )
    raise InvalidMoveError(
        f"run {run.run_id} has no wait with a deadline",
        where=run.run_id,
        why="only sleeps, timers, waits with a timeout, and delayed starts can be moved",
        fix=Advice(Verb.WHY, run.run_id),
    )


def _check(run: Run) -> None:
    if run.owner is not None:
        raise RunHeldError(
            f"run {run.run_id} is being executed by a worker",
            where=run.run_id,
            why=f"it is {run.status.value}, and what it waits for may change at any moment",
            fix=Advice(Verb.PAUSE, run.run_id, note="try again when it waits, or pause it and resume it"),
        )
    if run.status not in _WAITS or run.debounced_until is not None:
        raise InvalidMoveError(
            f"run {run.run_id} is {run.status.value} and cannot be rescheduled",
            where=run.run_id,
            why="it takes a run that waits, or that has not begun",
            fix=Advice(Verb.WHY, run.run_id),
        )


async def _newest(backend: Backend, target: str) -> Detail:
    detail = await backend.detail(target)
    while detail.run.successor is not None:
        detail = await backend.detail(RunId(detail.run.successor))
    return detail


def _conflict(target: str) -> RepairConflictError:
    return RepairConflictError(
        f"run {target} changed {_TRIES_MAX} times meanwhile",
        why="another person or a worker changes it at the same time",
        fix="try again",
    )
