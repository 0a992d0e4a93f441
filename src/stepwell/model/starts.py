"""What a start may ask for, and what it does to the run that has its key: decided once, for every store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from stepwell.advice import Advice, Verb
from stepwell.clock import SECOND, Duration, Instant, Span, span, to_instant
from stepwell.errors import AlreadyExistsError, InvalidOptionError
from stepwell.ids import RunId
from stepwell.model.runs import Created, NewRun
from stepwell.model.states import RunStatus
from stepwell.nearest import nearest

PRIORITY_MAX: Final = 100

FOREVER: Final = span("36500d")
"""The longest duration: a later moment can be neither stored nor shown."""

Deadline = Duration | datetime  # a duration from the start, or a moment


def check_options(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Reject options that a call does not have. Raises `InvalidOptionError` with the nearest ones."""
    names = tuple(known)
    for name in given:
        if name not in names:
            near = nearest(name, names)
            fix = f"did you mean {near[0]}=?" if near else f"use {', '.join(names)}"
            raise InvalidOptionError(f"{where} has no option {name!r}", where=where, fix=fix)


def refused_ids(runs: Sequence[NewRun], stored: Mapping[RunId, bytes]) -> list[Created] | None:
    """The answer to a start of several runs if one of their ids is taken, by a stored run or by an earlier run of the
    same start: then none is started. None if all may start.
    """
    inputs: dict[RunId, bytes] = dict(stored)
    answers: list[Created] = []
    for new in runs:
        is_taken = new.run_id in inputs and not new.own_id
        known = inputs.setdefault(new.run_id, new.input)
        answers.append(Created(new.run_id, False, known == new.input or not is_taken, is_duplicate_id=is_taken))
    return answers if any(one.is_duplicate_id for one in answers) else None


def check_replaceable(new: NewRun, holder: RunId, status: RunStatus) -> None:
    """Reject a start whose key another run has, unless the start may take the key over.

    A run whose rollback is incomplete keeps its key: an operator must look after its effects first.
    """
    if new.on_conflict == "replace":
        if status is not RunStatus.COMPENSATION_FAILED:
            return
        raise AlreadyExistsError(
            f"key {new.key!r} belongs to run {holder}, which cannot be replaced",
            why="its rollback is incomplete: some of its effects are not undone",
            fix=Advice(Verb.RESUME_ROLLBACK, holder, note="first"),
        )
    raise AlreadyExistsError(
        f"key {new.key!r} belongs to run {holder} ({status.value})", fix='use on_conflict="get", or another key'
    )


def replaced_by(run_id: RunId) -> str:
    """The reason with which a replaced run is cancelled."""
    return f"replaced by run {run_id}"


def postponed_to(now: Instant, until: Instant) -> Instant:
    """When a debounced run tries again to take its key. A time after `until` means that it only waits for the holder of
    the key. The end of the holder wakes it; this time is the fallback if that wake-up is lost.
    """
    return Instant(max(now, until) + 3_600 * SECOND)


def positive(duration: Duration, what: str, workflow: str) -> Span:
    """A duration above zero, limited to `FOREVER`."""
    read = min(span(duration, what=what), FOREVER)
    if read <= 0:
        raise InvalidOptionError(f"{what} is {duration!r}", where=workflow, why="it must be above 0")
    return read


def check_priority(priority: Any, workflow: str) -> int:
    """A priority. Raises `InvalidOptionError` unless it is a whole number within bounds."""
    if type(priority) is not int or abs(priority) > PRIORITY_MAX:
        raise InvalidOptionError(
            f"priority is {priority!r}",
            where=workflow,
            why=f"a priority is a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}; higher is claimed first",
            fix="leave it out for 0",
        )
    return priority


def read_deadline(deadline: Deadline, now: Instant, delay: Span, workflow: str) -> Instant:
    """When a run must have ended, by the store's clock."""
    if isinstance(deadline, datetime):
        at = to_instant(deadline, what="deadline")
    else:
        at = Instant(now + min(span(deadline, what="deadline"), FOREVER))
    if at <= now:
        raise InvalidOptionError(
            f"deadline is {deadline!r}",
            where=workflow,
            why="that moment has passed by the store's clock",
            fix="a moment in the future, or a duration from now",
        )
    if at <= now + delay:
        raise InvalidOptionError(
            f"deadline is {deadline!r}",
            where=workflow,
            why="the run would not begin before it: its delay is at least as long",
            fix="a shorter delay, or a later deadline",
        )
    return at
