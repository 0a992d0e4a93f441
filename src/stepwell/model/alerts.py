"""Alert rules: what is watched, and when a rule fires. Pure functions over facts about runs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from stepwell.clock import SECOND, Instant, Span
from stepwell.ids import RunId
from stepwell.model.states import RunStatus

FAILURES: Final = frozenset({RunStatus.FAILED, RunStatus.COMPENSATED, RunStatus.COMPENSATION_FAILED})
NAMED_MAX: Final = 20  # runs that an alert names


class RuleKind(StrEnum):
    """What a rule watches."""

    FAILED = "failed"  # any failure, at once
    COUNT = "count"  # so many failures within a time
    CONSECUTIVE = "consecutive"  # so many failures in a row; a completion breaks the row
    STALLED = "stalled"  # no progress for a time, and nothing that will wake the run
    ROLLBACK_INCOMPLETE = "rollback_incomplete"
    OLDEST_READY = "oldest_ready"  # a run has been due for a time, and no worker has claimed it


class Rule(NamedTuple):
    """What a rule watches, in which workflow, and its limit."""

    kind: RuleKind
    workflow: str | None = None  # None: any
    least: int = 1  # failures
    within: Span = Span(0)  # the time of a count; for how long a run has stalled or been due

    def words(self) -> str:
        """The rule in words."""
        of = "any workflow" if self.workflow is None else self.workflow
        span = in_words(self.within)
        match self.kind:
            case RuleKind.FAILED:
                return f"{of}: a failure in the last {span}"
            case RuleKind.COUNT:
                return f"{of}: {self.least} failures within {span}"
            case RuleKind.CONSECUTIVE:
                return f"{of}: {self.least} failures in a row"
            case RuleKind.STALLED:
                return f"{of}: no progress for {span}"
            case RuleKind.ROLLBACK_INCOMPLETE:
                return f"{of}: a rollback is incomplete"
            case RuleKind.OLDEST_READY:
                return f"{of}: due for {span} without a worker"


class Measured(NamedTuple):
    """What a look at the store found for a rule."""

    is_firing: bool
    value: float  # how many, or for how many seconds
    runs: tuple[str, ...] = ()  # the runs that it is about, at most `NAMED_MAX`


class EndedRun(NamedTuple):
    """A run that has ended lately."""

    ended_at: Instant
    run_id: RunId
    workflow: str
    status: RunStatus


def measure_failures(rule: Rule, ended: Iterable[EndedRun], now: Instant) -> Measured:
    """Judge a rule about failures within a time, from the runs that ended lately."""
    failed = [
        one.run_id
        for one in ended
        if one.status in FAILURES and one.ended_at > now - rule.within and rule.workflow in (None, one.workflow)
    ]
    return Measured(len(failed) >= rule.least, len(failed), tuple(reversed(failed[-NAMED_MAX:])))


def measure_row(rule: Rule, newest_first: Iterable[tuple[RunId, RunStatus]]) -> Measured:
    """Judge a rule about failures in a row, from the last runs of a workflow that ended. A cancelled run neither
    continues nor breaks the row.
    """
    row: list[str] = []
    for run_id, status in newest_first:
        if status in FAILURES:
            row.append(run_id)
        elif status is RunStatus.COMPLETED:
            break
    return Measured(len(row) >= rule.least, len(row), tuple(row[:NAMED_MAX]))


def in_words(span: Span) -> str:
    """A duration as people write it: 10m, 1h, 14d."""
    seconds = span // SECOND
    for size, letter in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size}{letter}"
    return f"{seconds}s"
