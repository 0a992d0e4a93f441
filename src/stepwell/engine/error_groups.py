"""Error groups: failures that have the same cause, as far as their text tells. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from stepwell.clock import to_datetime
from stepwell.engine.reasons import failures_of, origin_of, undone_path
from stepwell.errors.records import FailureRecord
from stepwell.model.failures import decode_failure
from stepwell.model.states import RunStatus
from stepwell.stores.base.damage import UNREADABLE
from stepwell.stores.base.overviews import Summary

SAMPLES_MAX: Final = 5
_MESSAGE_MAX: Final = 300

# What differs between failures with the same cause: ids, addresses and numbers.
_VARYING: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]+"
    r"|(?<![A-Za-z0-9])(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![A-Za-z0-9])"
    r"|[0-9]+(?:[.,:][0-9]+)*"
)
_BLANKS: Final = re.compile(r"\s+")
_INDEX: Final = re.compile(r"~[0-9]+(?=/|$)|(?<=#)[0-9]+")


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run with its failure, as far as a group needs it."""

    summary: Summary
    failure: FailureRecord | None

    @property
    def status(self) -> str:
        """The status of the run."""
        return self.summary.status.value

    @property
    def at(self) -> datetime:
        """When it ended, or else when it was created."""
        return to_datetime(self.summary.ended_at or self.summary.created_at)


class Fingerprint(NamedTuple):
    """What failures of one group have in common. A star stands for what differs."""

    workflow: str
    path: str
    type: str
    message: str

    @property
    def digest(self) -> str:
        """The fingerprint as a short word."""
        return hashlib.blake2b("\x1f".join(self).encode("utf-8", "replace"), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class SampleRun:
    """One run of a group."""

    run_id: str
    key: str | None
    version: int
    status: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures that have the same cause, as far as their text tells.

    `filter` finds them, and perhaps runs of other groups with the same type of error; it is empty if no filter can.
    """

    fingerprint: str
    workflow: str
    path: str
    type: str
    code: str
    message: str  # with a star for what differs
    latest: str  # the whole message of the latest
    count: int
    first_at: datetime
    last_at: datetime
    versions: Mapping[int, int]  # how many runs of each
    statuses: Mapping[str, int]
    samples: tuple[SampleRun, ...]  # the latest first
    filter: str


def group_errors(summaries: Iterable[Summary], *, samples_max: int | None = SAMPLES_MAX) -> list[ErrorGroup]:
    """The failures of these runs in groups, the largest group first. Runs without a failure are left out."""
    members: dict[Fingerprint, list[tuple[FailedRun, FailureRecord]]] = {}
    for summary in summaries:
        run = _failed(summary)
        found = None if run is None else _cause_of(run)
        if run is not None and found is not None:
            path, failure = found
            mark = Fingerprint(summary.workflow, _INDEX.sub(_star, path), failure.type, _normal(failure.message))
            members.setdefault(mark, []).append((run, failure))
    groups = [
        _group(mark, sorted(runs, key=lambda one: one[0].at, reverse=True), samples_max)
        for mark, runs in members.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, group.fingerprint))


def _failed(summary: Summary) -> FailedRun | None:
    if summary.failure is None:
        return None
    try:
        return FailedRun(summary, decode_failure(summary.failure))
    except UNREADABLE:
        return None


def _cause_of(run: FailedRun) -> tuple[str, FailureRecord] | None:
    """Where a run failed, and with what; for an incomplete rollback, the undo that failed."""
    own, stopped = failures_of(run)
    failure = stopped or own
    if failure is None:
        return None
    origin = origin_of(failure)
    is_undo = run.status == RunStatus.COMPENSATION_FAILED
    return (f"undo of {undone_path(origin.path)}" if is_undo else origin.path), origin.failure


def _star(found: re.Match[str]) -> str:
    return "~*" if found[0].startswith("~") else "*"


def _normal(message: str) -> str:
    """A message with a star for what differs between failures with the same cause."""
    first = _BLANKS.sub(" ", message[: 4 * _MESSAGE_MAX]).strip()
    return _VARYING.sub("*", first)[:_MESSAGE_MAX]


def _group(mark: Fingerprint, members: list[tuple[FailedRun, FailureRecord]], samples_max: int | None) -> ErrorGroup:
    (latest, failure), (earliest, _) = members[0], members[-1]
    runs = [run for run, _ in members]
    return ErrorGroup(
        mark.digest,
        *mark[:3],
        failure.code,
        mark.message,
        failure.message,
        len(members),
        earliest.at,
        latest.at,
        dict(sorted(Counter(run.summary.version for run in runs).items(), reverse=True)),
        dict(sorted(Counter(run.status for run in runs).items())),
        tuple(
            SampleRun(run.summary.run_id, run.summary.key, run.summary.version, run.status, run.at)
            for run in runs[:samples_max]
        ),
        _filter(mark, {run.status for run in runs}),
    )


def _filter(mark: Fingerprint, statuses: set[str]) -> str:
    """A line of the filter language that finds these runs."""
    terms = [f"status:{','.join(sorted(statuses))}", f"workflow:{_quoted(mark.workflow)}"]
    return " ".join([*terms, f"error:{_quoted(f'{mark.type}: ')}*"] if mark.type else terms)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
