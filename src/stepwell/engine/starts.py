"""What is started, as the store knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stepwell.clock import Duration, span
from stepwell.errors import AlreadyExistsError
from stepwell.ids import RunId
from stepwell.model.runs import Created, NewRun, OnConflict, normal_key


class Start(NamedTuple):
    """One of several starts."""

    input: Any = None
    key: str | None = None
    run_id: str | None = None


class Started(NamedTuple):
    """What is started, as far as the store is concerned."""

    name: str
    version: int
    output_hint: Any


def new_runs(
    started: Started, inputs: Sequence[tuple[RunId, bytes, Start]], dedup: Duration, delay: Duration
) -> list[NewRun]:
    """The runs to create. Raises `InvalidOptionError` or `InvalidKeyError` before anything is written."""
    window, later = min(span(dedup, what="dedup"), span("36500d")), span(delay, what="delay")
    return [
        NewRun(
            run_id,
            started.name,
            started.version,
            stored,
            None if start.key is None else normal_key(start.key),
            delay=later,
            dedup=window,
            own_id=start.run_id is None,
        )
        for run_id, stored, start in inputs
    ]


def check_conflicts(created: Sequence[Created], new: Sequence[NewRun], on_conflict: OnConflict) -> None:
    """Raise `AlreadyExistsError` for a run id that is taken, and for a key that is if the caller wants to know."""
    for item, run in zip(created, new, strict=True):
        if item.is_duplicate_id:
            raise AlreadyExistsError(f"run id {run.run_id!r} is taken", fix="leave run_id out, or choose another")
        if not item.is_new and on_conflict == "raise":
            raise AlreadyExistsError(
                f"key {run.key!r} belongs to run {item.run_id}", fix='use on_conflict="get", or another key'
            )
