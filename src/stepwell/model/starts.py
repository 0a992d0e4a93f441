"""What a start may ask for, and what it does to the run that has its key: decided once, for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepwell.advice import Advice, Verb
from stepwell.clock import SECOND, Instant
from stepwell.errors import AlreadyExistsError
from stepwell.ids import RunId
from stepwell.model.runs import Created, NewRun
from stepwell.model.states import RunStatus


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
